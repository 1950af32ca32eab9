package pg

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func withHash(hash string) func(*eventhook.Event) {
	return func(e *eventhook.Event) { e.SignedHash = hash }
}

// acceptSignedBatch stores a batch whose events are "key/hash"; both may be empty.
func (f *fixture) acceptSignedBatch(batch ...[2]string) []*eventhook.Event {
	f.Helper()
	events := make([]*eventhook.Event, len(batch))
	for i, one := range batch {
		events[i] = f.event(withKey(one[0]), withHash(one[1]), f.withLease)
	}
	f.must(f.db.Accept(f.Context(), arrivals(events...)))
	return events
}

func TestAcceptDetectsRepeatedSignedBytes(t *testing.T) {
	f := setUp(t)
	first := f.acceptSignedBatch([2]string{"k", "h"})[0]
	same(t, "the first", first.Status, eventhook.EventProcessing)
	replayed := f.acceptSignedBatch([2]string{"chosen", "h"})[0]
	wantDuplicate(t, "the same bytes under another key", replayed, first)
	same(t, "stored", f.storedEvent(replayed).DuplicateOf, first.ID)
	wantDuplicate(t, "the same bytes without a key", f.acceptSignedBatch([2]string{"", "h"})[0], first)
	resigned := f.acceptSignedBatch([2]string{"k", "h2"})[0]
	wantDuplicate(t, "other bytes under the same key", resigned, first)
	wantDuplicate(t, "these bytes under another key", f.acceptSignedBatch([2]string{"chosen too", "h2"})[0], first)
	wantDuplicate(t, "both, without a hash", f.acceptSignedBatch([2]string{"k", ""})[0], first)
	same(t, "a key that a captured request used before",
		f.acceptSignedBatch([2]string{"chosen", "h3"})[0].Status, eventhook.EventProcessing)
	same(t, "the same bytes of another source", func() eventhook.EventStatus {
		e := f.event(withHash("h"), func(e *eventhook.Event) { e.SourceID = f.shop })
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		return e.Status
	}(), eventhook.EventPending)
	same(t, "a key equal to a hash", f.acceptSignedBatch([2]string{"h", ""})[0].Status, eventhook.EventProcessing)
}

func TestAcceptDetectsRepeatedSignedBytesInOneBatch(t *testing.T) {
	f := setUp(t)
	e := f.acceptSignedBatch([2]string{"k", "h"}, [2]string{"l", "h"}, [2]string{"k", "i"}, [2]string{"l", "j"}, [2]string{"", ""}, [2]string{"m", ""}, [2]string{"m", ""})
	wantDuplicate(t, "the same bytes", e[1], e[0])
	wantDuplicate(t, "the same key", e[2], e[0])
	same(t, "a key that only a duplicate has", e[3].Status, eventhook.EventProcessing)
	same(t, "neither key nor hash", e[4].Status, eventhook.EventProcessing)
	same(t, "a key alone", e[5].Status, eventhook.EventProcessing)
	wantDuplicate(t, "a key alone again", e[6], e[5])
	for _, x := range e {
		got := f.storedEvent(x)
		same(t, "stored status", got.Status, x.Status)
		same(t, "stored original", got.DuplicateOf, x.DuplicateOf)
	}
	wantDuplicate(t, "later", f.acceptSignedBatch([2]string{"n", "j"})[0], e[3])
}

func TestHashesOfSignedBytesExpire(t *testing.T) {
	f := setUp(t)
	first := f.acceptSignedBatch([2]string{"k", "h"})[0]
	f.clock.Advance(keyTTL - time.Second)
	wantDuplicate(t, "just before its time is over", f.acceptSignedBatch([2]string{"l", "h"})[0], first)
	f.clock.Advance(time.Second)
	again := f.acceptSignedBatch([2]string{"k", "h"})[0]
	same(t, "after the key expired", again.Status, eventhook.EventProcessing)
	wantDuplicate(t, "claimed again after the expiry", f.acceptSignedBatch([2]string{"m", "h"})[0], again)
}

// Batches with and without hashes claim the same keys in opposite orders.
func TestAcceptOfSignedBytesDoesNotDeadlock(t *testing.T) {
	f := setUp(t)
	const events = 48
	for round := range 20 {
		var batches [4][]*eventhook.Event
		for i := range events {
			key, hash := fmt.Sprintf("%d/%d", round, i), fmt.Sprintf("%d/%d", round, (i*7)%events)
			for b := range batches {
				e := f.event(withKey(key))
				if b < 3 {
					e.SignedHash = hash
				}
				batches[b] = append(batches[b], e)
			}
		}
		slices.Reverse(batches[1])
		slices.Reverse(batches[3])
		var errs [4]error
		acts := make([]func(), len(batches))
		for b := range batches {
			acts[b] = func() { errs[b] = []*DB{f.db, f.other}[b%2].Accept(t.Context(), arrivals(batches[b]...)) }
		}
		concurrently(acts...)
		for _, err := range errs {
			f.must(err)
		}
	}
	same(t, "events that are no duplicates", f.count("event", "status <> 'duplicate'"), 20*events)
}

func TestConcurrentAcceptsOfOneHashStoreOneOriginal(t *testing.T) {
	f := setUp(t)
	events := make([]*eventhook.Event, 100)
	acts := make([]func(), len(events))
	errs := make([]error, len(events))
	for i := range events {
		events[i] = f.event(withKey(fmt.Sprint(i)), withHash("h"), f.withLease)
		acts[i] = func() { errs[i] = []*DB{f.db, f.other}[i%2].Accept(t.Context(), arrivals(events[i:i+1]...)) }
	}
	concurrently(acts...)
	for _, err := range errs {
		f.must(err)
	}
	same(t, "events that are no duplicates", f.count("event", "status <> 'duplicate'"), 1)
	same(t, "keys: the hash and the key of one event", f.count("idempotency_key", "true"), 2)
}

// Keys and events are read by their primary keys.
func TestAcceptOfSignedBytesUsesThePrimaryKey(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.accept.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	if plan := explain(f, conn.Conn(), acceptSignedSQL.sql, len(acceptSignedSQL.params)); wholeTable.MatchString(plan) {
		t.Errorf("got a plan that reads a whole table:\n%s", plan)
	}
}

func TestFindKeyByHash(t *testing.T) {
	f := setUp(t)
	first := f.acceptSignedBatch([2]string{"k", "h"})[0]
	for _, c := range []struct {
		key, hash string
		found     bool
	}{{"k", "", true}, {"", "h", true}, {"other", "h", true}, {"k", "other", true}, {"other", "other", false}, {"h", "k", false}, {"", "", false}} {
		id, found, err := f.db.FindIdempotencyKey(t.Context(), f.tenant, f.crm, c.key, c.hash)
		f.must(err)
		same(t, "found by "+c.key+"/"+c.hash, found, c.found)
		if c.found {
			same(t, "the event", id, first.ID)
		}
	}
}
