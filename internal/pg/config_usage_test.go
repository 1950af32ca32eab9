package pg

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/internal/usage/usagetest"
)

var _ usage.Store = (*DB)(nil)

var today = noon.Truncate(day)

func TestUsageCountsConformToTheStore(t *testing.T) {
	usagetest.Check(t, func(t *testing.T) usage.Store { return setUp(t).db })
}

func (f *fixture) countTenant(db *DB, slot int, day time.Time, events, bytes int64) {
	f.Helper()
	f.must(db.AddTenantCounts(f.Context(), slot, []eventhook.TenantCount{{TenantID: f.tenant, Day: day, Events: events, Bytes: bytes}}))
}

func (f *fixture) countSource(db *DB, slot int, at time.Time, events, failed int64) {
	f.Helper()
	f.must(db.AddSourceCounts(f.Context(), slot, []eventhook.SourceCount{
		{SourceID: f.crm, At: at.Truncate(eventhook.SourceCountSpan), Events: events, Failed: failed}}))
}

func (f *fixture) wantUsage(what string, want eventhook.TenantUsage) {
	f.Helper()
	got, err := f.db.TenantUsage(f.Context(), []eventhook.TenantID{f.tenant})
	f.must(err)
	same(f, what, got[f.tenant], want)
}

func (f *fixture) wantStats(what string, want eventhook.SourceStats) {
	f.Helper()
	got, err := f.db.SourceStats(f.Context(), []eventhook.SourceID{f.shop, f.crm})
	f.must(err)
	same(f, what, got[f.crm], want)
	if stats, ok := got[f.shop]; ok {
		f.Errorf("a source without events has %v, want no statistics", stats)
	}
}

func TestTenantUsageSumsInstancesAndDays(t *testing.T) {
	f := setUp(t)
	f.wantUsage("before the first event", eventhook.TenantUsage{})
	f.countTenant(f.db, 3, today, 10, 100)
	f.countTenant(f.other, 3, today, 5, 50) // both instances have the same slot
	f.countTenant(f.other, 4, today, 1, 10)
	f.countTenant(f.db, 3, today, -2, -20) // not stored after all
	f.countTenant(f.db, 3, today.Add(-day), 7, 1000)
	f.must(f.db.AddTenantCounts(t.Context(), 3, []eventhook.TenantCount{{TenantID: f.secondTenant(), Day: today, Events: 99, Bytes: 99}}))
	f.wantUsage("then", eventhook.TenantUsage{EventsToday: 14, StorageBytes: 1140})
	f.clock.Advance(12*time.Hour - 1)
	f.wantUsage("just before midnight", eventhook.TenantUsage{EventsToday: 14, StorageBytes: 1140})
	f.clock.Advance(1)
	f.wantUsage("at midnight", eventhook.TenantUsage{EventsToday: 0, StorageBytes: 1140})
}

func TestUsageBetweenDays(t *testing.T) {
	f := setUp(t)
	for ago := range 4 {
		f.countTenant(f.db, ago, today.AddDate(0, 0, -ago), 1<<ago, 10<<ago)
	}
	for _, c := range []struct {
		claim       string
		from, until time.Time
		events      int64
	}{
		{"today", today, today.Add(day), 1},
		{"all days before", time.Time{}, today, 2 + 4 + 8},
		{"the last day is excluded", today.Add(-2 * day), today, 2 + 4},
		{"nothing", today.Add(day), today.Add(9 * day), 0},
	} {
		got, err := f.db.UsageBetween(t.Context(), c.from, c.until, []eventhook.TenantID{f.tenant, eventhook.NewID[eventhook.Tenant](noon)})
		f.must(err)
		want := map[eventhook.TenantID]eventhook.TenantCount{}
		if c.events > 0 {
			want[f.tenant] = eventhook.TenantCount{TenantID: f.tenant, Events: c.events, Bytes: 10 * c.events}
		}
		same(t, c.claim, got, want)
	}
}

func TestSourceStats(t *testing.T) {
	f := setUp(t)
	f.wantStats("before the first event", eventhook.SourceStats{})
	f.countSource(f.db, 1, noon, 10, 1)
	f.countSource(f.other, 1, noon, 20, 2)
	f.countSource(f.other, 2, noon, 30, 0)
	f.countSource(f.db, 1, noon.Add(-time.Hour), 100, 10)
	f.countSource(f.db, 1, noon.Add(-time.Hour-1), 1000, 0)
	f.countSource(f.db, 1, noon.Add(-day), 10_000, 0)
	f.countSource(f.db, 1, noon.Add(-day-1), 100_000, 100)
	f.wantStats("now", eventhook.SourceStats{EventsLastHour: 160, EventsLast24h: 11_160, FailedLast24h: 13})
	f.clock.Advance(eventhook.SourceCountSpan - 1)
	f.wantStats("while its time span lasts", eventhook.SourceStats{EventsLastHour: 160, EventsLast24h: 11_160, FailedLast24h: 13})
	f.clock.Advance(1)
	f.wantStats("in the next span", eventhook.SourceStats{EventsLastHour: 60, EventsLast24h: 1160, FailedLast24h: 13})
	f.clock.Advance(day)
	f.wantStats("a day later", eventhook.SourceStats{})
}

// TestInstancesThatShareASlotDoNotDeadlock has instances count the same tenants and sources in
// different orders.
func TestInstancesThatShareASlotDoNotDeadlock(t *testing.T) {
	const tenants, rounds, instances = 50, 20, 4
	f := setUp(t)
	forward, backward := make([]eventhook.TenantCount, tenants), make([]eventhook.TenantCount, tenants)
	sources, reversed := make([]eventhook.SourceCount, tenants), make([]eventhook.SourceCount, tenants)
	for i := range tenants {
		c := eventhook.TenantCount{TenantID: eventhook.NewID[eventhook.Tenant](noon), Day: today, Events: 1, Bytes: 1}
		forward[i], backward[tenants-1-i] = c, c
		s := eventhook.SourceCount{SourceID: eventhook.NewID[eventhook.Source](noon), At: noon, Events: 1}
		sources[i], reversed[tenants-1-i] = s, s
	}
	var acts []func()
	for i := range instances {
		counts, received := forward, sources
		if i%2 == 1 {
			counts, received = backward, reversed
		}
		acts = append(acts, func() {
			for range rounds {
				if err := f.db.AddTenantCounts(t.Context(), 7, counts); err != nil {
					t.Error(err)
				}
				if err := f.db.AddSourceCounts(t.Context(), 7, received); err != nil {
					t.Error(err)
				}
			}
		})
	}
	concurrently(acts...)
	same(t, "rows of tenants", f.count("tenant_usage", "events = $1 AND bytes = $1", instances*rounds), tenants)
	same(t, "rows of sources", f.count("source_usage", "events = $1 AND failed = 0", instances*rounds), tenants)
}

func TestCountsChangeInPlace(t *testing.T) {
	f := setUp(t)
	for range 100 {
		f.countTenant(f.db, 1, today, 1, 1)
		f.countSource(f.db, 1, noon, 1, 0)
	}
	same(t, "rows", f.count("tenant_usage", "true")+f.count("source_usage", "true"), 2)
	const entries = `SELECT count(*)::int FROM pg_class c WHERE c.relname = $1 AND pg_relation_size(c.oid) > 2 * 8192`
	same(t, "indexes that grew", queryValue[int](f, entries, "tenant_usage_pkey")+queryValue[int](f, entries, "source_usage_pkey"), 0)
}

func TestSweepUsage(t *testing.T) {
	f := setUp(t)
	f.must(f.db.MaintainPartitions(t.Context(), 0, Retention{BodiesDays: 3}))
	f.countSource(f.db, 1, noon, 1, 0)
	f.countSource(f.db, 1, noon.Add(-24*time.Hour), 1, 0)
	f.countSource(f.db, 1, noon.Add(-25*time.Hour-time.Second), 1, 0)
	for ago := range 6 {
		f.countTenant(f.db, 1, today.AddDate(0, 0, -ago), 1, 1)
	}
	// The body of five days ago is still there: an execution that is not done
	// may need it.
	f.exec(`CREATE TABLE eventhook.event_payload_20260305 PARTITION OF eventhook.event_payload
		FOR VALUES FROM ('` + eventhook.FirstID[eventhook.Event](today.Add(-5*day)).String() + `') TO ('` + eventhook.FirstID[eventhook.Event](today.Add(-4*day)).String() + `')`)
	sweep := func(r Retention) int {
		t.Helper()
		n, err := f.db.SweepUsage(t.Context(), r)
		f.must(err)
		return n
	}
	same(t, "swept without a retention", sweep(Retention{}), 1)
	same(t, "swept", sweep(Retention{EventsDays: 9, BodiesDays: 3}), 1)
	same(t, "sources' spans left", f.count("source_usage", "true"), 2)
	f.wantUsage("then", eventhook.TenantUsage{EventsToday: 1, StorageBytes: 5})
	same(t, "days that are kept past their retention", f.count("tenant_usage", "day = '2026-03-05'"), 1)
	f.exec(`DROP TABLE eventhook.event_payload_20260305`)
	same(t, "swept when the bodies are dropped", sweep(Retention{EventsDays: 3}), 1)
	same(t, "swept again", sweep(Retention{EventsDays: 3}), 0)
}

// TestAQuotaIsExceededByTwoIntervalsOfOtherInstancesAtMost steps the flushes by hand: in each
// interval, each instance accepts events concurrently, and then flushes. The number of
// accepted events stays within the bound in the documentation.
func TestAQuotaIsExceededByTwoIntervalsOfOtherInstancesAtMost(t *testing.T) {
	const instances, perInterval, quota = 4, 100, 2017
	f := setUp(t)
	maxAccepted := int64(quota)
	source := eventhook.Source{ID: f.crm, TenantID: f.tenant, Quota: eventhook.Quota{MaxEventsPerDay: &maxAccepted}}
	meters, accounts := make([]*usage.Meter, instances), make([]*usage.Account, instances)
	for i := range meters {
		db := []*DB{f.db, f.other}[i%2]
		meters[i] = usage.New(10, db, slog.New(slog.DiscardHandler), f.clock.Now)
		account, err := meters[i].Open(t.Context(), source)
		f.must(err)
		accounts[i] = account
	}
	var accepted atomic.Int64
	for range 2 * quota / (instances * perInterval) {
		acts := make([]func(), instances)
		for i := range acts {
			acts[i] = func() {
				for range perInterval {
					if accounts[i].Take(1, f.clock.Now()) == nil {
						accepted.Add(1)
					}
				}
				if err := meters[i].Flush(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		concurrently(acts...)
		f.clock.Advance(time.Second)
	}
	const bound = 2 * perInterval * (instances - 1)
	n := accepted.Load()
	t.Logf("of a quota of %d, %d instances accepted %d", quota, instances, n)
	if n < quota || n > quota+bound {
		t.Errorf("%d events were accepted, want %d to %d", n, quota, quota+bound)
	}
	f.wantUsage("written down", eventhook.TenantUsage{EventsToday: n, StorageBytes: n})
	for i, a := range accounts {
		if a.Take(1, f.clock.Now()) == nil {
			t.Errorf("instance %d accepts more after all have flushed", i)
		}
	}
}

func TestSourcesHaveTheirTenantsQuota(t *testing.T) {
	f := setUp(t)
	meter := usage.New(10, f.db, slog.New(slog.DiscardHandler), f.clock.Now)
	takes := func() bool {
		t.Helper()
		s, err := f.db.FindSource(t.Context(), "acme", "crm")
		f.must(err)
		a, err := meter.Open(t.Context(), s)
		f.must(err)
		return a.Take(1, f.clock.Now()) == nil
	}
	same(t, "without a quota", takes(), true)
	f.exec(`UPDATE eventhook.tenant SET max_events_per_day = 1 WHERE id = $1`, [16]byte(f.tenant))
	same(t, "when the quota is used up", takes(), false)
	f.exec(`UPDATE eventhook.tenant SET max_events_per_day = 2 WHERE id = $1`, [16]byte(f.tenant))
	same(t, "when the quota was raised", takes(), true)
	same(t, "when the raised quota is used up", takes(), false)
	f.must(meter.Flush(t.Context()))
	f.wantUsage("counted", eventhook.TenantUsage{EventsToday: 2, StorageBytes: 2})
}
