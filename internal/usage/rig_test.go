package usage_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when every test begins.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

var (
	today    = noon.Truncate(24 * time.Hour)
	tomorrow = today.AddDate(0, 0, 1)
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var errDown = errors.New("the database is down")

type tenantDay struct {
	tenant eventhook.TenantID
	day    time.Time
}

type sum struct{ Events, Bytes int64 }

// store keeps the contract of usage.Store in memory, without its slots.
type store struct {
	mu      sync.Mutex
	err     error // of what is written
	readErr error
	days    map[tenantDay]sum
	spans   map[eventhook.SourceID]eventhook.SourceCount // of one span
	writes  int
	reads   int
}

func newStore() *store {
	return &store{days: map[tenantDay]sum{}, spans: map[eventhook.SourceID]eventhook.SourceCount{}}
}

var _ usage.Store = (*store)(nil)

func (s *store) CountTenants(ctx context.Context, _ int, counts []eventhook.TenantCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.err); err != nil {
		return err
	}
	s.writes++
	seen := map[tenantDay]bool{}
	for _, c := range counts {
		key := tenantDay{c.TenantID, c.Day}
		if seen[key] {
			return errors.New("a tenant's day occurs twice")
		}
		seen[key] = true
		have := s.days[key]
		s.days[key] = sum{have.Events + c.Events, have.Bytes + c.Bytes}
	}
	return nil
}

func (s *store) CountSources(ctx context.Context, _ int, counts []eventhook.SourceCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.err); err != nil {
		return err
	}
	s.writes++
	seen := map[eventhook.SourceID]bool{}
	for _, c := range counts {
		if seen[c.SourceID] {
			return errors.New("a source occurs twice")
		}
		seen[c.SourceID] = true
		have := s.spans[c.SourceID]
		c.Events, c.Failed = c.Events+have.Events, c.Failed+have.Failed
		s.spans[c.SourceID] = c
	}
	return nil
}

func (s *store) UsageBetween(ctx context.Context, from, until time.Time, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantCount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	sums := map[eventhook.TenantID]eventhook.TenantCount{}
	for _, id := range tenants {
		for key, have := range s.days {
			if key.tenant == id && !key.day.Before(from) && key.day.Before(until) {
				c := sums[id]
				sums[id] = eventhook.TenantCount{TenantID: id, Events: c.Events + have.Events, Bytes: c.Bytes + have.Bytes}
			}
		}
	}
	return sums, errors.Join(ctx.Err(), s.readErr)
}

func (s *store) set(change func(*store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// of is what is written down of a tenant, by day.
func (s *store) of(tenant eventhook.TenantID) map[time.Time]sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	days := map[time.Time]sum{}
	for key, have := range s.days {
		if key.tenant == tenant {
			days[key.day] = have
		}
	}
	return days
}

func (s *store) received() map[eventhook.SourceID]eventhook.SourceCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.spans)
}

// rig is a meter over a store in memory.
type rig struct {
	testing.TB
	clock *clock
	store *store
	meter *usage.Meter
}

const remembered = 10

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, clock: &clock{at: noon}, store: newStore()}
	r.meter = r.another()
	return r
}

// another is one more instance.
func (r *rig) another() *usage.Meter {
	return usage.New(remembered, r.store, slog.New(slog.DiscardHandler), r.clock.now)
}

func newSource(q eventhook.Quota) eventhook.Source {
	return eventhook.Source{ID: eventhook.NewID[eventhook.Source](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon), Quota: q}
}

func perDay(n int64) eventhook.Quota { return eventhook.Quota{MaxEventsPerDay: &n} }

func stored(n int64) eventhook.Quota { return eventhook.Quota{MaxStorageBytes: &n} }

func (r *rig) open(m *usage.Meter, s eventhook.Source) *usage.Account {
	r.Helper()
	a, err := m.Open(r.Context(), s)
	r.must(err)
	return a
}

// take asks for n events of some bytes each and returns how many passed.
func (r *rig) take(a *usage.Account, n, bytes int) (passed int) {
	for range n {
		if a.Take(bytes, r.clock.now()) == nil {
			passed++
		}
	}
	return passed
}

func (r *rig) wantTaken(a *usage.Account, n, bytes, want int) {
	r.Helper()
	if got := r.take(a, n, bytes); got != want {
		r.Errorf("of %d events of %d bytes %d passed, want %d", n, bytes, got, want)
	}
}

func (r *rig) flush(meters ...*usage.Meter) {
	r.Helper()
	for _, m := range append(meters, r.meter) {
		r.must(m.Flush(r.Context()))
	}
}

func (r *rig) must(err error) {
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
