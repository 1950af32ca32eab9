package consume

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

func TestShareOf(t *testing.T) {
	for _, c := range []struct {
		claim      string
		sources    int
		capacities []int
		want       int
	}{
		{"one instance", 5, []int{100}, 5},
		{"two equal instances", 5, []int{100, 100}, 3},
		{"a small instance leaves more to a large one", 10, []int{2, 100}, 8},
		{"more sources than all instances can take", 10, []int{2, 3}, 3},
		{"no source", 0, []int{5, 5}, 0},
		{"an instance without room", 4, []int{0, 10}, 4},
	} {
		if got := shareOf(c.sources, c.capacities); got != c.want {
			t.Errorf("%s: got %d, want %d", c.claim, got, c.want)
		}
	}
}

// pass lets time pass and everything that was due happen.
func pass(d time.Duration) {
	time.Sleep(d) // synctest time
	synctest.Wait()
}

func wantStatus(t *testing.T, s *leases, slug string, want eventhook.ConsumerStatus) {
	t.Helper()
	if got := s.state(slug); got.Status != want {
		t.Errorf("%s is %s (%s), want %s", slug, got.Status, got.Error, want)
	}
}

func TestMessagesAreConsumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a", "b"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		q.publish("a", 1, 700)
		q.publish("b", 1, 3)
		pass(5 * time.Second)
		q.consumed(t, "a", 700)
		q.consumed(t, "b", 3)
		wantStatus(t, s, "a", eventhook.ConsumerRunning)
		if n := one.Count()[eventhook.ConsumerRunning]; n != 2 {
			t.Errorf("%d consumers are running, want 2", n)
		}
	})
}

func TestTheLagIsCurrentWhileMessagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		defer start(s, q, "one", 10).stop()
		gate := make(chan struct{})
		q.set(func(q *queue) { q.wait = gate })
		wantLag := func(want int64) {
			t.Helper()
			pass(2 * lagInterval)
			switch lag := s.state("a").Lag; {
			case lag == nil:
				t.Errorf("got no lag, want %d", want)
			case *lag != want:
				t.Errorf("got the lag %d, want %d", *lag, want)
			}
		}
		q.publish("a", 1, 2)
		wantLag(2)
		q.publish("a", 3, 500)
		wantLag(500)
		wantStatus(t, s, "a", eventhook.ConsumerWaiting)
		close(gate)
		wantLag(0)
	})
}

func TestOneInstanceConsumesASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a", "b", "c", "d"), newQueue()
		one, two := start(s, q, "one", 10), start(s, q, "two", 10)
		pass(20 * time.Second)
		count := map[string]int{}
		for _, slug := range []string{"a", "b", "c", "d"} {
			count[s.holder(slug)]++
			if q.consumers(slug) != 1 {
				t.Errorf("%d consumers of %s are open, want 1", q.consumers(slug), slug)
			}
		}
		if count["one"] != 2 || count["two"] != 2 {
			t.Errorf("got %v, want 2 sources for each instance", count)
		}
		one.stop()
		pass(time.Second)
		for _, slug := range []string{"a", "b", "c", "d"} {
			if slug := s.holder(slug); slug == "one" {
				t.Errorf("%s is held by an instance that has ended", slug)
			}
		}
		pass(20 * time.Second)
		for _, slug := range []string{"a", "b", "c", "d"} {
			if got := s.holder(slug); got != "two" {
				t.Errorf("%s is held by %q, want two", slug, got)
			}
		}
		two.stop()
	})
}

// An instance that dies does not release its leases: they expire, and another instance takes over.
func TestAnInstanceTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		s.change("a", func(r *row) { r.holder, r.until, r.Token = "dead", time.Now().Add(30*time.Second), 5 })
		two := start(s, q, "two", 10)
		defer two.stop()
		q.publish("a", 1, 3)
		pass(29 * time.Second)
		if s.holder("a") != "dead" || q.rest() != 3 {
			t.Errorf("%s holds the source, and %d messages wait; want the dead instance and 3", s.holder("a"), q.rest())
		}
		pass(5 * time.Second)
		q.consumed(t, "a", 3)
	})
}

func TestAConsumerStopsWhenItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		pass(time.Second)
		s.change("a", func(r *row) { r.holder, r.Token, r.until = "two", r.Token+1, time.Now().Add(time.Hour) })
		pass(3 * time.Second)
		if q.consumers("a") != 0 {
			t.Error("the consumer is open")
		}
	})
}

func TestADisabledSourceIsNotConsumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		pass(time.Second)
		s.change("a", func(r *row) { r.isEnabled = false })
		pass(3 * time.Second)
		q.publish("a", 1, 2)
		pass(time.Minute)
		if q.consumers("a") != 0 || q.rest() != 2 {
			t.Errorf("%d consumers are open, and %d messages wait; want none and 2", q.consumers("a"), q.rest())
		}
		s.change("a", func(r *row) { r.isEnabled, r.until = true, time.Now() })
		pass(3 * time.Second)
		q.consumed(t, "a", 2)
	})
}

func TestAChangedSourceIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		q.openErr = errors.New("the credentials have expired")
		one := start(s, q, "one", 10)
		defer one.stop()
		pass(130 * time.Second) // the next attempt would follow after 183 seconds
		wantStatus(t, s, "a", eventhook.ConsumerFailed)
		if got := s.state("a").Error; got != "the credentials have expired" {
			t.Errorf("got the error %q", got)
		}
		if n := q.attempts(); n != 8 {
			t.Errorf("the broker was tried %d times in 130 seconds, want 8", n)
		}
		q.set(func(q *queue) { q.openErr = nil })
		s.change("a", func(r *row) { r.Version++ }) // new credentials
		q.publish("a", 1, 1)
		pass(5 * time.Second)
		q.consumed(t, "a", 1)
		wantStatus(t, s, "a", eventhook.ConsumerRunning)
	})
}

func TestConsumersStopWhileLeasesCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		pass(time.Second)
		s.fail(errDown)
		pass(15 * time.Second)
		if q.consumers("a") != 1 {
			t.Error("the consumer has stopped at once")
		}
		pass(10 * time.Second)
		if q.consumers("a") != 0 {
			t.Error("the consumer is open although its lease may expire")
		}
		q.publish("a", 1, 3)
		s.fail(nil)
		pass(40 * time.Second)
		q.consumed(t, "a", 3)
	})
}

// The settlement fails after the events were stored: the messages come again.
func TestMessagesThatCannotBeSettledComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		q.settleErr = errors.New("the connection was closed")
		one := start(s, q, "one", 10)
		defer one.stop()
		q.publish("a", 1, 2)
		pass(3 * time.Second)
		wantStatus(t, s, "a", eventhook.ConsumerFailed)
		q.set(func(q *queue) { q.settleErr = nil })
		pass(time.Minute)
		q.consumed(t, "a", 2)
		if n := q.stored("a/1"); n < 2 {
			t.Errorf("the message was stored %d times, want a repetition", n)
		}
	})
}

// Messages that wait for long are given back to the broker, and are consumed when they may.
func TestWaitingMessagesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		q.wait = make(chan struct{})
		one := start(s, q, "one", 10)
		defer one.stop()
		q.publish("a", 1, 2)
		pass(10 * time.Second)
		wantStatus(t, s, "a", eventhook.ConsumerWaiting)
		pass(10*time.Second + time.Second/2)
		if q.consumers("a") != 0 {
			t.Error("the consumer holds the messages")
		}
		pass(22 * time.Second) // a second attempt, and its pause
		if got := s.state("a"); got.Status != eventhook.ConsumerWaiting || got.Error != "the quota is reached" {
			t.Errorf("got the state %+v", got)
		}
		close(q.wait)
		pass(time.Minute)
		q.consumed(t, "a", 2)
	})
}

// A broker may drop messages that come back often: while none can be taken, none is received.
func TestNoMessageIsReceivedBeforeItCanBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		q.wait = make(chan struct{})
		one := start(s, q, "one", 10)
		defer one.stop()
		q.publish("a", 1, 2)
		pass(10 * time.Second)
		q.set(func(q *queue) { q.await = q.wait }) // as ingest does, whose limits Take and Await both ask
		pass(time.Hour)
		q.mu.Lock()
		if q.opened != 1 || len(q.awaited) != 1 || q.awaited[0] != neededBytes {
			t.Errorf("the consumer was opened %d times and waited for %v bytes; want once, and those of the message", q.opened, q.awaited)
		}
		q.mu.Unlock()
		if got := s.state("a"); got.Status != eventhook.ConsumerWaiting || got.Error != "the quota is reached" {
			t.Errorf("got the state %+v", got)
		}
		close(q.wait)
		pass(time.Minute)
		q.consumed(t, "a", 2)
	})
}

// An idle consumer closes its connection while no message can be taken: its client may have received some.
func TestAnIdleConsumerDisconnectsAtALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		pass(10 * time.Second)
		q.set(func(q *queue) { q.await = make(chan struct{}) })
		q.publish("a", 1, 1)
		pass(10 * time.Second)
		q.publish("a", 2, 2)
		pass(time.Minute)
		if q.consumers("a") != 0 || q.rest() != 1 {
			t.Errorf("%d consumers, and %d messages are not settled; want none and 1", q.consumers("a"), q.rest())
		}
	})
}

// The last message of a batch waits for the first ones, too.
func TestMessagesBehindSlowOnesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		q.every = 8 * time.Second
		one := start(s, q, "one", 10)
		defer one.stop()
		q.publish("a", 1, 4)
		pass(20*time.Second + time.Second/2)
		if q.consumers("a") != 0 || q.rest() != 2 {
			t.Errorf("after 20 s, %d consumers hold messages and %d messages are not settled; want none and 2", q.consumers("a"), q.rest())
		}
		pass(time.Second + 2*q.every) // the first pause: messages were stored
		q.consumed(t, "a", 4)
	})
}

func TestAPanicOfAClientIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		q.set(func(q *queue) { q.messages["a"] = append(q.messages["a"], nil) })
		pass(5 * time.Second)
		wantStatus(t, s, "a", eventhook.ConsumerFailed)
	})
}
