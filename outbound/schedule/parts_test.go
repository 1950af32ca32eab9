package schedule

import (
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	wantState := func(t *testing.T, b breaker, state State, slots int) {
		t.Helper()
		if b.state != state || b.slots != slots {
			t.Errorf("got %s with %d slots, want %s with %d", b.state, b.slots, state, slots)
		}
	}
	b := newBreaker(10)
	wantState(t, b, Closed, 4)
	for range 20 {
		b.succeed(b.epoch, 10)
	}
	wantState(t, b, Closed, 10)
	b.fail(b.epoch)
	wantState(t, b, Closed, 5)
	before := b.epoch
	for range 3 {
		b.fail(before)
	}
	wantState(t, b, Closed, 1)
	if !b.fail(before) {
		t.Error("the fifth failure in a row did not open it")
	}
	if b.fail(before) {
		t.Error("a failure of an earlier attempt opened it again")
	}
	b.succeed(before, 10)
	wantState(t, b, Open, 1)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		if got := b.probeDelay(0); got != want {
			t.Errorf("backoff of %s, want %s", got, want)
		}
		if got := b.probeDelay(1); got != want*4/5 {
			t.Errorf("backoff of %s with jitter, want %s", got, want*4/5)
		}
		b.fail(b.epoch)
	}
	b.succeed(b.epoch, 10)
	wantState(t, b, HalfOpen, 2)
	if !b.fail(b.epoch) || b.probeDelay(0) != 30*time.Second {
		t.Error("a failure while it was half open did not open it as before")
	}
	for range 3 {
		b.succeed(b.epoch, 10)
	}
	wantState(t, b, Closed, 4)
	for range 3 { // four in a row are not five
		for range 4 {
			b.fail(b.epoch)
		}
		b.succeed(b.epoch, 10)
		wantState(t, b, Closed, 2)
	}
	for range 5 {
		b.fail(b.epoch)
	}
	if got := b.probeDelay(0); got != time.Second {
		t.Errorf("backoff of %s after it was closed and opened again, want a second", got)
	}
	one := newBreaker(1)
	for range 5 {
		one.fail(one.epoch)
	}
	one.succeed(one.epoch, 1)
	wantState(t, one, Closed, 1)
}

func TestALateSendUsesItsReservation(t *testing.T) {
	const ms = time.Millisecond
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := rate{}
	p.set(10)
	if !p.isSpent(start) {
		t.Error("got a send time before any was reserved")
	}
	p.grant(start, 5)
	for _, c := range []struct{ at, next time.Duration }{
		{0, 100 * ms}, {110 * ms, 200 * ms}, // a short delay does not delay the next send
		{700 * ms, 780 * ms}, // after a long delay the missed sends do not follow at once
	} {
		p.use(start.Add(c.at))
		if got := p.next.Sub(start); got != c.next {
			t.Errorf("after a send at %s the next one is at %s, want %s", c.at, got, c.next)
		}
	}
	if p.isSpent(start.Add(1700 * ms)) {
		t.Error("the two remaining reservations are lost")
	}
	if !p.isSpent(start.Add(1800 * ms)) {
		t.Error("a reservation that was missed by more than a second is used")
	}
}

func TestFifo(t *testing.T) {
	var q fifo[int]
	in, out := 0, 0
	for round := range 200 {
		for range round % 17 {
			q.push(in)
			in++
		}
		for range min(q.len(), round%13) {
			if got := q.pop(); got != out {
				t.Fatalf("got %d, want %d", got, out)
			}
			out++
		}
	}
	for q.len() > 0 {
		if got := q.pop(); got != out {
			t.Fatalf("got %d, want %d", got, out)
		}
		out++
	}
	if in != out {
		t.Errorf("%d went in, %d came out", in, out)
	}
}
