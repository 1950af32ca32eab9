package send

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
)

// Client makes requests to addresses that others choose.
type Client interface {
	// Exchange makes a request and returns the answer's status and headers, with up
	// to most bytes of the beginning of its body. It ends when ctx does. What its
	// errors print is for people: no secret, no address that was resolved. One that
	// has a method Class() string says with it an eventhook.ErrorClass.
	Exchange(ctx context.Context, request *http.Request, most int) (status int, header http.Header, beginning []byte, err error)
}

// HTTPSender sends deliveries to subscriptions as Standard Webhooks.
type HTTPSender struct {
	client    Client
	userAgent string
	now       func() time.Time
	endpoints *lru.Cache[eventhook.SubscriptionID, *Endpoint]
}

// mostEndpoints bounds the endpoints that are kept; a few kilobytes each.
const mostEndpoints = 10_000

// NewHTTPSender makes one that introduces itself as userAgent.
func NewHTTPSender(c Client, userAgent string, now func() time.Time) *HTTPSender {
	endpoints, _ := lru.New[eventhook.SubscriptionID, *Endpoint](mostEndpoints) // fails for sizes below 1
	return &HTTPSender{client: c, userAgent: userAgent, now: now, endpoints: endpoints}
}

// To returns the endpoint of a subscription. It is kept for as long as the subscription
// is the same.
func (h *HTTPSender) To(s *eventhook.Subscription) *Endpoint {
	if e, ok := h.endpoints.Get(s.ID); ok && e.of == s {
		return e
	}
	e, err := newEndpoint(h, s)
	if err != nil {
		return &Endpoint{sender: h, of: s, blocked: err}
	}
	h.endpoints.Add(s.ID, e)
	return e
}

// Known returns a subscription as it was sent to last, nil if it was not lately.
func (h *HTTPSender) Known(id eventhook.SubscriptionID) *eventhook.Subscription {
	if e, ok := h.endpoints.Peek(id); ok {
		return e.of
	}
	return nil
}

// Send implements outbound.Transport. It succeeds with an answer of 2xx, whatever
// follows its headers.
func (e *Endpoint) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	a := eventhook.Attempt{StartedAt: e.sender.now()}
	if e.blocked != nil {
		a.ErrorClass, a.Error = eventhook.ErrorBlocked, "nothing can be sent to this subscription: "+e.blocked.Error()
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, e.of.Timeout())
	defer cancel()
	return exchange(ctx, e.sender.client, e.request(d, attempt, a.StartedAt, e.sender.userAgent), a, e.hidden, e.sender.now)
}

// exchange makes a request, and returns the attempt that has begun with its outcome.
func exchange(ctx context.Context, c Client, request *http.Request, a eventhook.Attempt, h hidden, clock func() time.Time) eventhook.Attempt {
	status, header, beginning, err := c.Exchange(ctx, request, eventhook.MaxExcerpt+h.longest())
	now := clock()
	a.Duration = now.Sub(a.StartedAt)
	if err != nil {
		a.ErrorClass, a.Error = classOf(err), err.Error()
		return a
	}
	a.StatusCode, a.Excerpt = status, h.excerpt(beginning)
	a.ErrorClass, a.Error = classify(request.URL.Host, status)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		a.RetryAfter = eventhook.RetryAfter(header.Get("Retry-After"), now)
	}
	return a
}

// classify is what a status means: "" for 2xx.
func classify(host string, status int) (class eventhook.ErrorClass, text string) {
	const success, redirect, client, server = 2, 3, 4, 5 // hundreds
	class = eventhook.ErrorHTTP
	switch status / 100 {
	case success:
		return "", ""
	case client:
		class = eventhook.ErrorHTTP4xx
	case server:
		class = eventhook.ErrorHTTP5xx
	}
	text = strings.TrimSpace(fmt.Sprintf("%s answered %d %s", host, status, http.StatusText(status)))
	if status/100 == redirect {
		text += "; redirects are not followed"
	}
	return class, text
}

func classOf(err error) eventhook.ErrorClass {
	var of interface{ Class() string }
	if errors.As(err, &of) {
		return eventhook.ErrorClass(of.Class())
	}
	return eventhook.ErrorClosed
}
