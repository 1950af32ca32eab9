package outbound

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

// targetTransport sends deliveries to an http target of a route.
type targetTransport struct {
	requests TargetRequests
	client   Client
	now      func() time.Time
	hidden   hidden
}

func newTargetTransport(r TargetRequests, c Client, now func() time.Time) *targetTransport {
	secret := r.Authorization() // the URL is none: whoever may read the route is shown it
	return &targetTransport{r, c, now, hide([]string{secret.Reveal()}, credentials(secret))}
}

// Send implements Transport. It succeeds with an answer of 2xx, whatever follows its
// headers.
func (t *targetTransport) Send(ctx context.Context, s Sending) eventhook.Attempt {
	ctx, cancel := context.WithTimeout(ctx, t.requests.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: t.now()}
	return exchange(ctx, t.client, t.requests.Compose(s.Delivery, s.Attempt), a, t.hidden, t.now)
}
