package usage_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/internal/usage/usagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the start time of every test.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

var (
	today    = noon.Truncate(24 * time.Hour)
	tomorrow = today.AddDate(0, 0, 1)
)

var errDown = errors.New("the database is down")

type sum = usagetest.Sum

// fixture is a meter with a store in memory.
type fixture struct {
	testing.TB
	clock *clocktest.Clock
	store *usagetest.Store
	meter *usage.Meter
}

const cachedTenants = 10

func newFixture(t testing.TB) *fixture {
	r := &fixture{TB: t, clock: clocktest.New(noon), store: usagetest.NewStore()}
	r.meter = r.newInstance()
	return r
}

// newInstance returns the meter of one more instance.
func (r *fixture) newInstance() *usage.Meter {
	return usage.New(cachedTenants, r.store, slog.New(slog.DiscardHandler), r.clock.Now)
}

func newSource(q eventhook.Quota) eventhook.Source {
	return eventhook.Source{ID: eventhook.NewID[eventhook.Source](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon), Quota: q}
}

func perDay(n int64) eventhook.Quota { return eventhook.Quota{MaxEventsPerDay: &n} }

func stored(n int64) eventhook.Quota { return eventhook.Quota{MaxStorageBytes: &n} }

func (r *fixture) open(m *usage.Meter, s eventhook.Source) *usage.Account {
	r.Helper()
	a, err := m.Open(r.Context(), s)
	r.must(err)
	return a
}

// take counts n events of the given size each and returns how many passed.
func (r *fixture) take(a *usage.Account, n, bytes int) (passed int) {
	for range n {
		if a.Take(bytes, r.clock.Now()) == nil {
			passed++
		}
	}
	return passed
}

func (r *fixture) wantTaken(a *usage.Account, n, bytes, want int) {
	r.Helper()
	if got := r.take(a, n, bytes); got != want {
		r.Errorf("of %d events of %d bytes %d passed, want %d", n, bytes, got, want)
	}
}

func (r *fixture) flush(meters ...*usage.Meter) {
	r.Helper()
	for _, m := range append(meters, r.meter) {
		r.must(m.Flush(r.Context()))
	}
}

func (r *fixture) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
