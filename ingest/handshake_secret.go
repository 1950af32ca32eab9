package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
)

// Handshakes that send the secret of a source. Any sender can send such a handshake, so a
// source learns a secret only while it has no secret. Some secrets take effect at once; they
// are only accepted within eventhook.HandshakeWindow after the source was created or reset.
// Where a user must confirm the secret, it is accepted at any time and takes effect when it
// has been shown to a user (see learnedSecrets).

// Learner stores a secret that a handshake has sent. It is atomic: of several calls for
// one source, on any instances, one succeeds; all other and later calls return an error of
// KindConflict.
type Learner interface {
	StoreLearnedSecret(ctx context.Context, id eventhook.SourceID, secret eventhook.Secret) error
}

// learnHeader learns the secret that Asana sends and expects back. The secret takes effect at
// once, so it is only accepted within eventhook.HandshakeWindow.
func learnHeader(in received) (*reply, *refusal) {
	const name = "X-Hook-Secret"
	secret, found, ok := in.header(name)
	switch {
	case !found || !in.source.awaitsSecret:
		return nil, nil
	case in.At.Sub(in.source.config.HandshakeOpenedAt) > eventhook.HandshakeWindow:
		return nil, &refusal{outcome: OutcomeUnverified, reason: reasonHandshakeClosed,
			detail: "a secret is only accepted within an hour after the source was created; handshake/reset allows the handshake for another hour"}
	case !ok || !isSecret(secret):
		return nil, malformed("X-Hook-Secret is not a secret of 8 to 512 printable characters")
	}
	return emptyReply().with(name, secret).learning(secret), nil
}

// learnMember learns the secret that Notion sends. A user then copies it from the gateway to
// Notion; the secret takes effect when it has been shown to the user.
func learnMember(in received) (*reply, *refusal) {
	secret, found, ok := onlyMember(in.Body, "verification_token")
	switch {
	case !found || !in.source.awaitsSecret:
		return nil, nil
	case !ok || !isSecret(secret):
		return nil, malformed("the verification_token is not a secret of 8 to 512 printable characters")
	}
	return emptyReply().learning(secret), nil
}

// isSecret limits what an unverified sender can store: 8 to 512 printable ASCII characters.
func isSecret(s string) bool {
	const minBytes, maxBytes = 8, 512
	return len(s) >= minBytes && len(s) <= maxBytes && isPrintable(s)
}

// learning makes the reply store a secret before it is sent.
func (p *reply) learning(secret string) *reply {
	p.action = func(ctx context.Context, h *Handler, in received) *refusal {
		return h.learn(ctx, in, eventhook.NewSecret(secret))
	}
	return p
}

var errNoLearner = errors.New("no Learner is configured")

// learn stores the secret and invalidates the cached source, which has no secret. If another
// request has stored a secret before, learn refuses this one with a 401.
func (h *Handler) learn(ctx context.Context, in received, secret eventhook.Secret) *refusal {
	const timeout = 5 * time.Second
	if h.learner == nil {
		return &refusal{outcome: OutcomeFailed, cause: errNoLearner}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := h.learner.StoreLearnedSecret(ctx, in.source.config.ID, secret)
	switch {
	case err == nil:
		h.InvalidateSource(in.at.tenant, in.at.source)
		h.log.Info("a source learned its secret from its provider's handshake", "tenant", in.at.tenant, "source", in.at.source)
		return nil
	case eventhook.KindOf(err) == eventhook.KindConflict:
		h.InvalidateSource(in.at.tenant, in.at.source)
		return &refusal{outcome: OutcomeUnverified, reason: reasonSecretKnown, detail: "the source already has a secret"}
	}
	return &refusal{outcome: OutcomeFailed, cause: fmt.Errorf("learn the secret: %w", err)}
}
