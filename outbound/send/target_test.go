package send_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/auth"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/targets"
)

var _ send.TargetRequests = (*targets.HTTP)(nil)

const targetSecret = "Bearer t0ken-7f3a9c"

// compiled returns an http target.
func compiled(t *testing.T, of eventhook.Target) *targets.HTTP {
	t.Helper()
	x, err := targets.New(of, targets.Deps{})
	requests, isHTTP := x.(*targets.HTTP)
	if !isHTTP {
		t.Fatalf("got %T, %v", x, err)
	}
	return requests
}

// newTarget returns the transport of a route's first target, which is sent to url.
func newTarget(t *testing.T, route eventhook.RouteID, url string, c send.Client) *send.TargetTransport {
	t.Helper()
	of, faults := targets.Parse([]byte(`{"type":"http","url":"`+url+`","auth_header":"`+targetSecret+`","timeout_seconds":3}`), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	of.RouteID = route
	requests := compiled(t, of)
	transport, err := send.NewTargetTransport(requests, send.Deps{Client: c, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func TestATargetReceivesItsRequest(t *testing.T) {
	receiver := newSink(t, answer(200, "thanks, "+targetSecret))
	route := eventhook.NewID[eventhook.Route](time.Now())
	to := newTarget(t, route, receiver.URL+"/hook?a=b", egress.New(egress.Policy{AllowPrivate: true}))
	e := newEvent()
	e.Origin, e.Envelope, e.Body = eventhook.OriginSource, nil, []byte(` {"amount":  1.50}`)
	d := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, eventhook.Destination{RouteID: route}.ID()), RouteID: route, EventID: e.ID, Event: e}
	a := to.Send(t.Context(), d, 2)
	if !a.Succeeded() || a.StatusCode != 200 || strings.Contains(a.Excerpt, "t0ken") || !strings.Contains(a.Excerpt, "thanks") {
		t.Errorf("got %+v, want a success without the secret", a)
	}
	r := receiver.last(t)
	if r.method != "POST" || r.path != "/hook?a=b" || string(r.body) != string(e.Body) || r.header.Get("Authorization") != targetSecret ||
		r.header.Get("X-Eventhook-Attempt") != "2" || r.header.Get("Idempotency-Key") != e.ID.String()+"/"+route.String()+"/0" ||
		r.header.Get("X-Eventhook-Delivery-Id") != d.ID.String() {
		t.Errorf("received %s %s %s %v", r.method, r.path, r.body, r.header)
	}
	d.Body = []byte(`{"made":true}`)
	to.Send(t.Context(), d, 3)
	if r := receiver.last(t); string(r.body) != `{"made":true}` {
		t.Errorf("received %s, want the stored body", r.body)
	}
}

func TestOutcomesOfATarget(t *testing.T) {
	for _, c := range []struct {
		claim  string
		status int
		header http.Header
		want   eventhook.Attempt
	}{
		{"204", 204, nil, eventhook.Attempt{StatusCode: 204}},
		{"a redirect", 302, nil, eventhook.Attempt{StatusCode: 302, ErrorClass: eventhook.ErrorHTTP, Error: "internal.example answered 302 Found; redirects are not followed"}},
		{"gone", 410, nil, eventhook.Attempt{StatusCode: 410, ErrorClass: eventhook.ErrorHTTP4xx, Error: "internal.example answered 410 Gone"}},
		{"503 for a while", 503, http.Header{"Retry-After": {"120"}},
			eventhook.Attempt{StatusCode: 503, ErrorClass: eventhook.ErrorHTTP5xx, Error: "internal.example answered 503 Service Unavailable", RetryAfter: 2 * time.Minute}},
		{"500 heeds none", 500, http.Header{"Retry-After": {"120"}}, eventhook.Attempt{StatusCode: 500, ErrorClass: eventhook.ErrorHTTP5xx, Error: "internal.example answered 500 Internal Server Error"}},
	} {
		client := clientFunc(func(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
			return c.status, c.header, nil, nil
		})
		to := newTarget(t, eventhook.NewID[eventhook.Route](time.Now()), "https://internal.example/", client)
		got := to.Send(t.Context(), &eventhook.Delivery{Event: newEvent()}, 1)
		got.StartedAt, got.Duration = time.Time{}, 0
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
}

func TestATargetAuthenticates(t *testing.T) {
	receiver := newSink(t, answer(200, "got p4ssword-7f3a9c"))
	of, faults := targets.Parse([]byte(`{"type":"http","url":"`+receiver.URL+`","auth":{"type":"basic","username":"u","password":"p4ssword-7f3a9c"}}`), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	requests := compiled(t, of)
	client := egress.New(egress.Policy{AllowPrivate: true})
	to, err := send.NewTargetTransport(requests, send.Deps{Client: client, Authenticator: auth.New(auth.Deps{Client: client, Now: time.Now}), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	a := to.Send(t.Context(), &eventhook.Delivery{Event: newEvent()}, 1)
	if !a.Succeeded() || a.Excerpt != "got [redacted]" {
		t.Errorf("got %+v, want a success without the password", a)
	}
	if r := receiver.last(t); r.header.Get("Authorization") != "Basic dTpwNHNzd29yZC03ZjNhOWM=" {
		t.Errorf("received %v", r.header)
	}
}
