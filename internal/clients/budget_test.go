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
		wait   time.Duration // before the Take
		ok     bool
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
		if got := b.Take(client, now); got != c.ok {
			t.Errorf("step %d: Take returned %v, want %v", step, got, c.ok)
		}
	}
}

func TestWaitTakesNoToken(t *testing.T) {
	b := clients.NewBudget(1, 1)
	client := netip.MustParseAddr("198.51.100.1")
	for range 10 {
		if got := b.Wait(client, noon); got != 0 {
			t.Fatalf("Wait: got %s, want 0", got)
		}
	}
	if !b.Take(client, noon) || b.Take(client, noon) {
		t.Error("want one token")
	}
}

func TestEachClientHasItsOwnBudget(t *testing.T) {
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
		if ok := b.Take(netip.MustParseAddr(c.other), noon); ok == c.same {
			t.Errorf("%s: %s and %s: the second Take returned %v, want %v", c.claim, c.one, c.other, ok, !c.same)
		}
	}
	b := clients.NewBudget(1, 1)
	if !b.Take(netip.Addr{}, noon) || b.Take(netip.Addr{}, noon) {
		t.Error("want one budget for all requests without an address")
	}
}

func TestTheNumberOfClientsIsBounded(t *testing.T) {
	b := clients.NewBudget(1, 1)
	first := netip.MustParseAddr("198.51.100.1")
	b.Take(first, noon)
	for n := range 10_000 {
		b.Take(netip.MustParseAddr(fmt.Sprintf("203.%d.%d.1", n>>8, n&255)), noon)
	}
	if !b.Take(first, noon) {
		t.Error("the first client is still cached after 10,000 others, want it evicted")
	}
}

func TestReturnRefillsTheBudget(t *testing.T) {
	b := clients.NewBudget(1, 2)
	client := netip.MustParseAddr("198.51.100.1")
	b.Return(client, noon) // not cached: changes nothing
	for step, c := range []struct{ tokens, returned int }{{2, 2}, {2, 1}, {1, 0}, {0, 5}, {2, 0}} {
		tokens := 0
		for b.Take(client, noon) {
			tokens++
		}
		if tokens != c.tokens {
			t.Errorf("step %d: got %d tokens, want %d", step, tokens, c.tokens)
		}
		for range c.returned {
			b.Return(client, noon)
		}
	}
}
