package send

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook"
)

// Preparer is a Client that can authenticate a request for another program that sends it. Safe
// for concurrent use.
type Preparer interface {
	Client
	// Prepare returns a copy of a request with its authentication. Its error is that of
	// Exchange.
	Prepare(ctx context.Context, request *http.Request) (*http.Request, error)
	// Renew must be called before Prepare if the receiver has answered 401 to the previous attempt:
	// another instance may have composed it or got its result.
	Renew()
	// Answered must be called with the status of the answer to a prepared request, 0 without
	// one, and the beginning of its body, in which it masks the credentials. It reports whether
	// the answer rejects credentials that the next request has renewed.
	Answered(status int, beginning []byte) (isRenewed bool)
}

// Reported is an attempt at a delivery, counted from 1, that an agent has made. Its result has a
// status, or an error and its class.
type Reported struct {
	Delivery *eventhook.Delivery
	Attempt  int
	Result   eventhook.Attempt
	BodySize int64 // of the request, in bytes; -1 if it is not known
}

// agentSide composes requests that agents send, and completes their attempts.
type agentSide struct {
	client  Client
	hasAuth bool
	method  string
	url     *url.URL
	hidden  hidden
	deps    Deps
}

var errNotPrepared = errors.New("the auth of the destination cannot be used with target_labels")

// prepare returns an authenticated request in the span of the delivery's lease. a has the class
// and the text of an error.
func (s agentSide) prepare(ctx context.Context, d *eventhook.Delivery, request *http.Request, a *eventhook.Attempt) *http.Request {
	request.Header.Set("Traceparent", eventhook.Traceparent(d.Event.Trace(), leaseSpan(d), d.Event.TraceFlags()))
	prepared, err := request, error(nil)
	if p, ok := s.client.(Preparer); ok {
		if d.StatusCode == http.StatusUnauthorized {
			p.Renew()
		}
		prepared, err = p.Prepare(ctx, request)
	} else if s.hasAuth {
		err = errNotPrepared
	}
	if err != nil {
		a.Duration, a.ErrorClass, a.Error = s.deps.Now().Sub(a.StartedAt), classOf(err), err.Error()
		return nil
	}
	return prepared
}

// leaseSpan returns the span of the attempt of a lease. It is the same on every instance.
func leaseSpan(d *eventhook.Delivery) (id eventhook.SpanID) {
	n := binary.BigEndian.Uint64(d.ID[8:]) ^ uint64(d.Lease.Token)
	binary.BigEndian.PutUint64(id[:], max(n, 1))
	return id
}

// complete completes an attempt that an agent reports: with the class and the text of its status,
// and without secrets.
func (s agentSide) complete(r Reported) (a eventhook.Attempt, isRenewed bool) {
	d, a := r.Delivery, r.Result
	excerpt := []byte(a.Excerpt)
	if p, ok := s.client.(Preparer); ok {
		isRenewed = p.Answered(a.StatusCode, excerpt)
	}
	a.Excerpt = s.hidden.reported(string(excerpt))
	if a.StatusCode != 0 {
		a.ErrorClass, a.Error = Classify(s.url.Host, a.StatusCode)
	} else {
		a.Error = s.hidden.reported(a.Error)
	}
	request := &http.Request{Method: s.method, URL: s.url, ContentLength: r.BodySize,
		Header: http.Header{"Traceparent": {eventhook.Traceparent(d.Event.Trace(), leaseSpan(d), d.Event.TraceFlags())}}}
	s.deps.trace(Attempted{d, r.Attempt, request, a})
	return a, isRenewed
}

// reported returns a text that an agent reports as one line of at most eventhook.MaxExcerpt bytes,
// with all hidden texts redacted, also one that the agent has cut off at its end.
func (h hidden) reported(text string) string {
	const minPart = 4 // bytes; shorter texts occur in every answer
	for _, secret := range h {
		text = strings.ReplaceAll(text, secret, eventhook.Redacted)
	}
	for _, secret := range h {
		for n := min(len(secret)-1, len(text)); n >= minPart; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				text = text[:len(text)-n]
				break
			}
		}
	}
	return hidden(nil).excerpt([]byte(text))
}

// Compose returns the request of an attempt at a leased delivery, authenticated and ready to be
// sent by an agent. It contains every credential that the receiver must see, such as an
// Authorization header, the password of Basic authentication or an OAuth 2 access token, so a
// reader of the request can use these until they end. It never contains a signing secret, a client
// secret of OAuth 2 or a secret access key of AWS, with which requests are signed. The request is nil if it cannot be composed; then a is the attempt, as Send
// returns it.
func (r *Receiver) Compose(ctx context.Context, d *eventhook.Delivery, attempt int) (request *http.Request, a eventhook.Attempt) {
	ctx, cancel := context.WithTimeout(ctx, r.sub.Timeout())
	defer cancel()
	a = eventhook.Attempt{StartedAt: r.sender.deps.Now()}
	if request = r.compose(ctx, d, attempt, &a); request != nil {
		request = r.agentSide().prepare(ctx, d, request, &a)
	}
	if request == nil {
		r.sender.deps.trace(Attempted{d, attempt, nil, a})
	}
	return request, a
}

// Complete returns the result of an attempt with the class and the text of its status, and without
// secrets. isRenewed says that the receiver has rejected credentials that the next request has
// renewed: the gateway repeats its own requests at once then.
func (r *Receiver) Complete(sent Reported) (a eventhook.Attempt, isRenewed bool) {
	return r.agentSide().complete(sent)
}

func (r *Receiver) agentSide() agentSide {
	to := r.url
	if to == nil { // nothing can be sent to the subscription any more
		to = &url.URL{Host: "the receiver"}
	}
	return agentSide{r.client, !r.sub.Auth.IsZero(), http.MethodPost, to, r.hidden, r.sender.deps}
}

// Compose is Receiver.Compose for a target.
func (t *TargetTransport) Compose(ctx context.Context, d *eventhook.Delivery, attempt int) (request *http.Request, a eventhook.Attempt) {
	ctx, cancel := context.WithTimeout(ctx, t.requests.Timeout())
	defer cancel()
	a = eventhook.Attempt{StartedAt: t.deps.Now()}
	if request = t.agentSide().prepare(ctx, d, t.requests.Compose(d, attempt), &a); request == nil {
		t.deps.trace(Attempted{d, attempt, nil, a})
	}
	return request, a
}

// Complete is Receiver.Complete for a target.
func (t *TargetTransport) Complete(sent Reported) (a eventhook.Attempt, isRenewed bool) {
	return t.agentSide().complete(sent)
}

func (t *TargetTransport) agentSide() agentSide {
	return agentSide{t.client, t.requests.Auth() != nil, t.requests.Method(), t.requests.URL(), t.hidden, t.deps}
}
