package outbound_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/targets"
)

var _ outbound.Directory = (*outbound.TargetDirectory)(nil)

const targetSecret = "Bearer t0ken-7f3a9c"

// routeStore is a RouteReader with one route.
type routeStore struct {
	route eventhook.Route
	retry eventhook.RetryPolicy
	err   error
	reads int
}

func (s *routeStore) RoutesForAgents(context.Context, eventhook.TenantID) ([]eventhook.RouteID, error) {
	return nil, nil
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
	read, faults := targets.Parse([]byte(text), nil)
	if len(faults) > 0 {
		t.Fatalf("%s: got %v", text, faults)
	}
	return read
}

// newRouteStore returns a store with a route that has an http target, a task, and an http target
// with its own retry policy.
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

func (s *routeStore) directory(c send.Client) *outbound.TargetDirectory {
	return outbound.NewTargetDirectory(outbound.TargetDeps{Routes: s, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Compile: func(_ eventhook.TenantID, t eventhook.Target) (*outbound.Target, error) {
			compiled, err := targets.New(t, targets.Deps{})
			if err != nil || t.Type != "http" {
				return nil, err
			}
			return outbound.HTTPTarget(compiled.(*targets.HTTP), send.Deps{Client: c, Now: time.Now})
		}})
}

func (s *routeStore) target(index int) eventhook.Destination {
	return eventhook.Destination{TenantID: s.route.TenantID, RouteID: s.route.ID, TargetIndex: index}
}

func TestTheDestinationsOfARouteAreItsHTTPTargets(t *testing.T) {
	store := newRouteStore(t, "https://internal.example/")
	d := store.directory(answering(200))
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
		e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now()), Payload: eventhook.Payload{Body: []byte("{}")}}
		if a := to.Transport.Send(t.Context(), &eventhook.Delivery{EventID: e.ID, Event: e}, 1); a.StatusCode != 200 {
			t.Errorf("target %d: got %+v, want the response of its client", c.index, a)
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

func TestAnInvalidatedRouteIsReadAgain(t *testing.T) {
	store := newRouteStore(t, "https://internal.example/")
	d := store.directory(answering(200))
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
		{"the source changes", func() {
			if got := d.InvalidateSource(store.route.SourceID); !cmp.Equal(got, []eventhook.TenantID{store.route.TenantID}) {
				t.Errorf("got the tenants %v, want the route's", got)
			}
		}},
		{"the tenant changes", func() { d.InvalidateTenant(store.route.TenantID) }},
		{"all routes are invalidated", func() { d.InvalidateAll() }},
	} {
		store.route.IsEnabled = true
		d.InvalidateAll()
		if !isReady() {
			t.Fatal("the target of an enabled route is not ready")
		}
		store.route.IsEnabled = false
		reads := store.reads
		d.InvalidateSource(eventhook.NewID[eventhook.Source](time.Now()))
		d.InvalidateTenant(eventhook.NewID[eventhook.Tenant](time.Now()))
		if !isReady() || store.reads != reads {
			t.Errorf("%s: the database was read too early", c.claim)
		}
		if c.forget(); isReady() {
			t.Errorf("%s: the target of a disabled route is ready", c.claim)
		}
	}
	store.err = errors.New("down")
	d.InvalidateAll()
	if _, err := d.Destination(t.Context(), store.target(0)); err == nil || eventhook.KindOf(err) == eventhook.KindNotFound {
		t.Errorf("got %v, want an error that does not make deliveries dead", err)
	}
}

// The deliveries wait, because the encryption key may be restored.
func TestATargetWhoseSecretIsLostIsNotReady(t *testing.T) {
	store := newRouteStore(t, "https://internal.example/")
	store.route.Targets[0].Secrets = eventhook.Secret{}
	to, err := store.directory(answering(200)).Destination(t.Context(), store.target(0))
	if err != nil || to.Ready {
		t.Errorf("got %+v, %v; want a destination that is not ready", to, err)
	}
}
