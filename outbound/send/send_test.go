package send_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/send"
)

var _ send.Client = (*egress.Client)(nil)

func TestRequestOfADelivery(t *testing.T) {
	receiver := newSink(t, answer(200, "thanks"))
	s, e := newSubscription(receiver.URL+"/hook?a=b"), newEvent()
	s.Headers = map[string]string{"x-env": "prod"}
	at := time.Now()
	sending := sendingOf(s, e, 3)
	a := newSender(func() time.Time { return at }).Send(t.Context(), sending)
	if want := (eventhook.Attempt{StartedAt: at, StatusCode: 200, Excerpt: "thanks"}); !a.Succeeded() || !cmp.Equal(a, want) {
		t.Errorf("got %+v, want %+v", a, want)
	}
	r := receiver.last(t)
	if r.method != "POST" || r.path != "/hook?a=b" || r.proto != "HTTP/1.1" || string(r.body) != string(send.Body(e)) {
		t.Errorf("received %s %s %s %s", r.method, r.path, r.proto, r.body)
	}
	parent := r.header.Get("Traceparent")
	if !regexp.MustCompile("^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-00$").MatchString(parent) || strings.Contains(parent, "0000000000000000") {
		t.Errorf("got the traceparent %s, want the trace of the event with a new span", parent)
	}
	signature := r.header.Get("Webhook-Signature")
	if !strings.HasPrefix(signature, "v1,") {
		t.Errorf("got the signature %s", signature)
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(r.body))}, "User-Agent": {"eventhook/1.2.3"}, "Authorization": {authHeader}, "X-Env": {"prod"},
		"Webhook-Id": {e.ID.String()}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature},
		"X-Eventhook-Signature": {plainSignature(r.body, currentSecret)}, "X-Eventhook-Event-Id": {e.ID.String()}, "X-Eventhook-Event-Type": {"payment.succeeded"},
		"X-Eventhook-Delivery-Id": {sending.Delivery.ID.String()}, "X-Eventhook-Attempt": {"3"}, "X-Eventhook-Hops": {"1"}, "X-Eventhook-Trace-Id": {"0af7651916cd43dd8448eb211c80319c"},
		"Traceparent": {parent}, "X-Request-Id": {"req-1"},
	}
	if diff := cmp.Diff(want, r.header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestHeaderPrefix(t *testing.T) {
	receiver := newSink(t, answer(200, ""))
	for prefix, want := range map[string]string{"": "X-Eventhook", "X-Eventhook": "X-Eventhook", "x-acme": "X-Acme", "Brokkr": "Brokkr"} {
		s, e := newSubscription(receiver.URL), newEvent()
		s.HeaderPrefix = prefix
		sending := sendingOf(s, e, 2)
		newSender(time.Now).Send(t.Context(), sending)
		r := receiver.last(t)
		got := map[string]string{}
		for name := range r.header {
			if end, ok := strings.CutPrefix(name, want+"-"); ok && end != "Hops" {
				got[end] = r.header.Get(name)
			}
			if want != "X-Eventhook" && strings.HasPrefix(name, "X-Eventhook-") && name != "X-Eventhook-Hops" {
				t.Errorf("%q: received %s", prefix, name)
			}
		}
		if diff := cmp.Diff(map[string]string{"Signature": plainSignature(r.body, currentSecret), "Event-Id": e.ID.String(), "Event-Type": e.EventType,
			"Delivery-Id": sending.Delivery.ID.String(), "Attempt": "2", "Trace-Id": e.TraceID}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", prefix, diff)
		}
	}
}

// Attempts of a delivery have the same body and id, and different spans.
func TestAttemptsAreTheSameMessage(t *testing.T) {
	receiver := newSink(t, answer(500, ""))
	sender, sending := newSender(time.Now), sendingOf(newSubscription(receiver.URL), newEvent(), 1)
	sender.Send(t.Context(), sending)
	sending.Attempt = 2
	sender.Send(t.Context(), sending)
	first, second := receiver.last(t), receiver.last(t)
	for _, name := range []string{"Webhook-Id", "X-Eventhook-Delivery-Id", "X-Eventhook-Trace-Id", "X-Eventhook-Signature"} {
		if first.header.Get(name) != second.header.Get(name) {
			t.Errorf("%s: got %s, then %s", name, first.header.Get(name), second.header.Get(name))
		}
	}
	if string(first.body) != string(second.body) || first.header.Get("Traceparent") == second.header.Get("Traceparent") {
		t.Errorf("got the bodies %s and %s, the spans %s and %s", first.body, second.body, first.header.Get("Traceparent"), second.header.Get("Traceparent"))
	}
}

func TestHeadersOfUnusualEvents(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*eventhook.Event)
		header string
		want   string
	}{
		{"a type that is not ASCII", func(e *eventhook.Event) { e.EventType = "zahlung.geprüft" }, "X-Eventhook-Event-Type", "zahlung.gepr%C3%BCft"},
		{"a type with a line break", func(e *eventhook.Event) { e.EventType = "a\r\nX-Env: b" }, "X-Eventhook-Event-Type", "a%0D%0AX-Env:%20b"},
		{"a type with a percent sign", func(e *eventhook.Event) { e.EventType = "100%.done" }, "X-Eventhook-Event-Type", "100%25.done"},
		{"a request id with a line break", func(e *eventhook.Event) { e.RequestID = "a\r\nX-Env: b" }, "X-Request-Id", ""},
		{"a request id with a space", func(e *eventhook.Event) { e.RequestID = "req 1" }, "X-Request-Id", "req 1"},
		{"a request id that is not ASCII", func(e *eventhook.Event) { e.RequestID = "ü" }, "X-Request-Id", ""},
		{"no request id", func(e *eventhook.Event) { e.RequestID = "" }, "X-Request-Id", ""},
		{"no trace", func(e *eventhook.Event) { e.TraceID = "" }, "X-Eventhook-Trace-Id", "the event's id"},
		{"an invalid trace", func(e *eventhook.Event) { e.TraceID = strings.Repeat("x", 32) }, "X-Eventhook-Trace-Id", "the event's id"},
		{"a trace of zeros", func(e *eventhook.Event) { e.TraceID = strings.Repeat("0", 32) }, "X-Eventhook-Trace-Id", "the event's id"},
	} {
		e := newEvent()
		c.change(e)
		if c.want == "the event's id" {
			c.want = strings.ReplaceAll(e.ID.String(), "-", "")
		}
		r := sent(t, newSubscription(""), e, time.Now())
		if got := r.header.Get(c.header); got != c.want {
			t.Errorf("%s: got %q, want %q", c.claim, got, c.want)
		}
		if c.header == "X-Eventhook-Trace-Id" && !strings.Contains(string(r.body), `"trace_id":"`+c.want+`"`) {
			t.Errorf("%s: the body has another value: %s", c.claim, r.body)
		}
		if _, smuggled := r.header["X-Env"]; smuggled {
			t.Errorf("%s: the event type added a header", c.claim)
		}
	}
}

func TestTraceFlags(t *testing.T) {
	for claim, c := range map[string]struct{ flags, want string }{
		"none": {"", "-01"}, "sampled": {"01", "-01"}, "not sampled": {"00", "-00"}, "more": {"03", "-03"}, "no flags": {"x1", "-01"}, "too many": {"001", "-01"},
	} {
		e := newEvent()
		e.Envelope.TraceFlags = c.flags
		if got := sent(t, newSubscription(""), e, time.Now()).header.Get("Traceparent"); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got %s, want the suffix %s", claim, got, c.want)
		}
	}
}

// A custom header of a subscription never replaces a header of the gateway, even if one is
// stored.
func TestCustomHeadersDoNotReplaceHeadersOfTheGateway(t *testing.T) {
	s := newSubscription("")
	s.Headers = map[string]string{
		"content-type": "text/plain", "webhook-id": "x", "WEBHOOK-SIGNATURE": "x", "webhook-timestamp": "x", "x-eventhook-attempt": "x", "user-agent": "x",
		"authorization": "x", "traceparent": "x", "x-env": "prod",
	}
	r := sent(t, s, newEvent(), time.Now())
	for name, values := range r.header {
		if len(values) != 1 || values[0] == "x" || values[0] == "text/plain" {
			t.Errorf("%s: got %q", name, values)
		}
	}
	if r.header.Get("X-Env") != "prod" || !verifies(t, r, currentSecret) {
		t.Errorf("got %v", r.header)
	}
}

func TestOutcomeOfResponses(t *testing.T) {
	type outcome struct {
		class eventhook.ErrorClass
		text  string
		after time.Duration
	}
	for _, c := range []struct {
		status int
		want   outcome
	}{
		{200, outcome{}}, {204, outcome{}}, {299, outcome{}},
		{302, outcome{eventhook.ErrorHTTP, "HOST answered 302 Found; redirects are not followed", 0}},
		{400, outcome{eventhook.ErrorHTTP4xx, "HOST answered 400 Bad Request", 0}},
		{410, outcome{eventhook.ErrorHTTP4xx, "HOST answered 410 Gone", 0}},
		{429, outcome{eventhook.ErrorHTTP4xx, "HOST answered 429 Too Many Requests", 2 * time.Minute}},
		{500, outcome{eventhook.ErrorHTTP5xx, "HOST answered 500 Internal Server Error", 0}},
		{503, outcome{eventhook.ErrorHTTP5xx, "HOST answered 503 Service Unavailable", 2 * time.Minute}},
		{599, outcome{eventhook.ErrorHTTP5xx, "HOST answered 599", 0}},
		{999, outcome{eventhook.ErrorHTTP, "HOST answered 999", 0}},
	} {
		receiver := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(c.status)
		})
		a := newSender(time.Now).Send(t.Context(), sendingOf(newSubscription(receiver.URL+"/hook"), newEvent(), 1))
		c.want.text = strings.Replace(c.want.text, "HOST", strings.TrimPrefix(receiver.URL, "http://"), 1)
		if got := (outcome{a.ErrorClass, a.Error, a.RetryAfter}); got != c.want || a.StatusCode != c.status || a.Succeeded() != (c.want.class == "") {
			t.Errorf("%d: got %+v, want %+v", c.status, a, c.want)
		}
		if got := len(receiver.got); got != 1 {
			t.Errorf("%d: got %d requests, want 1", c.status, got)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	for want, err := range map[eventhook.ErrorClass]error{eventhook.ErrorTLS: classed("tls"), eventhook.ErrorTimeout: classed("timeout"), eventhook.ErrorClosed: errors.New("it broke")} {
		var took time.Duration
		now := func() time.Time { return eventTime.Add(took) }
		sender := newSenderOver(clientFunc(func(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
			took = 3 * time.Second
			return 0, nil, nil, err
		}), "", now)
		a := sender.Send(t.Context(), sendingOf(newSubscription("https://hooks.example/"), newEvent(), 1))
		if diff := cmp.Diff(eventhook.Attempt{StartedAt: eventTime, Duration: 3 * time.Second, ErrorClass: want, Error: err.Error()}, a); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

type classed string

func (c classed) Error() string { return "it failed: " + string(c) }
func (c classed) Class() string { return string(c) }

// The policy refuses private addresses, and no request is sent.
func TestAPrivateAddressIsBlocked(t *testing.T) {
	receiver := newSink(t, answer(200, ""))
	sender := newSenderOver(egress.New(egress.Policy{}), "", time.Now)
	a := sender.Send(t.Context(), sendingOf(newSubscription(receiver.URL), newEvent(), 1))
	if a.ErrorClass != eventhook.ErrorBlocked || len(receiver.got) != 0 {
		t.Errorf("got %+v and %d requests, want the class blocked", a, len(receiver.got))
	}
}

func TestInvalidSubscriptionsAreNotSentTo(t *testing.T) {
	asked := false
	sender := newSenderOver(clientFunc(func(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
		asked = true
		return 200, nil, nil, nil
	}), "", time.Now)
	for claim, change := range map[string]func(*eventhook.Subscription){
		"its secrets are lost": func(s *eventhook.Subscription) {
			s.SecretsLost, s.SubscriptionSecrets = true, eventhook.SubscriptionSecrets{}
		},
		"no URL":                       func(s *eventhook.Subscription) { s.URL = eventhook.Secret{} },
		"an invalid URL":               func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://hush%zz/") },
		"no secret":                    func(s *eventhook.Subscription) { s.Signing = nil },
		"ed25519 only, without a seed": func(s *eventhook.Subscription) { s.Signatures = []string{"v1a"} },
	} {
		s := newSubscription("https://hooks.example/")
		change(s)
		a := sender.Send(t.Context(), sendingOf(s, newEvent(), 1))
		if a.ErrorClass != eventhook.ErrorBlocked || a.Error == "" || asked {
			t.Errorf("%s: got %+v, sent %t; want the class blocked", claim, a, asked)
		}
		checkNoSecret(t, claim, a.Error, "hush", currentSecret)
	}
}

// Each attempt uses the current state of its subscription.
func TestAChangedSubscription(t *testing.T) {
	receiver := newSink(t, answer(200, ""))
	sender, s := newSender(time.Now), newSubscription(receiver.URL)
	sender.Send(t.Context(), sendingOf(s, newEvent(), 1))
	changed := *s
	changed.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(olderSecret)}}
	sender.Send(t.Context(), sendingOf(&changed, newEvent(), 1))
	if first, second := receiver.last(t), receiver.last(t); !verifies(t, first, currentSecret) || !verifies(t, second, olderSecret) {
		t.Error("a request is signed with the secret of the other state")
	}
}

func TestTimeoutOfTheSubscription(t *testing.T) {
	for seconds, want := range map[int]time.Duration{0: 30 * time.Second, 7: 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			sender := newSenderOver(clientFunc(func(ctx context.Context, _ *http.Request, _ int) (int, http.Header, []byte, error) {
				<-ctx.Done()
				return 0, nil, nil, classed("timeout")
			}), "", time.Now)
			s := newSubscription("https://hooks.example/")
			s.TimeoutSeconds = seconds
			if a := sender.Send(t.Context(), sendingOf(s, newEvent(), 1)); a.Duration != want || a.ErrorClass != eventhook.ErrorTimeout {
				t.Errorf("%d: got %+v, want a timeout after %s", seconds, a, want)
			}
		})
	}
}

// If a receiver closes an idle connection at the moment at which it is reused, the attempt does not
// fail.
func TestAClosedIdleConnectionCostsNoAttempt(t *testing.T) {
	requests := 0
	receiver := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 2 {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}
	})
	sender, s := newSender(time.Now), newSubscription(receiver.URL)
	for range 2 {
		if a := sender.Send(t.Context(), sendingOf(s, newEvent(), 1)); !a.Succeeded() {
			t.Errorf("got %+v, want a success", a)
		}
	}
	for range 3 {
		if _, isSent := receiver.last(t).header["Idempotency-Key"]; isSent {
			t.Error("got an Idempotency-Key header, want none")
		}
	}
}
