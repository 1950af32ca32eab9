package pg

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// TestScansAgreeWithTheData compares filters that no index serves with the same selection
// in memory, with steps that are smaller than the result.
func TestScansAgreeWithTheData(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	umbrella := f.secondTenant()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	var all []eventhook.Event
	for i := range 40 {
		e := f.event(f.withLease, func(e *eventhook.Event) {
			e.EventType = []string{"invoice.paid", "invoice.sent", "invoices", "push"}[i%4]
			e.TraceID = []string{"", trace, "0af7651916cd43dd8448eb211c80319c"}[i%3]
			e.RequestID = []string{"", "r-1"}[i/2%2]
			if i%5 == 0 {
				e.TenantID, e.SourceID = umbrella, eventhook.SourceID{1}
			}
		})
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		all = append(all, *e)
		f.clock.Advance(37 * time.Minute)
	}
	slices.Reverse(all)
	derived := all[6].Trace() // it has no trace id of its own
	filters := []eventhook.EventFilter{{}, {EventType: "invoice.*"}, {EventType: "invoice.paid"}, {TraceID: trace}, {TraceID: derived}, {RequestID: "r-1"},
		{Status: eventhook.EventDead}, {EventType: "invoice.*", TraceID: trace, RequestID: "r-1"}}
	for _, tenant := range []eventhook.TenantID{{}, f.tenant, umbrella} {
		for _, filter := range filters {
			filter.ReceivedAfter, filter.Limit = noon.Add(time.Hour), 4
			var want []eventhook.EventID
			for _, e := range all {
				if (tenant.IsZero() || e.TenantID == tenant) && e.ID.Time().After(filter.ReceivedAfter) && matchesUnindexed(&e, filter) {
					want = append(want, e.ID)
				}
			}
			same(t, fmt.Sprintf("%v %+v", tenant, filter), f.scanAll(tenant, filter, scanLimits{step: 7, rows: 1 << 20, time: time.Hour}), want)
		}
	}
}

// matchesUnindexed reports whether an event matches the filters that no index serves, its type and
// its status.
func matchesUnindexed(e *eventhook.Event, f eventhook.EventFilter) bool {
	prefix, isPattern := eventhook.TypePrefix(f.EventType)
	hasType := f.EventType == "" || e.EventType == f.EventType || isPattern && strings.HasPrefix(e.EventType, prefix)
	return hasType && (f.TraceID == "" || e.Trace() == f.TraceID) && (f.RequestID == "" || e.RequestID == f.RequestID) &&
		(f.Status == "" || e.Status == f.Status)
}

// scanAll reads all pages of a list.
func (f *fixture) scanAll(tenant eventhook.TenantID, filter eventhook.EventFilter, limits scanLimits) (ids []eventhook.EventID) {
	f.Helper()
	for {
		found, err := f.db.scanEvents(f.Context(), tenant, filter, limits)
		f.must(err)
		for _, e := range found.Events {
			ids = append(ids, e.ID)
		}
		if filter.Before = found.Next; found.Next.IsZero() {
			return ids
		}
	}
}

func TestAScanEndsWithItsBudgetAndContinues(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(2_000, 0)
	filter := eventhook.EventFilter{RequestID: "none", Limit: 50}
	limits := scanLimits{step: 100, rows: 500, time: time.Hour}
	pages, examined := 0, 0
	for {
		found, err := f.db.scanEvents(t.Context(), f.tenant, filter, limits)
		f.must(err)
		same(t, "events", len(found.Events), 0)
		pages, examined = pages+1, examined+found.Scanned
		if filter.Before = found.Next; found.Next.IsZero() {
			break
		}
		same(t, "examined by a page", found.Scanned, 500)
	}
	same(t, "examined by all pages", examined, f.count("event", "tenant_id = $1", [16]byte(f.tenant)))
	if pages < 4 {
		t.Errorf("%d pages, want at least 4", pages)
	}
	limits.time = 0
	found, err := f.db.scanEvents(t.Context(), f.tenant, eventhook.EventFilter{RequestID: "none", Limit: 50}, limits)
	f.must(err)
	same(t, "examined without time", found.Scanned, 100)
}
