package usagetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
)

// Check tests that the stores that open returns conform to usage.Store.
func Check(t *testing.T, open func(*testing.T) usage.Store) {
	for claim, check := range map[string]func(suite){
		"counts are added up by day":       suite.addsUp,
		"a cancelled write writes nothing": suite.writesNothingWhenCancelled,
		"a cancelled read fails":           suite.readsNothingWhenCancelled,
		"counts are added all or none":     suite.addsAllOrNone,
	} {
		t.Run(claim, func(t *testing.T) { check(suite{t, open(t)}) })
	}
}

type suite struct {
	*testing.T
	usage.Store
}

var (
	at    = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	today = at.Truncate(24 * time.Hour)
)

func newTenant() eventhook.TenantID { return eventhook.NewID[eventhook.Tenant](at) }

func on(days int, tenant eventhook.TenantID, events, bytes int64) eventhook.TenantCount {
	return eventhook.TenantCount{TenantID: tenant, Day: today.AddDate(0, 0, days), Events: events, Bytes: bytes}
}

func (s suite) count(slot int, counts ...eventhook.TenantCount) {
	s.Helper()
	if err := s.AddTenantCounts(s.Context(), slot, counts); err != nil {
		s.Fatal(err)
	}
}

// want checks that UsageBetween returns exactly these sums for the days, which are relative
// to today.
func (s suite) want(from, until int, tenants []eventhook.TenantID, want ...eventhook.TenantCount) {
	s.Helper()
	got, err := s.UsageBetween(s.Context(), today.AddDate(0, 0, from), today.AddDate(0, 0, until), tenants)
	if err != nil {
		s.Fatal(err)
	}
	sums := map[eventhook.TenantID]eventhook.TenantCount{}
	for _, c := range want {
		c.Day = time.Time{}
		sums[c.TenantID] = c
	}
	if diff := cmp.Diff(sums, got); diff != "" {
		s.Errorf("from day %d until %d (-want +got):\n%s", from, until, diff)
	}
}

func (s suite) addsUp() {
	a, b, idle := newTenant(), newTenant(), newTenant()
	all := []eventhook.TenantID{a, b, idle}
	s.count(0, on(0, a, 1, 10), on(-1, a, 2, 20), on(0, b, 4, 40))
	s.count(0, on(0, a, 8, 80), on(1, a, 16, 160))
	s.count(1, on(0, a, 32, 320))
	s.count(1, on(0, a, -1, -10)) // returned
	s.want(0, 1, all, on(0, a, 40, 400), on(0, b, 4, 40))
	s.want(-1, 1, all, on(0, a, 42, 420), on(0, b, 4, 40))
	s.want(-9, 0, all, on(0, a, 2, 20))
	s.want(0, 2, []eventhook.TenantID{a, idle}, on(0, a, 56, 560))
	s.want(2, 9, all)
	s.want(0, 1, nil)
}

func (s suite) cancelled() context.Context {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	return ctx
}

func (s suite) writesNothingWhenCancelled() {
	a, source := newTenant(), eventhook.NewID[eventhook.Source](at)
	if err := s.AddTenantCounts(s.cancelled(), 0, []eventhook.TenantCount{on(0, a, 1, 1)}); err == nil {
		s.Error("tenants: got no error, want one")
	}
	counts := []eventhook.SourceCount{{SourceID: source, At: at, Events: 1}}
	if err := s.AddSourceCounts(s.cancelled(), 0, counts); err == nil {
		s.Error("sources: got no error, want one")
	}
	sent := []eventhook.SubscriptionCount{{SubscriptionID: eventhook.NewID[eventhook.Subscription](at), At: at, Delivered: 1}}
	if err := s.AddSubscriptionCounts(s.cancelled(), 0, sent); err == nil {
		s.Error("subscriptions: got no error, want one")
	}
	traffic := []eventhook.TrafficCount{{TrafficOf: eventhook.TrafficOf{TenantID: a}, Span: eventhook.TrafficMinute, At: at}}
	if err := s.AddTraffic(s.cancelled(), 0, traffic); err == nil {
		s.Error("traffic: got no error, want one")
	}
	s.want(-9, 9, []eventhook.TenantID{a})
	if err := s.AddSourceCounts(s.Context(), 0, counts); err != nil {
		s.Errorf("sources, not cancelled: %v", err)
	}
	if err := s.AddSubscriptionCounts(s.Context(), 0, sent); err != nil {
		s.Errorf("subscriptions, not cancelled: %v", err)
	}
}

func (s suite) readsNothingWhenCancelled() {
	a := newTenant()
	s.count(0, on(0, a, 1, 1))
	if got, err := s.UsageBetween(s.cancelled(), today, at, []eventhook.TenantID{a}); err == nil {
		s.Errorf("got %v and no error, want one", got)
	}
}

func (s suite) addsAllOrNone() {
	a, b := newTenant(), newTenant()
	if err := s.AddTenantCounts(s.Context(), 0, []eventhook.TenantCount{on(0, a, 1, 1), on(0, b, 1, 1), on(0, a, 1, 1)}); err == nil {
		s.Error("a tenant's day occurs twice: got no error, want one")
	}
	s.want(-9, 9, []eventhook.TenantID{a, b})
	twice := eventhook.TrafficCount{TrafficOf: eventhook.TrafficOf{TenantID: a}, Span: eventhook.TrafficMinute, At: at}
	if err := s.AddTraffic(s.Context(), 0, []eventhook.TrafficCount{twice, twice}); err == nil {
		s.Error("a span occurs twice: got no error, want one")
	}
}
