package verify

import (
	"context"
	"crypto/rand"

	"github.com/eventhook/eventhook"
)

// noneScheme accepts every request. It is used only if it is configured explicitly.
var noneScheme = scheme{
	validate:   func(Config, *eventhook.Faults) {},
	build:      func(Config, Keys) Verifier { return noneVerifier{} },
	coversBody: never,
}

type noneVerifier struct{}

func (noneVerifier) Verify(context.Context, *Request) error { return nil }

func (noneVerifier) CPUCost(*Request) int { return 0 }

// awaitingSecret refuses every request until the handshake has delivered the secret.
type awaitingSecret struct{}

var errAwaitingSecret = &Error{ReasonKey, "there is no secret yet: the provider has not sent its handshake"}

// Unconfirmed refuses every request of a source whose handshake has delivered a
// secret that no operator has confirmed yet.
type Unconfirmed struct{}

var errUnconfirmed = &Error{ReasonKey, "the secret from the handshake is not active yet: read it with handshake/reveal"}

// Verify implements Verifier.
func (Unconfirmed) Verify(context.Context, *Request) error { return errUnconfirmed }

// CPUCost implements Verifier.
func (Unconfirmed) CPUCost(*Request) int { return 0 }

func (awaitingSecret) Verify(context.Context, *Request) error { return errAwaitingSecret }
func (awaitingSecret) CPUCost(*Request) int                   { return 0 }

// Closed returns a Spec that verifies no request: nobody knows its token.
func Closed() Spec {
	return Spec{Verifier: &Config{Type: "api_key", Header: "Authorization", Values: []string{rand.Text()}}}
}
