package outbound_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/targets"
)

var (
	_ outbound.Directory      = (*outbound.TargetDirectory)(nil)
	_ outbound.TargetRequests = (*targets.HTTP)(nil)
)

const targetSecret = "Bearer t0ken-7f3a9c"

// routeStore is a RouteReader with one route.
type routeStore struct {
	route eventhook.Route
	retry eventhook.RetryPolicy
	err   error
	reads int
}

func (s *routeStore) RouteToSend(_ context.Context, id eventhook.RouteID) (eventhook.Route, eventhook.RetryPolicy, error) {
	s.reads++
	if s.err == nil && id != s.route.ID {
		return eventhook.Route{}, eventhook.RetryPolicy{}, eventhook.NotFound("route")
	}
	return s.route, s.retry, s.err
}

func target(t *testing.T, text string) eventhook.Target {
	t.Helper()
	read, faults := targets.Read([]byte(text), nil)
	if len(faults) > 0 {
		t.Fatalf("%s: got %v", text, faults)
	}
	return read
}

// newRouteStore has a route to a receiver: an http target, a task, and an http target
// with a retry policy of its own.
func newRouteStore(t *testing.T, url string) *routeStore {
	t.Helper()
	now := time.Now()
	return &routeStore{retry: eventhook.RetryPolicy{MaxRetries: new(7)}, route: eventhook.Route{
		ID: eventhook.NewID[eventhook.Route](now), TenantID: eventhook.NewID[eventhook.Tenant](now), SourceID: eventhook.NewID[eventhook.Source](now), Version: 4,
		IsEnabled: true, Targets: []eventhook.Target{
			target(t, `{"type":"http","url":"`+url+`","auth_header":"`+targetSecret+`","timeout_seconds":3}`), target(t, `{"type":"task","task_kind":"k"}`),
			target(t, `{"type":"http","url":"`+url+`","retry":{"max_retries":1}}`),
		},
	}}
}

func (s *routeStore) directory(c outbound.Client) *outbound.TargetDirectory {
	return outbound.NewTargetDirectory(outbound.TargetDeps{Routes: s, Client: c, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Compile: func(t eventhook.Target) (outbound.TargetRequests, error) { return targets.NewHTTP(t) }})
}

func (s *routeStore) target(index int) eventhook.Destination {
	return eventhook.Destination{TenantID: s.route.TenantID, RouteID: s.route.ID, TargetIndex: index}
}

func TestTheDestinationsOfARouteAreItsHTTPTargets(t *testing.T) {
	store := newRouteStore(t, "https://internal.example/")
	d := store.directory(answering(200, ""))
	for _, c := range []struct {
		index   int
		retries int
		timeout time.Duration
	}{{0, 7, 3 * time.Second}, {2, 1, 10 * time.Second}} {
		to, err := d.Destination(t.Context(), store.target(c.index))
		if err != nil {
			t.Fatal(err)
		}
		if to.ID != store.target(c.index).ID() || !to.Ready || to.Slots != 10 || to.PerSecond != 0 || to.Timeout != c.timeout || to.Retry.Retries() != c.retries ||
			to.Retry.InitialDelayMS != eventhook.EventRetry.InitialDelayMS || to.DeadInRow != 0 || to.DisableGone || to.Version != 4 {
			t.Errorf("target %d: got %+v", c.index, to)
		}
	}
	for claim, of := range map[string]eventhook.Destination{
		"a task": store.target(1), "no target": store.target(3), "no route": {TenantID: store.route.TenantID, RouteID: eventhook.NewID[eventhook.Route](time.Now())},
	} {
		if _, err := d.Destination(t.Context(), of); eventhook.KindOf(err) != eventhook.KindNotFound {
			t.Errorf("%s: got %v, want KindNotFound", claim, err)
		}
	}
}

func TestAChangeOfARouteIsSeenWhenItIsTold(t *testing.T) {
	store := newRouteStore(t, "https://internal.example/")
	d := store.directory(answering(200, ""))
	isReady := func() bool {
		t.Helper()
		to, err := d.Destination(t.Context(), store.target(0))
		if err != nil {
			t.Fatal(err)
		}
		return to.Ready
	}
	for _, c := range []struct {
		claim  string
		forget func()
	}{
		{"its source has changed", func() {
			if got := d.Forget(store.route.SourceID); !cmp.Equal(got, []eventhook.TenantID{store.route.TenantID}) {
				t.Errorf("got the tenants %v, want the route's", got)
			}
		}},
		{"its tenant has changed", func() { d.ForgetTenant(store.route.TenantID) }},
		{"anything may have changed", func() { d.ForgetAll() }},
	} {
		store.route.IsEnabled = true
		d.ForgetAll()
		if !isReady() {
			t.Fatal("it is not ready, want an enabled route to be")
		}
		store.route.IsEnabled = false
		reads := store.reads
		d.Forget(eventhook.NewID[eventhook.Source](time.Now()))
		d.ForgetTenant(eventhook.NewID[eventhook.Tenant](time.Now()))
		if !isReady() || store.reads != reads {
			t.Errorf("%s: the database was read before that", c.claim)
		}
		if c.forget(); isReady() {
			t.Errorf("%s: it is ready, want a disabled route to wait", c.claim)
		}
	}
	store.err = errors.New("down")
	d.ForgetAll()
	if _, err := d.Destination(t.Context(), store.target(0)); err == nil || eventhook.KindOf(err) == eventhook.KindNotFound {
		t.Errorf("got %v, want an error that does not make deliveries dead", err)
	}
}

// Its deliveries wait, since the key may be found again.
func TestATargetWhoseSecretIsLostIsNotReady(t *testing.T) {
	store := newRouteStore(t, "https://internal.example/")
	store.route.Targets[0].Secrets = eventhook.Secret{}
	to, err := store.directory(answering(200, "")).Destination(t.Context(), store.target(0))
	if err != nil || to.Ready {
		t.Errorf("got %+v, %v; want a destination that is not ready", to, err)
	}
}

func TestATargetReceivesItsRequest(t *testing.T) {
	receiver := newSink(t, answer(200, "thanks, "+targetSecret))
	store := newRouteStore(t, receiver.URL+"/hook?a=b")
	to, err := store.directory(egress.New(egress.Policy{AllowPrivate: true})).Destination(t.Context(), store.target(0))
	if err != nil {
		t.Fatal(err)
	}
	e := newEvent()
	e.Origin, e.Envelope, e.Body = eventhook.OriginSource, nil, []byte(` {"amount":  1.50}`)
	d := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to.ID), RouteID: store.route.ID, EventID: e.ID, Event: e}
	a := to.Transport.Send(t.Context(), outbound.Sending{Delivery: d, Attempt: 2})
	if !a.Succeeded() || a.StatusCode != 200 || strings.Contains(a.Excerpt, "t0ken") || !strings.Contains(a.Excerpt, "thanks") {
		t.Errorf("got %+v, want a success without the secret", a)
	}
	r := receiver.last(t)
	if r.method != "POST" || r.path != "/hook?a=b" || string(r.body) != string(e.Body) || r.header.Get("Authorization") != targetSecret ||
		r.header.Get("X-Eventhook-Attempt") != "2" || r.header.Get("Idempotency-Key") != e.ID.String()+"/"+store.route.ID.String()+"/0" ||
		r.header.Get("X-Eventhook-Delivery-Id") != d.ID.String() {
		t.Errorf("received %s %s %s %v", r.method, r.path, r.body, r.header)
	}
	d.Body = []byte(`{"made":true}`)
	to.Transport.Send(t.Context(), outbound.Sending{Delivery: d, Attempt: 3})
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
		store := newRouteStore(t, "https://internal.example/")
		client := clientFunc(func(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
			return c.status, c.header, nil, nil
		})
		to, err := store.directory(client).Destination(t.Context(), store.target(0))
		if err != nil {
			t.Fatal(err)
		}
		got := to.Transport.Send(t.Context(), outbound.Sending{Delivery: &eventhook.Delivery{Event: newEvent()}, Attempt: 1})
		got.StartedAt, got.Duration = time.Time{}, 0
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
}
