package outbound

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

// HTTPSender sends deliveries as Standard Webhooks. It is a Sender.
type HTTPSender struct {
	client    Client
	userAgent string
	now       func() time.Time
	endpoints *lru.Cache[eventhook.SubscriptionID, *endpoint]
}

// mostEndpoints bounds the endpoints that are kept; a few kilobytes each.
const mostEndpoints = 10_000

// NewHTTPSender makes one that introduces itself as userAgent.
func NewHTTPSender(c Client, userAgent string, now func() time.Time) *HTTPSender {
	endpoints, _ := lru.New[eventhook.SubscriptionID, *endpoint](mostEndpoints) // fails for sizes below 1
	return &HTTPSender{client: c, userAgent: userAgent, now: now, endpoints: endpoints}
}

// Send makes an attempt. It succeeds with an answer of 2xx, whatever follows its
// headers. A subscription that nothing can be sent to, such as one whose secrets
// are lost, is eventhook.ErrorBlocked.
func (h *HTTPSender) Send(ctx context.Context, s Sending) eventhook.Attempt {
	a := eventhook.Attempt{StartedAt: h.now()}
	to, err := h.endpoint(s.Subscription)
	if err != nil {
		a.ErrorClass, a.Error = eventhook.ErrorBlocked, "nothing can be sent to this subscription: "+err.Error()
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, s.Subscription.Timeout())
	defer cancel()
	status, header, beginning, err := h.client.Exchange(ctx, to.request(s, a.StartedAt, h.userAgent), eventhook.MaxExcerpt+to.hidden.longest())
	now := h.now()
	a.Duration = now.Sub(a.StartedAt)
	if err != nil {
		a.ErrorClass, a.Error = classOf(err), err.Error()
		return a
	}
	a.StatusCode, a.Excerpt = status, to.hidden.excerpt(beginning)
	a.ErrorClass, a.Error = judge(to.url.Host, status)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		a.RetryAfter = eventhook.RetryAfter(header.Get("Retry-After"), now)
	}
	return a
}

// endpoint is kept for as long as the subscription is the same.
func (h *HTTPSender) endpoint(s *eventhook.Subscription) (*endpoint, error) {
	if e, ok := h.endpoints.Get(s.ID); ok && e.of == s {
		return e, nil
	}
	e, err := newEndpoint(s)
	if err == nil {
		h.endpoints.Add(s.ID, e)
	}
	return e, err
}

// judge is what a status means: "" for 2xx.
func judge(host string, status int) (class eventhook.ErrorClass, text string) {
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
