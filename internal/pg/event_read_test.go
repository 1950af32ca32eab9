package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func (f *fixture) list(db *DB, tenant eventhook.TenantID, filter eventhook.EventFilter) []eventhook.Event {
	f.Helper()
	list, err := db.Events(f.Context(), tenant, filter)
	f.must(err)
	return list
}

func TestEventsAreFiltered(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	var events []*eventhook.Event
	for i, change := range []func(*eventhook.Event){
		func(e *eventhook.Event) { e.EventType = "pull" },
		withKey("k"),
		func(e *eventhook.Event) { e.SourceID = f.shop },
		withKey("k"),
	} {
		e := f.event(f.withLease, change)
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		if i == 2 {
			f.settle(f.db, f.plan(e))
		}
		events = append(events, e)
		f.clock.Advance(8 * time.Hour) // beyond the last partition
	}
	at := func(i int) time.Time { return noon.Add(time.Duration(i) * 8 * time.Hour) }
	for _, c := range []struct {
		claim  string
		filter eventhook.EventFilter
		want   []int
	}{
		{"newest first", eventhook.EventFilter{}, []int{3, 2, 1, 0}},
		{"at most two", eventhook.EventFilter{Limit: 2}, []int{3, 2}},
		{"before a cursor", eventhook.EventFilter{Before: events[2].ID}, []int{1, 0}},
		{"by source", eventhook.EventFilter{Source: "shop"}, []int{2}},
		{"by an unknown source", eventhook.EventFilter{Source: "nowhere"}, nil},
		{"by status", eventhook.EventFilter{Status: eventhook.EventUnrouted}, []int{2}},
		{"duplicates", eventhook.EventFilter{Status: eventhook.EventDuplicate}, []int{3}},
		{"by type", eventhook.EventFilter{EventType: "pull"}, []int{0}},
		{"by key", eventhook.EventFilter{IdempotencyKey: "k"}, []int{3, 1}},
		{"received after, exclusive", eventhook.EventFilter{ReceivedAfter: at(1)}, []int{3, 2}},
		{"received before, exclusive", eventhook.EventFilter{ReceivedBefore: at(2)}, []int{1, 0}},
		{"received between", eventhook.EventFilter{ReceivedAfter: at(0), ReceivedBefore: at(2)}, []int{1}},
		{"before the earlier of two bounds", eventhook.EventFilter{Before: events[1].ID, ReceivedBefore: at(3)}, []int{0}},
		{"all filters", eventhook.EventFilter{Source: "crm", Status: eventhook.EventProcessing, EventType: "push", IdempotencyKey: "k"}, []int{1}},
	} {
		if c.filter.Limit == 0 {
			c.filter.Limit = 10
		}
		var got []int
		for _, e := range f.list(f.db, f.tenant, c.filter) {
			for i := range events {
				if events[i].ID == e.ID {
					got = append(got, i)
				}
			}
		}
		same(t, c.claim, got, c.want)
	}
}

func TestPagesOfEventsAreStable(t *testing.T) {
	f := setUp(t)
	const n = 25
	for range n {
		f.leasedEvents(1)
		f.clock.Advance(time.Millisecond)
	}
	all := f.list(f.db, f.tenant, eventhook.EventFilter{Limit: 100})
	var paged []eventhook.Event
	for cursor := (eventhook.EventID{}); ; cursor = paged[len(paged)-1].ID {
		page := f.list(f.other, f.tenant, eventhook.EventFilter{Before: cursor, Limit: 4})
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		f.leasedEvents(3) // arrive between two pages
		f.clock.Advance(time.Millisecond)
	}
	same(t, "all pages", paged, all)
}

func TestEventsOfAnotherTenantDoNotExist(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	umbrella := f.secondTenant()
	for _, other := range f.list(f.db, umbrella, eventhook.EventFilter{Limit: 10}) {
		same(t, "listed", other.EventType, "tenant.created")
	}
	_, err := f.db.Event(t.Context(), umbrella, e.ID)
	wantKind(t, "read", err, eventhook.KindNotFound)
	_, err = f.db.Event(t.Context(), f.tenant, eventhook.NewID[eventhook.Event](noon))
	wantKind(t, "an unknown event", err, eventhook.KindNotFound)
}

func TestActionsAreInOrder(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	var actions []effects.PlannedAction
	for range 20 {
		actions = append(actions, f.executionAction(eventhook.Task, ""))
	}
	f.settle(f.db, f.plan(e, actions...))
	for i, a := range f.actions(e) {
		same(t, fmt.Sprintf("action %d", i), a.ExecutionID, actions[i].Effect.Execution.ID)
	}
}
