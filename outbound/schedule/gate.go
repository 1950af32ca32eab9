package schedule

import "time"

// gateAhead is how long before its reserved time a send may be granted: agents need this long to
// begin.
const gateAhead = 100 * time.Millisecond

// Gate limits the sends to one destination whose deliveries agents send, by the rules of a
// Scheduler: the circuit breaker and the rate of the destination. It has no delivery in memory;
// the database counts the deliveries that agents hold. Gate is not safe for concurrent use.
type Gate struct {
	Destination // the latest known configuration
	circuit
	rate       rate
	changedAt  time.Time // when the circuit was last opened or reset: attempts that began before do not count
	probeUntil time.Time // the end of the lease of a probe
}

// NewGate returns a gate with a closed circuit.
func NewGate(d Destination) *Gate {
	g := &Gate{Destination: d, circuit: newCircuit(d.Slots)}
	g.rate.set(d.PerSecond)
	return g
}

// Configure applies the current configuration of the destination, unless the gate has a newer
// version.
func (g *Gate) Configure(d Destination, now time.Time) {
	if d == g.Destination || d.Version < g.Version {
		return
	}
	if d.resetsBreaker(g.Destination) {
		g.circuit.reset(d.Slots)
		g.changedAt, g.probeUntil = now, time.Time{}
	}
	g.Destination = d
	g.rate.set(d.PerSecond)
}

// Grant is what a gate allows at a time.
type Grant struct {
	Slots   int       // maximum number of deliveries that agents hold; 0: nothing may be sent now
	Sends   int       // maximum number of sends that may begin now; 0: Reserve must come first
	IsProbe bool      // the circuit is open: the send is a probe
	Next    time.Time // if nothing may be sent, when to look again
}

// Look returns what may be sent now, at most max sends.
func (g *Gate) Look(max int, now time.Time) Grant {
	isOpen := g.breaker.state == Open
	switch {
	case g.inBackoff(now):
		return Grant{Next: g.backoffUntil}
	case g.IsProbing(now):
		return Grant{Next: g.probeUntil}
	}
	n := Grant{Slots: min(g.breaker.slots, g.Slots), Sends: max, IsProbe: isOpen}
	if isOpen { // deliveries that agents hold since before do not delay the probe
		n.Slots, n.Sends = g.Slots, 1
	}
	if g.rate.isSpent(now) {
		n.Sends = 0
	} else if g.rate.interval > 0 {
		if n.Sends = min(n.Sends, g.rate.begins(now.Add(gateAhead), now)); n.Sends == 0 {
			return Grant{Next: g.rate.next.Add(-gateAhead)}
		}
	}
	return n
}

// Wanted returns how many send times must be reserved before max sends; 0: none. Reserve must
// follow.
func (g *Gate) Wanted(max int, now time.Time) int {
	if g.inBackoff(now) || !g.rate.isSpent(now) {
		return 0
	}
	return g.rate.count(max)
}

// Reserve adds n reserved sends from first on.
func (g *Gate) Reserve(first time.Time, n int) { g.rate.grant(first, n) }

// IsProbing reports whether the circuit is open and its probe is leased.
func (g *Gate) IsProbing(now time.Time) bool {
	return g.breaker.state == Open && now.Before(g.probeUntil)
}

// Begin counts a send that was granted now, leased until a time.
func (g *Gate) Begin(until, now time.Time) {
	g.rate.use(now)
	if g.breaker.state == Open {
		g.probeUntil = until
	}
}

// Cancel undoes Begin for a probe, leased until a time, that is not sent: another one may begin.
func (g *Gate) Cancel(until time.Time) {
	if g.probeUntil.Equal(until) {
		g.probeUntil = time.Time{}
	}
}

// Delay sends nothing to the destination before a time.
func (g *Gate) Delay(until time.Time) { g.delay(until) }

// Finish applies an attempt that ended now. isKnown says that the delivery has failed before since
// it was released. Finish returns the series of failures of the destination.
func (g *Gate) Finish(a Attempt, isKnown bool, now time.Time, chance func() float64) Outage {
	epoch := g.breaker.epoch
	if isEarlier := now.Add(-a.Took).Before(g.changedAt); isEarlier {
		epoch--
	} else {
		g.probeUntil = time.Time{}
	}
	opens, backoff := g.circuit.apply(observation{Attempt: a, at: now, epoch: epoch, maxSlots: g.Slots, isKnown: isKnown}, chance)
	if opens {
		g.changedAt = now
	}
	g.delay(backoff)
	return g.outage()
}
