package send

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook"
)

// TargetRequests composes the requests to one http target of a route. Compose returns
// the request of an attempt, counted from 1, at a delivery with its event: the body and
// the Idempotency-Key are the same at every attempt. Safe for concurrent use.
type TargetRequests interface {
	Compose(d *eventhook.Delivery, attempt int) *http.Request
	URL() *url.URL
	Authorization() eventhook.Secret
	Timeout() time.Duration
	Retry() (policy eventhook.RetryPolicy, isOwn bool)
}

// TargetTransport sends deliveries to an http target of a route. It never changes.
type TargetTransport struct {
	requests TargetRequests
	client   Client
	now      func() time.Time
	hidden   hidden
}

// NewTargetTransport returns the transport of a target.
func NewTargetTransport(r TargetRequests, c Client, now func() time.Time) *TargetTransport {
	secret := r.Authorization() // the URL is none: whoever may read the route is shown it
	return &TargetTransport{r, c, now, hide([]string{secret.Reveal()}, credentials(secret))}
}

// Send implements outbound.Transport. It succeeds with an answer of 2xx, whatever
// follows its headers.
func (t *TargetTransport) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	ctx, cancel := context.WithTimeout(ctx, t.requests.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: t.now()}
	return exchange(ctx, t.client, t.requests.Compose(d, attempt), a, t.hidden, t.now)
}
