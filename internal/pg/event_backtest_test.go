package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestRoutesSeeAStoredEventAsAClaimedOne(t *testing.T) {
	f := setUp(t)
	e := f.event(func(e *eventhook.Event) { e.IdempotencyKey, e.SourceIP, e.RequestID = "k", "192.0.2.1", "r" })
	bare := f.event()
	f.must(f.db.Accept(t.Context(), arrivals(e, bare)))
	seen := map[eventhook.EventID]*eventhook.Event{}
	for _, id := range []eventhook.EventID{e.ID, bare.ID} {
		got, err := f.db.RoutedEvent(t.Context(), f.tenant, id)
		f.must(err)
		seen[id] = got
	}
	for _, claimed := range f.claimEvents(f.db, 2) {
		same(t, "its source", claimed.SourceSlug, "crm")
		claimed.Status, claimed.Lease = eventhook.EventPending, eventhook.Lease{}
		same(t, "the event", *seen[claimed.ID], *claimed)
	}
	_, err := f.db.RoutedEvent(t.Context(), f.secondTenant(), e.ID)
	same(t, "kind for another tenant", eventhook.KindOf(err), eventhook.KindNotFound)
	_, err = f.db.RoutedEvent(t.Context(), f.tenant, eventhook.NewID[eventhook.Event](noon))
	same(t, "kind for an unknown id", eventhook.KindOf(err), eventhook.KindNotFound)
}

// pastBodies returns the bodies of past events, page by page; "gone" if the payload is past its
// retention.
func (f *fixture) pastBodies(since time.Time, limit int) (pages [][]string) {
	f.Helper()
	var before eventhook.EventID
	for {
		events, next, err := f.db.PastEvents(f.Context(), f.tenant, f.crm, since, before, limit)
		f.must(err)
		var page []string
		for _, e := range events {
			text := string(e.Body)
			if e.Headers == nil {
				text = "gone"
			}
			page = append(page, text[:min(len(text), 4)])
		}
		pages = append(pages, page)
		if before = next; next.IsZero() {
			return pages
		}
	}
}

func TestPastEventsAreTheSourcesNewestFirst(t *testing.T) {
	f := setUp(t)
	add := func(body string, change ...func(*eventhook.Event)) *eventhook.Event {
		f.clock.Advance(time.Second)
		e := f.event(append(change, func(e *eventhook.Event) { e.Body, e.BodySize = []byte(body), len(body) })...)
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		return e
	}
	key := func(e *eventhook.Event) { e.IdempotencyKey = "k" }
	gone := add("1")
	add("2", key)
	add("3", func(e *eventhook.Event) { e.SourceID = f.shop })
	add("4", key) // a duplicate
	since := f.clock.Now()
	add("5")
	add("6")
	f.exec(`DELETE FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(gone.ID))
	same(t, "all", f.pastBodies(time.Time{}, 10), [][]string{{"6", "5", "2", "gone"}})
	same(t, "page by page", f.pastBodies(time.Time{}, 2), [][]string{{"6", "5"}, {"2"}, {"gone"}})
	same(t, "received after a time", f.pastBodies(since, 10), [][]string{{"6", "5"}})
	other, _, err := f.db.PastEvents(t.Context(), f.secondTenant(), f.crm, time.Time{}, eventhook.EventID{}, 10)
	f.must(err)
	same(t, "kind for another tenant", len(other), 0)
}

func TestPastEventsLimitsTheBytesOfAPage(t *testing.T) {
	f := setUp(t)
	large := make([]byte, maxPastBytes/2)
	for range 5 {
		f.clock.Advance(time.Second)
		e := f.event(func(e *eventhook.Event) { e.Body, e.BodySize = large, len(large) })
		f.must(f.db.Accept(t.Context(), arrivals(e)))
	}
	var sizes []int
	for _, page := range f.pastBodies(time.Time{}, 100) {
		sizes = append(sizes, len(page))
	}
	same(t, "events in each page", sizes, []int{2, 2, 1})
}
