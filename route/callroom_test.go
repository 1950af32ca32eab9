package route

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/effects"
)

func TestRoomOfWhatIsNotPutIsGivenBack(t *testing.T) {
	l := newCallLane(16, 1<<30, 1)
	kept, lost := withCalls(1, 1, 1, 2), withCalls(2, 1, 1, 1)
	if !l.admit(kept) || !l.admit(lost) || l.admit(withCalls(2, 1, 1)) {
		t.Fatal("want room for two calls of a route, those included whose events are being settled")
	}
	l.put(kept)
	l.cancel([]*effects.Settlement{lost, kept})
	if waiting, _ := l.counts(); waiting != 2 || l.all.events != 1 || len(l.tenants) != 1 || len(l.admitted) != 0 {
		t.Errorf("got %d calls of %d events of %d tenants, %d admitted; want the 2 of the one that was put", waiting, l.all.events, len(l.tenants), len(l.admitted))
	}
	l.put(lost)
	if waiting, _ := l.counts(); waiting != 2 {
		t.Errorf("got %d calls after one was put that was cancelled, want 2", waiting)
	}
}

func TestCallsThatWaitAndRunAreCounted(t *testing.T) {
	l := newCallLane(100, 1<<30, 64)
	want := func(claim string, waiting, running int) {
		t.Helper()
		if w, r := l.counts(); w != waiting || r != running {
			t.Errorf("%s: got %d waiting and %d under way, want %d and %d", claim, w, r, waiting, running)
		}
	}
	l.enter(withCalls(1, 1, 1, 2, 3))
	want("of one event", 3, 0)
	c, _ := l.take()
	want("one has its turn", 2, 1)
	l.end(c, time.Unix(0, 0))
	want("and ends", 2, 0)
	l.drop()
	want("the others are dropped", 0, 0)
}

func TestWhatFindsNoRoomComesBack(t *testing.T) {
	const least = 30 * time.Second
	for _, c := range []struct {
		claim       string
		backlog     int
		first, last time.Duration
		most        int // within one second
	}{
		{"alone, soon", 1, least, least, 1},
		{"one after the other", 1000, least, least + 10*time.Second, 100},
		{"within minutes", 50_000, least, least + 500*time.Second, 100},
		{"however many they are, within ten", 200_000, least, 10 * time.Minute, 600},
	} {
		t.Run(c.claim, func(t *testing.T) {
			l, now := newCallLane(100, 1<<30, 1), time.Unix(1e9, 0)
			first, last, seconds := time.Hour, time.Duration(0), map[int]int{}
			for range c.backlog {
				wait := l.later(withCalls(1, 1, 1), now, least).Sub(now)
				first, last = min(first, wait), max(last, wait)
				seconds[int(wait/time.Second)]++
			}
			if first != c.first || last > c.last {
				t.Errorf("got the first after %s and the last after %s, want %s and %s", first, last, c.first, c.last)
			}
			for second := int(least / time.Second); second < int(last/time.Second); second++ {
				if got := seconds[second]; got < min(c.backlog, 100) || got > c.most {
					t.Fatalf("got %d in second %d, want 100 to %d in each", got, second, c.most)
				}
			}
		})
	}
}

// A place that is quick gets its backlog as fast as it takes it.
func TestABacklogComesBackAsFastAsItsCallsEnd(t *testing.T) {
	for _, c := range []struct {
		claim          string
		between, pause time.Duration
	}{
		{"a quick place", 2 * time.Millisecond, 2 * time.Millisecond},
		{"one that takes no time", 0, backEvery}, // nothing is known of it
		{"one that does not answer", 10 * time.Second, backEvery},
	} {
		t.Run(c.claim, func(t *testing.T) {
			l, now := newCallLane(1000, 1<<30, 1), time.Unix(1e9, 0)
			for range 100 {
				s := withCalls(1, 1, 1)
				if !l.admit(s) {
					t.Fatal("no room")
				}
				l.put(s)
			}
			for range 90 {
				held, _ := l.take()
				now = now.Add(c.between)
				l.end(held, now)
			}
			first := l.later(withCalls(1, 1, 1), now, time.Second)
			second := l.later(withCalls(1, 1, 1), now, time.Second)
			if got := second.Sub(first).Round(time.Millisecond); got != c.pause {
				t.Errorf("got the second %s after the first, want %s", got, c.pause)
			}
		})
	}
}

func TestABacklogDelaysNoOtherRoute(t *testing.T) {
	l, now := newCallLane(100, 1<<30, 1), time.Unix(1e9, 0)
	for range 10_000 {
		l.later(withCalls(1, 1, 1), now, time.Second)
	}
	if got := l.later(withCalls(1, 1, 2), now, time.Second).Sub(now); got != time.Second {
		t.Errorf("got another route's after %s, want 1s", got)
	}
	now = now.Add(backMost + time.Minute)
	l.later(withCalls(1, 1, 3), now, time.Second)
	if got := len(l.back); got != 1 {
		t.Errorf("got %d routes remembered when all of theirs have come back, want 1", got)
	}
}
