package send

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook"
)

// TargetRequests composes the requests to one http target of a route. Safe for concurrent
// use.
type TargetRequests interface {
	// Compose returns the request of an attempt at a delivery with its event. Attempts
	// count from 1. The body and the Idempotency-Key are the same at every attempt.
	Compose(d *eventhook.Delivery, attempt int) *http.Request
	Method() string
	URL() *url.URL
	Authorization() eventhook.Secret
	// Auth authenticates the requests; nil without one.
	Auth() *eventhook.Auth
	Timeout() time.Duration
	// TargetLabels are the labels of the agents that send the requests; nil: the gateway does.
	TargetLabels() []string
	// Retry returns the retry policy of the target, if it has its own.
	Retry() (policy eventhook.RetryPolicy, isOwn bool)
}

// TargetTransport sends deliveries to an http target of a route. It never changes and is
// safe for concurrent use.
type TargetTransport struct {
	requests TargetRequests
	client   Client
	hidden   hidden
	deps     Deps
}

// NewTargetTransport returns the transport of a target. It does not use the Transformer and
// the UserAgent of d. Its error is for an Auth that is not valid.
func NewTargetTransport(r TargetRequests, d Deps) (*TargetTransport, error) {
	client, err := d.clientFor(r.Auth())
	if err != nil {
		return nil, err
	}
	secret := r.Authorization() // the URL is not secret: every reader of the route sees it
	all := append(secretsOf(r.Auth()), secret.Reveal())
	return &TargetTransport{r, client, hide(all, credentials(secret)), d}, nil
}

// Send implements outbound.Transport. An answer with a status of 2xx is a success, even if
// its body breaks off.
func (t *TargetTransport) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	ctx, cancel := context.WithTimeout(ctx, t.requests.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: t.deps.Now()}
	request := t.requests.Compose(d, attempt)
	a = exchange(ctx, t.client, request, a, t.hidden, t.deps.Now)
	t.deps.trace(Attempted{d, attempt, request, a})
	return a
}
