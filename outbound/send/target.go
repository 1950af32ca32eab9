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
	URL() *url.URL
	Authorization() eventhook.Secret
	Timeout() time.Duration
	// Retry returns the retry policy of the target, if it has its own.
	Retry() (policy eventhook.RetryPolicy, isOwn bool)
}

// TargetTransport sends deliveries to an http target of a route. It never changes and is
// safe for concurrent use.
type TargetTransport struct {
	requests TargetRequests
	client   Client
	now      func() time.Time
	hidden   hidden
}

// NewTargetTransport returns the transport of a target.
func NewTargetTransport(r TargetRequests, c Client, now func() time.Time) *TargetTransport {
	secret := r.Authorization() // the URL is not secret: every reader of the route sees it
	return &TargetTransport{r, c, now, hide([]string{secret.Reveal()}, credentials(secret))}
}

// Send implements outbound.Transport. An answer with a status of 2xx is a success, even if
// its body breaks off.
func (t *TargetTransport) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	ctx, cancel := context.WithTimeout(ctx, t.requests.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: t.now()}
	return exchange(ctx, t.client, t.requests.Compose(d, attempt), a, t.hidden, t.now)
}
