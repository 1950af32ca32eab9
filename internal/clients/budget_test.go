package clients_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/clients"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func TestABudgetIsABurstAndThenARate(t *testing.T) {
	b := clients.NewBudget(2, 3)
	client := netip.MustParseAddr("198.51.100.1")
	now := noon
	for step, c := range []struct {
		passes time.Duration
		wait   time.Duration // before it
		room   bool
	}{
		{0, 0, true},
		{0, 0, true},
		{0, 0, true},
		{0, time.Second / 2, false},
		{time.Second / 4, time.Second / 4, false},
		{time.Second / 4, 0, true},
		{0, time.Second / 2, false},
		{time.Hour, 0, true},
		{0, 0, true},
		{0, 0, true},
		{0, time.Second / 2, false},
	} {
		now = now.Add(c.passes)
		if got := b.Wait(client, now); (got - c.wait).Abs() > time.Millisecond {
			t.Errorf("step %d: wait %s, want %s", step, got, c.wait)
		}
		if got := b.Take(client, now); got != c.room {
			t.Errorf("step %d: room is %v, want %v", step, got, c.room)
		}
	}
}

func TestLookingDrawsNothing(t *testing.T) {
	b := clients.NewBudget(1, 1)
	client := netip.MustParseAddr("198.51.100.1")
	for range 10 {
		if got := b.Wait(client, noon); got != 0 {
			t.Fatalf("wait %s, want none", got)
		}
	}
	if !b.Take(client, noon) || b.Take(client, noon) {
		t.Error("want room for one")
	}
}

func TestEachClientHasItsOwn(t *testing.T) {
	for _, c := range []struct {
		claim, one, other string
		same              bool
	}{
		{"an address", "198.51.100.1", "198.51.100.1", true},
		{"a neighbour", "198.51.100.1", "198.51.100.2", false},
		{"an IPv6 network", "2001:db8::1", "2001:db8::ffff:0:0:1", true},
		{"another IPv6 network", "2001:db8::1", "2001:db8:0:1::1", false},
	} {
		b := clients.NewBudget(1, 1)
		b.Take(netip.MustParseAddr(c.one), noon)
		if room := b.Take(netip.MustParseAddr(c.other), noon); room == c.same {
			t.Errorf("%s: %s and %s: room for the second is %v, want %v", c.claim, c.one, c.other, room, !c.same)
		}
	}
	b := clients.NewBudget(1, 1)
	if !b.Take(netip.Addr{}, noon) || b.Take(netip.Addr{}, noon) {
		t.Error("those without an address share one budget")
	}
}

func TestAScanOfManyAddressesIsForgotten(t *testing.T) {
	b := clients.NewBudget(1, 1)
	first := netip.MustParseAddr("198.51.100.1")
	b.Take(first, noon)
	for n := range 10_000 {
		b.Take(netip.MustParseAddr(fmt.Sprintf("203.%d.%d.1", n>>8, n&255)), noon)
	}
	if !b.Take(first, noon) {
		t.Error("the first of ten thousand others is still remembered: the memory has no bound")
	}
}

func TestWhatWasNoFaultIsGivenBack(t *testing.T) {
	b := clients.NewBudget(1, 2)
	client := netip.MustParseAddr("198.51.100.1")
	b.Return(client, noon) // of whom nothing is known
	for step, c := range []struct{ room, given int }{{2, 2}, {2, 1}, {1, 0}, {0, 5}, {2, 0}} {
		room := 0
		for b.Take(client, noon) {
			room++
		}
		if room != c.room {
			t.Errorf("step %d: room for %d, want %d", step, room, c.room)
		}
		for range c.given {
			b.Return(client, noon)
		}
	}
}
