package outbound

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/internal/panics"
)

// Probe is a due probe of a subscription whose outage has not ended, leased to this instance.
type Probe struct {
	TenantID       eventhook.TenantID
	SubscriptionID eventhook.SubscriptionID
	FailingSince   time.Time
	MaxAge         time.Duration // deliveries of older events are not sent
	// IsHeld says that failures have disabled the subscription: a success enables it.
	IsHeld bool
	// After is the delivery after which the probe continues; zero: it begins with the oldest.
	After eventhook.DeliveryID
}

// Missed is a delivery that an outage has held or killed, leased for its probe.
type Missed struct {
	*eventhook.Delivery
	WasDead bool
}

// ProbeResult is the result of a probe.
type ProbeResult string

// The results of probes.
const (
	ProbeSucceeded ProbeResult = "success"  // the outage has ended
	ProbeFailed    ProbeResult = "failed"   // the next probe is due later
	ProbeRejected  ProbeResult = "rejected" // only deliveries that the receiver rejects were sent; the next ones are tried at once
	ProbeGone      ProbeResult = "gone"     // an answer of 410; there are no more probes
	ProbeEmpty     ProbeResult = "empty"    // no delivery was missed; the next probe is due later
	ProbeBusy      ProbeResult = "busy"     // the tenant's time for transforms is used up, so nothing was sent; the probe is due again at once, and the next poll repeats it
	ProbeUnsent    ProbeResult = "unsent"   // of one delivery: the transform of the subscription failed; the next delivery is tried at once
)

// ProbeStore stores the probes of outages. Implementations are safe for concurrent use.
type ProbeStore interface {
	// ClaimProbes leases up to limit due probes, the longest due first, except those of the
	// tenants in busy.
	ClaimProbes(ctx context.Context, limit int, busy []eventhook.TenantID, lease time.Duration) ([]Probe, error)
	// ClaimMissed leases the delivery of the oldest event after p.After that the outage has
	// held or killed, and returns it with its event; nil if there is none.
	ClaimMissed(ctx context.Context, p Probe, lease time.Duration) (*Missed, error)
	// RejectMissed excludes a dead delivery from probes and from recovery.
	RejectMissed(ctx context.Context, d *eventhook.Delivery) error
	// EndProbe ends the lease of a probe. After ProbeSucceeded, it enables a subscription
	// that failures have disabled, and starts its recovery.
	EndProbe(ctx context.Context, p Probe, result ProbeResult) error
	// SettleDeliveries is the method of Queue.
	SettleDeliveries(ctx context.Context, batch []*DeliverySettlement) (lost []*DeliverySettlement, err error)
}

// ProbeObserver counts probes. An attempt is observed as by the dispatcher.
type ProbeObserver interface {
	DispatchObserver
	Probed(result ProbeResult)
}

// Prober sends the oldest missed delivery of a subscription during its outage, after 1, 5 and
// 15 minutes and then every hour, and at once when the subscription is enabled. An answer of
// 400 or 422 makes that delivery dead, and the next one is tried. If the subscription's transform
// fails for a delivery, the next one is tried as well. A success ends the outage.
// One instance at a time probes a subscription. If it ends, another instance probes once the
// lease has run out. A tenant gets at most half of the slots that other tenants leave, since a
// receiver can keep a probe busy for minutes.
type Prober struct {
	Store     ProbeStore
	Directory Directory
	Observer  ProbeObserver
	Log       *slog.Logger
	Now       func() time.Time
	Lease     time.Duration // of a probe and of its delivery, in addition to the timeout of a send
	IsOff     bool          // this instance sends nothing

	slots probeSlots
}

const (
	probeInterval  = time.Second
	probesAtOnce   = 64
	probesOfStep   = 16
	probesOfClaim  = 4
	maxSendTimeout = time.Minute // of a subscription
)

// MaxTried is the number of deliveries that one probe tries.
const MaxTried = 10

// Run probes until ctx ends, and returns nil when the probes in progress have ended.
func (p *Prober) Run(ctx context.Context) error {
	if p.IsOff {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := p.begin(ctx, &running); err != nil && ctx.Err() == nil {
			p.Log.Warn("cannot list the probes of outages; retrying", "error", err)
		}
	}
}

// Step makes the probes that are due, concurrently, and returns their number.
func (p *Prober) Step(ctx context.Context) (int, error) {
	var running sync.WaitGroup
	defer running.Wait()
	return p.begin(ctx, &running)
}

// begin starts the probes that are due and have a slot, and returns their number.
func (p *Prober) begin(ctx context.Context, running *sync.WaitGroup) (n int, err error) {
	for n < probesOfStep {
		free, busy := p.slots.state()
		limit := min(free, probesOfClaim)
		if limit == 0 {
			break
		}
		list, err := p.Store.ClaimProbes(ctx, limit, busy, p.Lease+MaxTried*maxSendTimeout)
		if err != nil {
			return n, err
		}
		for _, one := range list {
			p.slots.add(one.TenantID, 1)
			running.Go(panics.Guarded(func() {
				defer p.slots.add(one.TenantID, -1)
				p.probe(ctx, one)
			}))
		}
		if n += len(list); len(list) < limit {
			break
		}
	}
	return n, nil
}

// probe makes one probe and stores its result, also after ctx has ended.
func (p *Prober) probe(ctx context.Context, one Probe) {
	working, cancel := lifetime.Extend(ctx, finalWriteTimeout)
	defer cancel()
	result, err := ProbeRejected, error(nil)
	for n := 0; n < MaxTried && (result == ProbeRejected || result == ProbeUnsent) && err == nil; n++ {
		result, err = p.try(working, &one)
	}
	if result == ProbeUnsent {
		result = ProbeFailed
	}
	if err != nil {
		p.Log.Warn("cannot probe a subscription; the next probe follows later", "subscription", one.SubscriptionID, "error", err)
		result = ProbeFailed
	}
	p.Observer.Probed(result)
	if err := p.Store.EndProbe(working, one, result); err != nil {
		p.Log.Warn("cannot store the result of a probe; it is repeated", "subscription", one.SubscriptionID, "error", err)
	}
}

// try sends the oldest missed delivery after one.After and settles it.
func (p *Prober) try(ctx context.Context, one *Probe) (result ProbeResult, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			result, err = ProbeFailed, panics.Recovered(panics.Delivery, reason)
		}
	}()
	to, err := p.Directory.Destination(ctx, eventhook.Destination{TenantID: one.TenantID, SubscriptionID: one.SubscriptionID})
	if err != nil || !to.Ready && !to.Held {
		return ProbeFailed, err
	}
	missed, err := p.Store.ClaimMissed(ctx, *one, p.Lease+to.Timeout)
	if err != nil || missed == nil {
		return ProbeEmpty, err
	}
	rules := OutcomeRules{Now: p.Now(), MaxAge: math.MaxInt64} // the age does not matter
	if reason := rules.Unsendable(to, missed.Delivery); reason != "" {
		unsent := rules.Unsent(to, missed.Delivery, reason)
		unsent.IsProbe = missed.WasDead
		return ProbeRejected, p.reject(ctx, unsent)
	}
	a := to.Transport.Send(ctx, missed.Delivery, missed.Attempts+1)
	if a.ErrorClass != eventhook.ErrorBusy {
		p.Observer.Attempted(a.ErrorClass, a.Duration)
	}
	result, settlement := ProbeOutcome(to, missed, &a)
	switch result {
	case ProbeRejected:
		return result, p.reject(ctx, settlement)
	case ProbeUnsent:
		one.After = missed.ID
	default: // the settlement is all there is to do
	}
	return result, p.settle(ctx, settlement)
}

// reject settles a delivery as dead that is not sent again.
func (p *Prober) reject(ctx context.Context, s *DeliverySettlement) error {
	if err := p.settle(ctx, s); err != nil {
		return err
	}
	return p.Store.RejectMissed(ctx, s.Delivery)
}

// ProbeOutcome returns the result of an attempt of a probe, and its settlement. After a failure, the
// delivery has its former state again: dead, or held.
func ProbeOutcome(to Destination, missed *Missed, a *eventhook.Attempt) (ProbeResult, *DeliverySettlement) {
	s := &DeliverySettlement{Delivery: missed.Delivery, Attempt: a, Status: eventhook.DeliveryDead, RetryCount: missed.RetryCount,
		LastError: a.Error,
		DeadInRow: to.DeadInRow, IsProbe: missed.WasDead}
	switch {
	case a.Succeeded():
		s.Status, s.LastError = eventhook.DeliverySuccess, ""
		return ProbeSucceeded, s
	case a.StatusCode == http.StatusGone:
		s.Disable = answeredGone
		return ProbeGone, s
	case a.StatusCode == http.StatusBadRequest || a.StatusCode == http.StatusUnprocessableEntity:
		return ProbeRejected, s
	case !missed.WasDead:
		s.Status, s.DueAt = eventhook.DeliveryFailed, missed.EventID.Time()
	}
	switch a.ErrorClass {
	case eventhook.ErrorTransform:
		return ProbeUnsent, s
	case eventhook.ErrorBusy:
		s.Attempt = nil
		return ProbeBusy, s
	default:
		return ProbeFailed, s
	}
}

// settle stores the outcome of the delivery.
func (p *Prober) settle(ctx context.Context, s *DeliverySettlement) error {
	began := p.Now()
	lost, err := p.Store.SettleDeliveries(ctx, []*DeliverySettlement{s})
	if err == nil {
		p.Observer.SettledDeliveries([]*DeliverySettlement{s}, len(lost), p.Now().Sub(began))
	}
	return err
}
