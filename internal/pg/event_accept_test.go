package pg

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestAcceptKeepsEveryByte(t *testing.T) {
	f := setUp(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, body := range map[string][]byte{
		"empty":         {},
		"NUL":           []byte("a\x00b"),
		"invalid UTF-8": {0xff, 0xfe, 0xc3, 0x28},
		"every byte":    all,
		"large":         bytes.Repeat(all, 4096),
	} {
		e := f.event(func(e *eventhook.Event) { e.Body, e.BodySize, e.Headers = body, len(body), []byte("X-B: \xff\r\n") })
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		got, err := f.db.Payloads(t.Context(), []eventhook.EventID{e.ID})
		f.must(err)
		if !bytes.Equal(got[e.ID].Body, body) || !bytes.Equal(got[e.ID].Headers, e.Headers) {
			t.Errorf("%s: stored %d and %d bytes, other than the %d and %d sent", name, len(got[e.ID].Body), len(got[e.ID].Headers), len(body), len(e.Headers))
		}
		for _, size := range []int{0, 3, len(body), len(body) + 1} {
			start, err := f.db.PayloadStart(t.Context(), e.ID, size)
			f.must(err)
			if want := body[:min(size, len(body))]; !bytes.Equal(start.Body, want) || !bytes.Equal(start.Headers, e.Headers) {
				t.Errorf("%s: got %d bytes, want the first %d", name, len(start.Body), len(want))
			}
		}
	}
}

func TestAcceptStoresAllFields(t *testing.T) {
	f := setUp(t)
	full := f.event(func(e *eventhook.Event) {
		e.EventType, e.ContentType, e.IdempotencyKey, e.BodySize = "käse", "text/plain", "k'1\"", 2
		e.SourceIP, e.TraceID, e.RequestID = "192.0.2.1", "0af7651916cd43dd8448eb211c80319c", "r-1"
	})
	f.must(f.db.Accept(t.Context(), arrivals(full)))
	want := *full
	want.SourceSlug, want.Payload = "crm", eventhook.Payload{}
	same(t, "the event", f.storedEvent(full), want)
}

func TestAcceptSetsTheStatus(t *testing.T) {
	f := setUp(t)
	taken, left := f.event(f.withLease), f.event()
	f.must(f.db.Accept(t.Context(), arrivals(taken, left)))
	for _, c := range []struct {
		claim  string
		event  *eventhook.Event
		status eventhook.EventStatus
		token  int64
		due    time.Time
	}{
		{"a leased event is due when its lease ends", taken, eventhook.EventProcessing, 1, noon.Add(lease)},
		{"an event without a lease is due now", left, eventhook.EventPending, 0, noon},
	} {
		same(t, c.claim+": status", c.event.Status, c.status)
		same(t, c.claim+": stored status", f.storedEvent(c.event).Status, c.status)
		same(t, c.claim+": token", c.event.Lease.Token, c.token)
		same(t, c.claim+": stored token", queryValue[int64](f, `SELECT lease_token FROM eventhook.event WHERE id = $1`, [16]byte(c.event.ID)), c.token)
		same(t, c.claim, queryValue[time.Time](f, `SELECT due_at FROM eventhook.event WHERE id = $1`, [16]byte(c.event.ID)).UTC(), c.due)
	}
	f.must(f.db.Accept(t.Context(), nil))
}

func wantDuplicate(t testing.TB, claim string, e, original *eventhook.Event) {
	t.Helper()
	if e.Status != eventhook.EventDuplicate || e.DuplicateOf != original.ID || e.Lease != (eventhook.Lease{}) {
		t.Errorf("%s: %s of %s with lease %v, want a duplicate of %s without", claim, e.Status, e.DuplicateOf, e.Lease, original.ID)
	}
}

func TestAcceptDetectsARepeatedKey(t *testing.T) {
	f := setUp(t)
	batch := []*eventhook.Event{f.event(withKey("k"), f.withLease), f.event(), f.event(withKey("k"), f.withLease), f.event(withKey("l")), f.event()}
	f.must(f.db.Accept(t.Context(), arrivals(batch...)))
	first := batch[0]
	later := f.event(withKey("k"), f.withLease)
	f.must(f.other.Accept(t.Context(), arrivals(later)))
	wantDuplicate(t, "in one batch", batch[2], batch[0])
	wantDuplicate(t, "in another batch", later, batch[0])
	same(t, "stored", f.storedEvent(later).DuplicateOf, batch[0].ID)
	same(t, "events that are no duplicates", f.count("event", "status <> 'duplicate'"), 4)
	same(t, "claimed events without a lease", len(f.claimEvents(f.db, 10)), 3)

	atShop := func(e *eventhook.Event) { e.SourceID = f.shop }
	batch = []*eventhook.Event{f.event(withKey("k")), f.event(withKey("k"), atShop), f.event(withKey("m")), f.event(withKey("m"), atShop)}
	f.must(f.db.Accept(t.Context(), arrivals(batch...)))
	wantDuplicate(t, "beside another source's", batch[0], first)
	for _, e := range batch[1:] {
		same(t, "same key, another source", e.Status, eventhook.EventPending)
	}
	same(t, "stored events", f.count("event", "true"), 10)
}

func TestKeysExpire(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"with a time": keyTTL, "without": 0} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			db := f.open(func(o *Options) { o.KeyTTL = ttl })
			accept := func() *eventhook.Event {
				e := f.event(withKey("k"))
				f.must(db.Accept(t.Context(), arrivals(e)))
				return e
			}
			first := accept()
			f.clock.Advance(keyTTL - time.Second)
			wantDuplicate(t, "just before its time is over", accept(), first)
			f.clock.Advance(time.Second)
			again := accept()
			if ttl == 0 {
				wantDuplicate(t, "a key that is kept", again, first)
				return
			}
			same(t, "after the key expired", again.Status, eventhook.EventPending)
			wantDuplicate(t, "claimed again after the expiry", accept(), again)
		})
	}
}

func TestConcurrentAcceptsOfOneKeyStoreOneOriginal(t *testing.T) {
	f := setUp(t)
	events := make([]*eventhook.Event, 200)
	acts := make([]func(), len(events))
	errs := make([]error, len(events))
	for i := range events {
		events[i] = f.event(withKey("k"), f.withLease)
		db := []*DB{f.db, f.other}[i%2]
		acts[i] = func() { errs[i] = db.Accept(t.Context(), arrivals(events[i])) }
	}
	concurrently(acts...)
	for _, err := range errs {
		f.must(err)
	}
	var originals []*eventhook.Event
	for _, e := range events {
		if e.Status == eventhook.EventProcessing {
			originals = append(originals, e)
		}
	}
	if len(originals) != 1 {
		t.Fatalf("%d events are not duplicates, want 1", len(originals))
	}
	for _, e := range events {
		if e != originals[0] {
			wantDuplicate(t, "a copy", e, originals[0])
		}
	}
	same(t, "stored events", f.count("event", "true"), len(events))
}

func TestAcceptInOppositeOrdersDoesNotDeadlock(t *testing.T) {
	f := setUp(t)
	for round := range 40 {
		var batches [2][]*eventhook.Event
		for i := range 64 {
			key := fmt.Sprintf("%d/%d", round, i)
			batches[0] = append(batches[0], f.event(withKey(key)))
			batches[1] = append(batches[1], f.event(withKey(key)))
		}
		slices.Reverse(batches[1])
		var errs [2]error
		concurrently(
			func() { errs[0] = f.db.Accept(t.Context(), arrivals(batches[0]...)) },
			func() { errs[1] = f.other.Accept(t.Context(), arrivals(batches[1]...)) })
		f.must(errs[0])
		f.must(errs[1])
	}
	same(t, "events that are no duplicates", f.count("event", "status <> 'duplicate'"), 40*64)
}

func TestARefusedEventDoesNotAffectItsBatch(t *testing.T) {
	f := setUp(t)
	refused := func(e *eventhook.Event) { e.EventType = "a\x00b" }
	for _, size := range []int{1, 2, 3, 8} {
		for bad := range size {
			batch := make([]*eventhook.Event, size)
			for i := range batch {
				batch[i] = f.event(f.withLease)
			}
			refused(batch[bad])
			f.must(f.db.Accept(t.Context(), arrivals(batch...)))
			for i, e := range batch {
				want := eventhook.EventProcessing
				if i == bad {
					want = ""
				}
				if e.Status != want {
					t.Errorf("event %d of %d, the refused one is %d: status %q, want %q", i, size, bad, e.Status, want)
				}
			}
			same(t, "stored rows of the refused event", f.count("event", "id = $1", [16]byte(batch[bad].ID)), 0)
		}
	}
	original := f.event(withKey("k"), refused)
	next := f.event(withKey("k"))
	f.must(f.db.Accept(t.Context(), arrivals(original, next)))
	same(t, "the key of a refused event is still free", next.Status, eventhook.EventPending)
}

func TestATriggerRefusesAnEventAlone(t *testing.T) {
	f := setUp(t)
	f.exec(`CREATE FUNCTION eventhook.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE INSERT ON eventhook.event_default FOR EACH ROW WHEN (NEW.event_type = 'bad') EXECUTE FUNCTION eventhook.refuse()`)
	good, bad := f.event(), f.event(func(e *eventhook.Event) { e.EventType = "bad" })
	f.must(f.db.Accept(t.Context(), arrivals(good, bad)))
	same(t, "the statuses", []eventhook.EventStatus{good.Status, bad.Status}, []eventhook.EventStatus{eventhook.EventPending, ""})
}

// While a partition is attached, the database refuses rows on their way to the default
// partition.
func TestAcceptWhilePartitionsAreCreated(t *testing.T) {
	f := setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	var accepted []*eventhook.Event
	var errs []error
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for ctx.Err() == nil {
			batch := []*eventhook.Event{f.event(), f.event()}
			errs = append(errs, f.db.Accept(t.Context(), arrivals(batch...)))
			accepted = append(accepted, batch...)
		}
	})
	for range 10 {
		f.must(f.other.MaintainPartitions(t.Context(), 0, Retention{}))
		f.clock.Advance(day)
	}
	cancel()
	accepting.Wait()
	for _, err := range errs {
		f.must(err)
	}
	for _, e := range accepted {
		same(t, "status", e.Status, eventhook.EventPending)
	}
	same(t, "stored events", f.count("event", "true"), len(accepted))
	same(t, "stored bodies", f.count("event_payload", "true"), len(accepted))
}

func TestAcceptWithoutADatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	db := openAt(t, server.DSN(pgembed.Database))
	f := &fixture{TB: t, db: db, clock: clocktest.New(noon), tenant: eventhook.NewID[eventhook.Tenant](noon), crm: eventhook.NewID[eventhook.Source](noon)}
	f.must(db.StartSealing(t.Context()))
	before := f.event()
	f.must(db.Accept(t.Context(), arrivals(before)))
	f.must(server.Kill())
	during := f.event(withKey("k"))
	if err := db.Accept(t.Context(), arrivals(during)); err == nil || during.Status != "" {
		t.Errorf("a stopped server: %v and status %q, want an error and none", err, during.Status)
	}
	if err := db.Ping(t.Context()); err == nil {
		t.Error("Ping of a stopped server succeeded")
	}
	f.must(server.Restart(t.Context()))
	for db.Ping(t.Context()) != nil && t.Context().Err() == nil {
	}
	after := f.event(withKey("k"))
	var err error
	for range 10 { // the pool may have that many dead connections
		if err = db.Accept(t.Context(), arrivals(after)); err == nil {
			break
		}
	}
	f.must(err)
	same(t, "an event accepted before the crash", f.storedEvent(before).Status, eventhook.EventPending)
	same(t, "the failed batch claimed no key", after.Status, eventhook.EventPending)
}
