package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
)

// Handshakes that bring the secret. They come from anybody, so they are heard
// only by a source that has none yet, and a secret counts at once only within
// eventhook.HandshakeWindow; see learned for the others.

// Learner stores a secret that a handshake has brought. It is atomic: of
// several calls for one source, on any instances, one succeeds, and the others
// fail with KindConflict, as every later one does.
type Learner interface {
	StoreLearnedSecret(ctx context.Context, id eventhook.SourceID, secret eventhook.Secret) error
}

// learnHeader takes the secret that Asana sends and wants back. It counts at
// once, so it must come soon after the source was created or reset.
func learnHeader(c challenge) (*reply, *refused) {
	const name = "X-Hook-Secret"
	secret, found, ok := c.header(name)
	switch {
	case !found || !c.end.waiting:
		return nil, nil
	case c.At.Sub(c.end.source.HandshakeOpenedAt) > eventhook.HandshakeWindow:
		return nil, &refused{outcome: OutcomeUnverified, reason: "handshake_closed",
			detail: "a secret is taken within an hour after the source was created; handshake/reset opens the handshake for another hour"}
	case !ok || !isSecret(secret):
		return nil, malformed("X-Hook-Secret is not a secret of 8 to 512 printable characters")
	}
	return emptyReply().with(name, secret).learning(secret), nil
}

// learnMember takes the secret that Notion sends. A person then reads it and
// copies it to Notion.
func learnMember(c challenge) (*reply, *refused) {
	secret, found, ok := onlyMember(c.Body, "verification_token")
	switch {
	case !found || !c.end.waiting:
		return nil, nil
	case !ok || !isSecret(secret):
		return nil, malformed("the verification_token is not a secret of 8 to 512 printable characters")
	}
	return emptyReply().learning(secret), nil
}

// isSecret bounds what is stored for who has proven nothing.
func isSecret(s string) bool {
	const least, most = 8, 512
	return len(s) >= least && len(s) <= most && isPrintable(s)
}

func (p *reply) learning(secret string) *reply {
	p.first = func(ctx context.Context, h *Handler, c challenge) *refused {
		return h.learn(ctx, c, eventhook.NewSecret(secret))
	}
	return p
}

var errNoLearner = errors.New("nothing stores secrets that handshakes bring")

// learn stores the secret and forgets the source as it was, without secret.
// Somebody else was faster: 401.
func (h *Handler) learn(ctx context.Context, c challenge, secret eventhook.Secret) *refused {
	const enough = 5 * time.Second
	if h.learner == nil {
		return &refused{outcome: OutcomeFailed, cause: errNoLearner}
	}
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	err := h.learner.StoreLearnedSecret(ctx, c.end.source.ID, secret)
	switch {
	case err == nil:
		h.InvalidateSource(c.at.tenant, c.at.source)
		h.log.Info("a source has its secret from its provider's handshake", "tenant", c.at.tenant, "source", c.at.source)
		return nil
	case eventhook.KindOf(err) == eventhook.KindConflict:
		h.InvalidateSource(c.at.tenant, c.at.source)
		return &refused{outcome: OutcomeUnverified, reason: "secret_known", detail: "the source has its secret already"}
	}
	return &refused{outcome: OutcomeFailed, cause: fmt.Errorf("learn the secret: %w", err)}
}
