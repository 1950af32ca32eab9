//go:build temporal

package temporal_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/outbound/temporal"
	"github.com/eventhook/eventhook/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is the API key of the fake.
const secret = "hunter2-is-secret"

// fixture sends deliveries to Temporal. Connections to this machine are allowed.
type fixture struct {
	testing.TB
	brokers *brokers.Brokers
	tenant  eventhook.TenantID
}

func setUp(t testing.TB) *fixture {
	t.Helper()
	return setUpWith(t, netip.MustParsePrefix("127.0.0.0/8"))
}

func setUpWith(t testing.TB, allowed ...netip.Prefix) *fixture {
	t.Helper()
	f := &fixture{TB: t, tenant: eventhook.NewID[eventhook.Tenant](time.Now()), brokers: brokers.New(brokers.Deps{
		Dialer: egress.New(egress.Policy{AllowedCIDRs: allowed}), RootCAs: trusted().RootCAs, Name: "eventhook/test", Now: time.Now})}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.brokers.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return f
}

// target returns the destination of a target on a server, with more members; nil removes a member.
func (f *fixture) target(s *server, more map[string]any) *outbound.Target {
	f.Helper()
	return f.compile(map[string]any{"type": "workflow", "workflow_kind": "pay", "queue": "payments", "idempotency_key_path": "body.id"}, s, more)
}

// signal returns the destination of a signal.
func (f *fixture) signal(s *server, more map[string]any) *outbound.Target {
	f.Helper()
	return f.compile(map[string]any{"type": "promise", "signal_name": "paid", "idempotency_key_path": "body.id", "value_path": "body.v"}, s, more)
}

func (f *fixture) compile(members map[string]any, s *server, more map[string]any) *outbound.Target {
	f.Helper()
	maps.Copy(members, map[string]any{"engine": "temporal", "address": s.address, "namespace": "acme", "api_key": secret})
	maps.Copy(members, more)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	read, faults := targets.Parse(must(json.Marshal(members)), nil)
	if len(faults) > 0 {
		f.Fatalf("%v: %v", members, faults)
	}
	return must(temporal.Target(f.brokers, f.tenant, must(targets.New(read, targets.Deps{})).(*targets.Temporal)))
}

// delivery returns a delivery of an event with a body.
func (f *fixture) delivery(body string) *eventhook.Delivery {
	now := time.Now()
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](now), TenantID: f.tenant, SourceSlug: "shop", Origin: eventhook.OriginSource,
		EventType: "order.created", ContentType: "application/json", RequestID: "req-1", BodySize: len(body)}
	e.Body = []byte(body)
	return &eventhook.Delivery{ID: eventhook.NewID[eventhook.Delivery](now), EventID: e.ID, TenantID: f.tenant, Event: e}
}

func (f *fixture) send(to *outbound.Target, d *eventhook.Delivery) eventhook.Attempt {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	return to.Transport.Send(ctx, d, 1)
}

// sent sends a delivery, which must succeed with a status code.
func (f *fixture) sent(to *outbound.Target, d *eventhook.Delivery, code int) eventhook.Attempt {
	f.Helper()
	a := f.send(to, d)
	if !a.Succeeded() || a.StatusCode != code {
		f.Fatalf("got %d, %q: %s; want success with %d", a.StatusCode, a.ErrorClass, a.Error, code)
	}
	return a
}

// fails sends a delivery, which must fail with one of the classes, and an error that has a part and no
// secret.
func (f *fixture) fails(to *outbound.Target, d *eventhook.Delivery, part string, classes ...eventhook.ErrorClass) eventhook.Attempt {
	f.Helper()
	a := f.send(to, d)
	if !slices.Contains(classes, a.ErrorClass) || !strings.Contains(a.Error, part) || a.Error == "" {
		f.Errorf("got %q: %s; want one of %q and %q", a.ErrorClass, a.Error, classes, part)
	}
	if strings.Contains(a.Error, secret) || strings.Contains(a.Error, "127.0.0.1:") && !strings.Contains(to.Address, "127.0.0.1:") {
		f.Errorf("the error %q tells a secret or an address", a.Error)
	}
	return a
}

const order = `{"id":"order-7","v":{"paid":true}}`

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
