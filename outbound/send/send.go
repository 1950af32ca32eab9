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

// Client makes requests to addresses that tenants choose. Package egress implements it.
type Client interface {
	// Exchange makes a request and returns the status and the headers of the answer, and
	// up to maxBytes of the beginning of its body. It ends when ctx ends. Its error
	// messages are shown to users: they contain no secret and no resolved address. An
	// error with a method Class() string returns an eventhook.ErrorClass.
	Exchange(ctx context.Context, request *http.Request, maxBytes int) (status int, header http.Header, beginning []byte, err error)
}

// Authenticator returns clients that authenticate their requests. Package outbound/auth
// implements it. Safe for concurrent use.
type Authenticator interface {
	// Client returns a client for an Auth that is valid. Its error is shown to users and
	// contains no secret.
	Client(a eventhook.Auth) (Client, error)
}

// Deps are the dependencies of a sender.
type Deps struct {
	Client        Client // without authentication
	Authenticator Authenticator
	Transformer   Transformer
	Tracer        Tracer // may be nil
	UserAgent     string
	Now           func() time.Time
}

// clientFor returns the client for an Auth, which is nil for the Client itself.
func (d Deps) clientFor(a *eventhook.Auth) (Client, error) {
	if a == nil {
		return d.Client, nil
	}
	return d.Authenticator.Client(*a)
}

// HTTPSender sends deliveries to subscriptions as Standard Webhooks. Safe for concurrent
// use.
type HTTPSender struct {
	deps      Deps
	receivers *lru.Cache[eventhook.SubscriptionID, *Receiver]
}

// maxReceivers bounds the cached receivers, which take a few kilobytes each.
const maxReceivers = 10_000

// NewHTTPSender returns a sender without cached receivers.
func NewHTTPSender(d Deps) *HTTPSender {
	receivers, _ := lru.New[eventhook.SubscriptionID, *Receiver](maxReceivers) // the error is for sizes below 1
	return &HTTPSender{deps: d, receivers: receivers}
}

// To returns the receiver of a subscription. It caches a receiver until it is called with
// another pointer for the same subscription. If the subscription cannot be sent to, each
// attempt of the receiver fails with the reason.
func (h *HTTPSender) To(s *eventhook.Subscription) *Receiver {
	if r, ok := h.receivers.Get(s.ID); ok && r.sub == s {
		return r
	}
	r, err := newReceiver(h, s)
	if err != nil {
		return &Receiver{sender: h, sub: s, blocked: err}
	}
	h.receivers.Add(s.ID, r)
	return r
}

// Cached returns a subscription in the state of its last send, or nil if it is not in the
// cache.
func (h *HTTPSender) Cached(id eventhook.SubscriptionID) *eventhook.Subscription {
	if r, ok := h.receivers.Peek(id); ok {
		return r.sub
	}
	return nil
}

// Send implements outbound.Transport. An answer with a status of 2xx is a success, even if
// its body breaks off.
func (r *Receiver) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	request, a := r.send(ctx, d, attempt)
	r.sender.deps.trace(Attempted{d, attempt, request, a})
	return a
}

// send makes an attempt. It also returns the request, or nil if none was sent.
func (r *Receiver) send(ctx context.Context, d *eventhook.Delivery, attempt int) (*http.Request, eventhook.Attempt) {
	ctx, cancel := context.WithTimeout(ctx, r.sub.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: r.sender.deps.Now()}
	request := r.compose(ctx, d, attempt, &a)
	if request == nil {
		return nil, a
	}
	return request, exchange(ctx, r.client, request, a, r.hidden, r.sender.deps.Now)
}

// compose returns the request of an attempt without its authentication, or nil if it cannot be
// composed. Then a says why.
func (r *Receiver) compose(ctx context.Context, d *eventhook.Delivery, attempt int, a *eventhook.Attempt) *http.Request {
	if r.blocked != nil {
		a.ErrorClass, a.Error = eventhook.ErrorBlocked, "nothing can be sent to this subscription: "+r.blocked.Error()
		return nil
	}
	m, err := r.message(ctx, d.Event)
	if err != nil {
		a.Duration = r.sender.deps.Now().Sub(a.StartedAt)
		*a = unsent(*a, err)
		return nil
	}
	return r.request(d, attempt, a.StartedAt, m)
}

// exchange makes a request and adds its outcome to the attempt.
func exchange(ctx context.Context, c Client, request *http.Request, a eventhook.Attempt, h hidden, clock func() time.Time) eventhook.Attempt {
	status, header, beginning, err := c.Exchange(ctx, request, eventhook.MaxExcerpt+h.longest())
	now := clock()
	a.Duration = now.Sub(a.StartedAt)
	if err != nil {
		a.ErrorClass, a.Error = classOf(err), err.Error()
		return a
	}
	a.StatusCode, a.Excerpt = status, h.excerpt(beginning)
	a.ErrorClass, a.Error = Classify(request.URL.Host, status)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		a.RetryAfter = eventhook.RetryAfter(header.Get("Retry-After"), now)
	}
	return a
}

// Classify returns the error class and the message of a status of a host's answer, both ""
// for 2xx.
func Classify(host string, status int) (class eventhook.ErrorClass, text string) {
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
	var classed interface{ Class() string }
	if errors.As(err, &classed) {
		return eventhook.ErrorClass(classed.Class())
	}
	return eventhook.ErrorClosed
}
