package send_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/send"
)

// The secrets of the subscriptions of these tests.
const (
	currentSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	olderSecret   = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	authHeader    = "Bearer t0p-s3cret"
)

// unusualJSON is data that a JSON encoder would change: white space, a number
// that no float can represent, a duplicate member, escapes, and non-ASCII characters.
const unusualJSON = "{ \"a\" :\t1e400,\n\n \"big\":12345678901234567890123, \"a\":\"\\u00e9\\/<b>&\u2028\",\"ünï\": [ ] }"

var eventTime = time.Date(2026, 11, 22, 2, 44, 25, 123_000_000, time.UTC)

func newEvent() *eventhook.Event {
	return &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](eventTime), TenantID: eventhook.NewID[eventhook.Tenant](eventTime), Origin: eventhook.OriginAPI,
		EventType: "payment.succeeded", TraceID: "0af7651916cd43dd8448eb211c80319c", RequestID: "req-1", CorrelationID: "order-7",
		Envelope: &eventhook.Envelope{
			Category: "payments", Source: "stripe", Scope: json.RawMessage(`{"project": "p1"}`), Actor: json.RawMessage(`"ada"`),
			Metadata: json.RawMessage(`{"<k>":"a\"b","n":null}`), TraceFlags: "00",
		},
		Payload: eventhook.Payload{Body: []byte(unusualJSON)},
	}
}

func newSubscription(url string) *eventhook.Subscription {
	return &eventhook.Subscription{
		ID: eventhook.NewID[eventhook.Subscription](eventTime), Name: "billing", Status: eventhook.SubscriptionActive, EventTypes: []string{"*"},
		SubscriptionSecrets: eventhook.SubscriptionSecrets{
			URL: eventhook.NewSecret(url), AuthHeader: eventhook.NewSecret(authHeader),
			Signing: []eventhook.SigningSecret{{Secret: eventhook.NewSecret(currentSecret)}},
		},
	}
}

// sending is an attempt of a delivery to a subscription.
type sending struct {
	Delivery *eventhook.Delivery
	Attempt  int
	to       *eventhook.Subscription
}

func sendingOf(s *eventhook.Subscription, e *eventhook.Event, attempt int) sending {
	to := eventhook.DestinationID(s.ID)
	d := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID, DestinationID: to, SubscriptionID: s.ID, EventID: e.ID, EventType: e.EventType, Event: e}
	return sending{d, attempt, s}
}

// sender sends each attempt to its subscription.
type sender struct {
	*send.HTTPSender
}

func (h sender) Send(ctx context.Context, s sending) eventhook.Attempt {
	return h.To(s.to).Send(ctx, s.Delivery, s.Attempt)
}

// received is a request as the receiver gets it.
type received struct {
	method, path, proto string
	header              http.Header
	body                []byte
}

// sink is a receiver that records its requests.
type sink struct {
	*httptest.Server
	got chan received
}

// newSink starts a receiver that answers with h.
func newSink(t testing.TB, h http.HandlerFunc) *sink {
	t.Helper()
	s := &sink{got: make(chan received, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.got <- received{r.Method, r.RequestURI, r.Proto, r.Header, body}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// newQuietSink starts a receiver that answers and records nothing.
func newQuietSink(t testing.TB) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (s *sink) last(t *testing.T) received {
	t.Helper()
	select {
	case r := <-s.got:
		return r
	default:
		t.Fatal("nothing was received")
		return received{}
	}
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func newSender(now func() time.Time) sender {
	return newSenderOver(egress.New(egress.Policy{AllowPrivate: true}), "eventhook/1.2.3", now)
}

func newSenderOver(c send.Client, userAgent string, now func() time.Time) sender {
	return sender{send.NewHTTPSender(send.Deps{Client: c, Transformer: transforms, UserAgent: userAgent, Now: now})}
}

// clientFunc implements send.Client without a network.
type clientFunc func(ctx context.Context, r *http.Request, maxBytes int) (int, http.Header, []byte, error)

func (f clientFunc) Exchange(ctx context.Context, r *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	return f(ctx, r, maxBytes)
}

// answering returns a client whose response has a status and a text, cut to the requested length.
func answering(status int, text string) clientFunc {
	return func(_ context.Context, _ *http.Request, maxBytes int) (int, http.Header, []byte, error) {
		return status, http.Header{}, []byte(text[:min(len(text), maxBytes)]), nil
	}
}

// checkNoSecret fails the test if a text contains a secret.
func checkNoSecret(t *testing.T, claim, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s: %q shows %q", claim, text, secret)
		}
	}
}

// transforms is the Transformer of the tests. It runs no program: the expression is the
// result, or an error.
var transforms = transformFunc(func(_ context.Context, t *eventhook.Transform, event []byte) (json.RawMessage, error) {
	switch t.Expression {
	case "fails":
		return nil, &send.TransformError{Reason: "transform: it failed"}
	case "busy":
		return nil, &send.TransformError{Reason: "transform: busy", IsBusy: true}
	case "@":
		return event, nil
	}
	return json.RawMessage(t.Expression), nil
})

type transformFunc func(ctx context.Context, t *eventhook.Transform, event []byte) (json.RawMessage, error)

func (f transformFunc) Transform(ctx context.Context, _ eventhook.TenantID, t *eventhook.Transform, event []byte) (json.RawMessage, error) {
	return f(ctx, t, event)
}
