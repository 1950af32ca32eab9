package verify

import (
	"context"

	"github.com/eventhook/eventhook"
)

// noneScheme lets everything pass. It must be asked for by name.
var noneScheme = scheme{
	validate:   func(Config, *eventhook.Faults) {},
	build:      func(Config, Keys) Verifier { return noneVerifier{} },
	coversBody: never,
}

type noneVerifier struct{}

func (noneVerifier) Verify(context.Context, *Request) error { return nil }

func (noneVerifier) CPUCost(*Request) int { return 0 }

// waiting refuses everything: the secret is still to come.
type waiting struct{}

var errWaiting = &Error{ReasonKey, "there is no secret yet: the provider's handshake has not come"}

// Unconfirmed refuses every request of a source whose handshake has brought a
// secret that nobody has confirmed yet.
type Unconfirmed struct{}

var errUnconfirmed = &Error{ReasonKey, "the secret that the handshake has brought counts after it was read with handshake/reveal"}

// Verify implements Verifier.
func (Unconfirmed) Verify(context.Context, *Request) error { return errUnconfirmed }

// CPUCost implements Verifier.
func (Unconfirmed) CPUCost(*Request) int { return 0 }

func (waiting) Verify(context.Context, *Request) error { return errWaiting }
func (waiting) CPUCost(*Request) int                   { return 0 }
