package replaytest

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

var (
	dead   = eventhook.ReplayRequest{Statuses: []eventhook.DeliveryStatus{eventhook.DeliveryDead}}
	either = eventhook.ReplayRequest{Statuses: []eventhook.DeliveryStatus{eventhook.DeliveryDead, eventhook.DeliverySuccess}}
)

func missing(r eventhook.ReplayRequest) eventhook.ReplayRequest {
	r.Missing = true
	return r
}

func leasedOldest(t *testing.T, s Store) {
	a, b := s.Subscribe(), s.Subscribe()
	first := s.Start(a, dead)
	s.Advance(time.Second)
	second := s.Start(b, dead)
	s.Advance(time.Second)
	s.wantLeased(t, "at first", first)
	s.wantLeased(t, "then", second)
}

func turns(t *testing.T, s Store) {
	var many []eventhook.ReplayID
	for range 3 {
		many = append(many, s.Start(s.Subscribe(), dead))
		s.Advance(time.Second)
	}
	one := s.Start(s.SubscribeOther(), dead)
	s.wantLeased(t, "at first", many[0])
	s.wantLeased(t, "the turn of the other tenant", one)
	s.wantLeased(t, "the next round", many[1])
	s.wantLeased(t, "a round of one tenant", many[2])
}

func leasedOnce(t *testing.T, s Store) {
	if next := s.wantNoneLeased(t, "without a replay"); !next.IsZero() {
		t.Errorf("without a replay: the next one is due at %s, want zero", next)
	}
	of := s.Subscribe()
	id := s.Start(of, dead)
	job := s.wantLeased(t, "at first", id)
	if job.Subscription.ID != of.ID || job.Open != 0 || job.IsRead || job.Cursor != ([16]byte{}) {
		t.Errorf("leased %+v, want the beginning of a replay of %s", job, of.ID)
	}
	if next, want := s.wantNoneLeased(t, "while the lease lasts"), s.Now().Add(lease); !next.Equal(want) {
		t.Errorf("the next one is due at %s, want the end of the lease at %s", next, want)
	}
	s.Advance(lease - time.Second)
	s.wantNoneLeased(t, "shortly before its end")
	s.Advance(time.Second)
	if again := s.wantLeased(t, "after the lease", id); again.LeaseToken == job.LeaseToken {
		t.Error("the second lease has the token of the first")
	}
}

func lostLease(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 2, eventhook.DeliveryDead)
	id := s.Start(of, dead)
	job := s.wantLeased(t, "at first", id)
	s.Advance(lease)
	current := s.wantLeased(t, "after the lease", id)
	s.queueAll(t, job)
	s.wantQueued(t, "without a lease", of, id, 0)
	if n := s.Deliver(of, eventhook.DeliverySuccess); n != 0 {
		t.Errorf("%d deliveries are open, want none", n)
	}
	s.queueAll(t, current)
	s.wantQueued(t, "with the lease", of, id, 2)
}

func lateStep(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 1, eventhook.DeliveryDead)
	for status, end := range map[eventhook.ReplayStatus]func(id eventhook.ReplayID, job *replay.Job){
		eventhook.ReplayCancelled: func(id eventhook.ReplayID, _ *replay.Job) { s.Cancel(of, id) },
		eventhook.ReplayCompleted: func(_ eventhook.ReplayID, job *replay.Job) {
			s.advance(t, job, replay.Step{End: eventhook.ReplayCompleted, IsRead: true, Counts: true})
		},
	} {
		id := s.Start(of, dead)
		job := s.wantLeased(t, "at first", id)
		end(id, job)
		s.queueAll(t, job)
		if r := s.Replay(of, id); r.Queued != 0 || r.Status != status || r.FinishedAt == nil {
			t.Errorf("got %+v, want a replay that is %s and has queued nothing", r, status)
		}
		s.Advance(2 * lease)
		s.wantNoneLeased(t, string(status))
	}
}

func pages(t *testing.T, s Store) {
	of, other := s.Subscribe(), s.Subscribe()
	ids := s.Publish(of, 5, eventhook.DeliveryDead)
	s.Publish(other, 2, eventhook.DeliveryDead)
	s.Start(of, dead)
	job, _ := s.lease(t)
	for _, want := range [][]eventhook.EventID{ids[:2], ids[2:4], ids[4:]} {
		page := s.page(t, job, 2)
		wantEvents(t, "a page of dead deliveries", page, want)
		if isLast := len(want) < 2; page.IsLast != isLast {
			t.Errorf("a page of %d has IsLast %t, want %t", len(want), page.IsLast, isLast)
		}
		job.Cursor = page.Cursor
	}
}

func pageStates(t *testing.T, s Store) {
	of := s.Subscribe()
	killed := s.Publish(of, 2, eventhook.DeliveryDead)
	sent := s.Publish(of, 1, eventhook.DeliverySuccess)
	s.Publish(of, 1, "")
	s.Start(of, dead)
	job, _ := s.lease(t)
	wantEvents(t, "dead ones", s.page(t, job, 10), killed)
	s.Start(of, either)
	job, _ = s.lease(t)
	page := s.page(t, job, 10)
	wantEvents(t, "dead and successful ones", page, append(killed, sent...))
	if last := page.Deliveries[len(page.Deliveries)-1]; last.Status != eventhook.DeliverySuccess || last.CompletedAt == nil {
		t.Errorf("the last delivery is %+v, want a successful one with its end", last)
	}
}

func pageMissing(t *testing.T, s Store) {
	of := s.Subscribe()
	want := s.Publish(of, 1, eventhook.DeliveryDead)
	want = append(want, s.Publish(of, 2, "")...)
	want = append(want, s.Publish(of, 1, eventhook.DeliverySuccess)...)
	s.Start(of, missing(dead))
	job, _ := s.lease(t)
	page := s.page(t, job, 3)
	wantEvents(t, "the first page", page, want[:3])
	if d := page.Deliveries[1]; d.Status != "" || d.ID != eventhook.DeliveryIDOf(d.EventID, eventhook.DestinationID(of.ID)) ||
		d.SubscriptionID != of.ID {
		t.Errorf("a missing delivery is %+v, want one without a status and with the id of its event and subscription", d)
	}
	job.Cursor = page.Cursor
	wantEvents(t, "the second page", s.page(t, job, 3), want[3:])
}

func queues(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 3, eventhook.DeliveryDead)
	id := s.Start(of, dead)
	job := s.wantLeased(t, "at first", id)
	page := s.page(t, job, 2)
	s.advance(t, job, replay.Step{Queue: page.Deliveries, Matched: 2, Cursor: page.Cursor})
	job = s.wantLeased(t, "at once again", id)
	if job.Open != 2 || job.Queued != 2 || job.Matched != 2 || job.Cursor != page.Cursor || job.IsRead || !job.ReleasedAt.Equal(s.Now()) {
		t.Errorf("leased %+v, want two open deliveries that were queued now", job.Replay)
	}
	s.queueAll(t, job)
	s.Advance(time.Second)
	if n := s.Deliver(of, eventhook.DeliverySuccess); n != 3 {
		t.Errorf("%d deliveries are open, want 3", n)
	}
	if job = s.wantLeased(t, "after the last page", id); job.Open != 0 || job.Queued != 3 || !job.IsRead {
		t.Errorf("leased %+v with %d open deliveries, want none, and all events read", job.Replay, job.Open)
	}
}

func missingOnce(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 3, "")
	first, second := s.Start(of, missing(dead)), s.Start(of, missing(either))
	a, _ := s.lease(t)
	b, _ := s.lease(t)
	both := [][]*eventhook.Delivery{s.page(t, a, 10).Deliveries, s.page(t, b, 10).Deliveries}
	for i, job := range []*replay.Job{a, b} {
		s.advance(t, job, replay.Step{Queue: both[i], Matched: 3, IsRead: true})
	}
	if n := s.Replay(of, first).Queued + s.Replay(of, second).Queued; n != 3 {
		t.Errorf("the replays have queued %d deliveries, want 3", n)
	}
	s.Advance(time.Second)
	if n := s.Deliver(of, eventhook.DeliverySuccess); n != 3 {
		t.Errorf("%d deliveries are open, want 3", n)
	}
}

func queuedOnce(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 2, eventhook.DeliverySuccess)
	var jobs []*replay.Job
	for limit := range 3 { // different requests
		r := either
		r.Limit = 100 + limit
		jobs = append(jobs, s.wantLeased(t, "at first", s.Start(of, r)))
	}
	for i, c := range []struct {
		claim  string
		queued int64
		ends   eventhook.DeliveryStatus
	}{
		{"the first replay", 2, eventhook.DeliveryDead},
		{"a replay of dead deliveries that another one has queued", 2, eventhook.DeliverySuccess},
		{"a replay of successful deliveries that another one has queued", 0, eventhook.DeliverySuccess},
	} {
		s.queueAll(t, jobs[i])
		s.wantQueued(t, c.claim, of, jobs[i].ID, c.queued)
		s.Advance(time.Second)
		s.Deliver(of, c.ends)
	}
}

func counts(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 3, eventhook.DeliveryDead)
	id := s.Start(of, dead)
	job := s.wantLeased(t, "at first", id)
	page := s.page(t, job, 1)
	s.advance(t, job, replay.Step{Queue: page.Deliveries, Matched: 1, Cursor: page.Cursor})
	s.Advance(time.Second)
	s.Deliver(of, eventhook.DeliverySuccess)
	s.queueAll(t, s.wantLeased(t, "then", id))
	s.Advance(time.Second)
	s.Deliver(of, eventhook.DeliveryDead)
	s.advance(t, s.wantLeased(t, "at last", id), replay.Step{End: eventhook.ReplayCompleted, IsRead: true, Counts: true})
	if r := s.Replay(of, id); r.Status != eventhook.ReplayCompleted || r.Matched != 3 || r.Queued != 3 || r.Sent != 1 || r.Failed != 2 {
		t.Errorf("got %+v, want a completed replay of 3 deliveries, of which 1 was sent and 2 failed", r)
	}
}

func events(t *testing.T, s Store) {
	of := s.Subscribe()
	s.Publish(of, 2, "")
	s.Start(of, missing(dead))
	job, _ := s.lease(t)
	list := s.page(t, job, 10).Deliveries
	n, err := s.ReadReplayEvents(t.Context(), list)
	s.must(t, "ReadReplayEvents", err)
	if n != 2 {
		t.Fatalf("read %d events, want 2 small ones", n)
	}
	for _, d := range list {
		if d.Event == nil || d.Event.ID != d.EventID || d.Event.Body == nil {
			t.Errorf("read %+v, want the event with its payload", d.Event)
		}
	}
}

func wakes(t *testing.T, s Store) {
	of := s.Subscribe()
	wake := s.ReplaysWake()
	s.Start(of, dead)
	select {
	case <-wake:
	case <-t.Context().Done():
	}
}

// lifecycle replays the gateway's own event about a task and a tenant's own event of the same type.
func lifecycle(t *testing.T, s Store) {
	all, named := s.Subscribe("*"), s.Subscribe("*", "task.*")
	s.PublishAs(eventhook.OriginSystem, "task.dead")
	s.PublishAs(eventhook.OriginAPI, "task.dead")
	s.PublishAs(eventhook.OriginAPI, "payment.made")
	ofAll, ofNamed := s.Start(all, missing(dead)), s.Start(named, missing(dead))
	s.work(t)
	s.wantQueued(t, "a subscription to *", all, ofAll, 2)
	s.wantQueued(t, "a subscription to * and task.*", named, ofNamed, 3)
}

// diedLate restarts deliveries in an outage, and makes them dead after its end.
func diedLate(t *testing.T, s Store) {
	of, since := s.Subscribe(), s.Now()
	s.Publish(of, 2, eventhook.DeliveryDead)
	s.Advance(time.Second)
	s.Start(of, dead)
	s.work(t)
	s.Advance(time.Second)
	until := s.Now()
	for claim, want := range []int{2, 0} {
		s.Advance(time.Minute)
		s.Deliver(of, eventhook.DeliveryDead)
		s.Recover(of, since, until)
		s.work(t)
		if n := s.Deliver(of, eventhook.DeliveryDead); n != want {
			t.Errorf("recovery %d of the outage has queued %d deliveries, want %d", claim+1, n, want)
		}
	}
}
