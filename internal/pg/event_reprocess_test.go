package pg

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// endedEvent returns an event of crm with a status, a millisecond after the event before.
func (f *fixture) endedEvent(status eventhook.EventStatus, change ...func(*eventhook.Event)) *eventhook.Event {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	e := f.event(append(change, f.withLease)...)
	f.must(f.db.Accept(f.Context(), arrivals(e)))
	action := failedAction("down")
	switch status {
	case eventhook.EventProcessing:
		return e
	case eventhook.EventUnrouted:
		f.settle(f.db, f.plan(e))
		return e
	case eventhook.EventDelivered:
		action = f.executionAction(eventhook.Task, "")
	case eventhook.EventDead:
		action.Permanent = true
	default: // a retry is scheduled
	}
	f.settle(f.db, f.plan(e, action))
	same(f, "the event's state", f.storedEvent(e).Status, status)
	return e
}

func (f *fixture) reprocess(db *DB, which eventhook.EventSelection) []eventhook.EventID {
	f.Helper()
	ids, err := db.ReprocessEvents(f.Context(), operator, f.tenant, which)
	f.must(err)
	return ids
}

func ids(events ...*eventhook.Event) []eventhook.EventID {
	var list []eventhook.EventID
	for _, e := range events {
		list = append(list, e.ID)
	}
	return list
}

func TestReprocessedEventsStartAgain(t *testing.T) {
	f := setUp(t)
	e := f.event(f.withLease)
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	done, broken := f.executionAction(eventhook.Task, ""), failedAction("down")
	f.settle(f.db, f.plan(e, broken, done))
	here := f.db.EventsWake()
	same(t, "reprocessed", f.reprocess(f.db, eventhook.EventSelection{IDs: ids(e, e)}), ids(e))
	wantClosed(t, "this instance's processor", here)
	got := f.storedEvent(e)
	same(t, "status", got.Status, eventhook.EventPending)
	same(t, "retries", got.RetryCount, 0)
	same(t, "last error", got.LastError, "")
	same(t, "processed at", got.ProcessedAt, (*time.Time)(nil))

	claimed := f.claimEvents(f.other, 10)
	same(t, "claimed at once", len(claimed), 1)
	same(t, "with its payload", string(claimed[0].Body), `{}`)
	same(t, "an unused lease token", claimed[0].Lease.Token > e.Lease.Token+1, true)
	same(t, "actions that are kept", f.countDoneActions(e), 1)
	f.settle(f.other, f.plan(claimed[0], f.executionAction(eventhook.Task, ""), f.executionAction(eventhook.Task, "")))
	same(t, "status in the end", f.storedEvent(e).Status, eventhook.EventDelivered)
}

func TestALateSettleDoesNotUndoReprocessing(t *testing.T) {
	f := setUp(t)
	e := f.endedEvent(eventhook.EventDead)
	f.reprocess(f.db, eventhook.EventSelection{IDs: ids(e)})
	lost, err := f.db.SettleEvents(t.Context(), []*effects.Settlement{f.plan(e)})
	f.must(err)
	same(t, "leases lost", len(lost), 1)
	same(t, "status", f.storedEvent(e).Status, eventhook.EventPending)
}

func TestReprocessEventsSelects(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	failed, dead, unrouted := f.endedEvent(eventhook.EventFailed), f.endedEvent(eventhook.EventDead), f.endedEvent(eventhook.EventUnrouted)
	shops := f.endedEvent(eventhook.EventUnrouted, func(e *eventhook.Event) { e.SourceID = f.shop })
	delivered, processing := f.endedEvent(eventhook.EventDelivered), f.endedEvent(eventhook.EventProcessing)
	keyed := f.endedEvent(eventhook.EventDelivered, withKey("k"))
	duplicate := f.event(withKey("k"))
	f.must(f.db.Accept(t.Context(), arrivals(duplicate)))
	sourceless := f.endedEvent(eventhook.EventDead)
	f.exec(`UPDATE eventhook.event SET source_id = NULL, origin = 'system' WHERE id = $1`, [16]byte(sourceless.ID))
	bodyless := f.endedEvent(eventhook.EventDead)
	f.exec(`DELETE FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(bodyless.ID))
	all := ids(failed, dead, unrouted, shops, delivered, processing, keyed, duplicate, sourceless, bodyless)
	before := map[eventhook.EventID]eventhook.Event{}
	for _, e := range f.list(f.db, f.tenant, eventhook.EventFilter{Limit: 100}) {
		before[e.ID] = e
	}
	none := []eventhook.EventID{}
	type selection = eventhook.EventSelection
	type filter = eventhook.EventFilter
	for _, c := range []struct {
		claim string
		which selection
		want  []eventhook.EventID
	}{
		{"all reprocessable events", selection{IDs: all}, ids(shops, unrouted, dead, failed)},
		{"ids take precedence over a filter", selection{IDs: ids(dead), Filter: filter{Source: "shop", Limit: 1}}, ids(dead)},
		{"unknown ids", selection{IDs: []eventhook.EventID{eventhook.NewID[eventhook.Event](noon)}}, none},
		{"any status", selection{Filter: filter{Limit: 100}}, ids(shops, unrouted, dead, failed)},
		{"one status", selection{Statuses: []eventhook.EventStatus{eventhook.EventDead}, Filter: filter{Limit: 100}}, ids(dead)},
		{"a status that cannot be reprocessed", selection{Statuses: []eventhook.EventStatus{eventhook.EventDelivered}, Filter: filter{Limit: 100}}, none},
		{"the newest up to the limit", selection{Statuses: []eventhook.EventStatus{eventhook.EventUnrouted, eventhook.EventFailed}, Filter: filter{Limit: 2}}, ids(shops, unrouted)},
		{"a source by its slug", selection{Filter: filter{Source: "shop", Limit: 100}}, ids(shops)},
		{"a source by its id", selection{Filter: filter{SourceID: f.shop, Limit: 100}}, ids(shops)},
		{"a source id and the slug of another source", selection{Filter: filter{SourceID: f.shop, Source: "crm", Limit: 100}}, none},
		{"received after", selection{Filter: filter{ReceivedAfter: dead.ID.Time(), Limit: 100}}, ids(shops, unrouted)},
		{"received before", selection{Filter: filter{ReceivedBefore: dead.ID.Time(), Limit: 100}}, ids(failed)},
	} {
		got := f.reprocess(f.db, c.which)
		same(t, c.claim, got, c.want)
		moved := map[eventhook.EventID]bool{}
		for _, id := range got {
			moved[id] = true
		}
		for _, e := range f.list(f.db, f.tenant, eventhook.EventFilter{Limit: 100}) {
			if want := before[e.ID]; !moved[e.ID] {
				same(t, c.claim+": what is left alone", e, want)
			}
		}
		for id := range moved { // as it was
			e := before[id]
			f.exec(`UPDATE eventhook.event SET status = $2, due_at = CASE WHEN $2 = 'failed' THEN $3::timestamptz END, retry_count = $4, last_error = nullif($5, ''), processed_at = $6
				WHERE id = $1`, [16]byte(id), string(e.Status), e.NextRetryAt, e.RetryCount, e.LastError, e.ProcessedAt)
		}
	}
}

func TestReprocessingSkipsLockedEvents(t *testing.T) {
	f := setUp(t)
	locked, unlocked := f.endedEvent(eventhook.EventDead), f.endedEvent(eventhook.EventDead)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.event WHERE id = $1 FOR UPDATE`, [16]byte(locked.ID))
	f.must(err)
	same(t, "reprocessed", f.reprocess(f.db, eventhook.EventSelection{IDs: ids(locked, unlocked)}), ids(unlocked))
	f.must(tx.Rollback(t.Context()))
	same(t, "reprocessed after the unlock", f.reprocess(f.db, eventhook.EventSelection{IDs: ids(locked, unlocked)}), ids(locked))
}

func TestConcurrentReprocessingHappensOnce(t *testing.T) {
	f := setUp(t)
	var events []*eventhook.Event
	for range 20 {
		events = append(events, f.endedEvent(eventhook.EventDead))
	}
	moved := make([][]eventhook.EventID, 4)
	var acts []func()
	for i := range moved {
		db := []*DB{f.db, f.other}[i%2]
		acts = append(acts, func() { moved[i] = f.reprocess(db, eventhook.EventSelection{IDs: ids(events...)}) })
	}
	concurrently(acts...)
	n := 0
	for _, m := range moved {
		n += len(m)
	}
	same(t, "events reprocessed by all calls", n, len(events))
}

func TestEventsOfAnotherTenantAreNotReprocessed(t *testing.T) {
	f := setUp(t)
	e := f.endedEvent(eventhook.EventDead)
	umbrella := f.secondTenant()
	for _, which := range []eventhook.EventSelection{
		{IDs: ids(e)}, {Filter: eventhook.EventFilter{Limit: 10}},
		{Filter: eventhook.EventFilter{SourceID: f.crm, Limit: 10}}, {Filter: eventhook.EventFilter{Source: "crm", Limit: 10}},
	} {
		got, err := f.db.ReprocessEvents(t.Context(), operator, umbrella, which)
		f.must(err)
		same(t, "reprocessed", len(got), 0)
	}
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventDead)
	same(t, "entries in the audit log", f.count("audit_log", `action = 'events.reprocessed'`), 0)
}

func TestReprocessingIsAudited(t *testing.T) {
	f := setUp(t)
	first, second := f.endedEvent(eventhook.EventDead), f.endedEvent(eventhook.EventUnrouted)
	by := eventhook.Actor{Type: eventhook.ActorKey, KeyID: eventhook.NewID[eventhook.APIKey](noon), Name: "ci", RequestID: "r1"}
	_, err := f.db.ReprocessEvents(t.Context(), by, f.tenant, eventhook.EventSelection{IDs: ids(first, second)})
	f.must(err)
	entries, err := f.db.AuditEntries(t.Context(), eventhook.AuditFilter{Tenant: f.tenant, Action: "events.reprocessed", Limit: 10})
	f.must(err)
	same(t, "entries", len(entries), 1)
	e := entries[0]
	same(t, "actor", e.Actor, by)
	same(t, "resource", []string{e.ResourceType, e.ResourceName}, []string{"event", "2 events"})
	var moved []eventhook.EventID
	f.must(json.Unmarshal(e.Changes[0].To, &moved))
	same(t, "events", moved, ids(second, first))
	same(t, "member", e.Changes[0].Field, "event_ids")
}
