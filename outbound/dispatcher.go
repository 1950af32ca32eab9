package outbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/wake"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// Queue leases and settles deliveries. Implementations are safe for concurrent use.
type Queue interface {
	// DueDestinations lists destinations with due deliveries in the order of their ids,
	// after a cursor. A result shorter than limit is the last page.
	DueDestinations(ctx context.Context, after eventhook.DestinationID, limit int) ([]DueDestination, error)
	// ClaimDeliveries leases due deliveries and returns them with their events. claims
	// must not name a destination twice.
	ClaimDeliveries(ctx context.Context, claims []Claim) ([]*eventhook.Delivery, error)
	// SettleDeliveries writes a batch of outcomes in one transaction. It writes nothing
	// for the settlements whose lease was lost, and returns them.
	SettleDeliveries(ctx context.Context, batch []*DeliverySettlement) (lost []*DeliverySettlement, err error)
	// ReleaseDeliveries makes deliveries due now, unless their lease was lost.
	ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error
	// ReserveSends reserves send times of destinations with a rate limit, which all
	// instances share. It returns the time of the first send of each reservation, in
	// the order of list. The following sends are 1/PerSecond apart.
	ReserveSends(ctx context.Context, list []SendReservation) ([]time.Time, error)
	// AbandonDeliveries makes up to limit due deliveries of a deleted destination dead,
	// and returns their number. If the destination exists, it changes nothing.
	AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (int, error)
	// DeliveriesWake returns a channel that is closed when deliveries may have become
	// due. Callers must call DeliveriesWake before they look for due deliveries.
	DeliveriesWake() <-chan struct{}
}

// DispatchObserver counts attempts and the outcomes that were written.
type DispatchObserver interface {
	// Started is called when an attempt starts, with the time for which its delivery waited
	// for the gateway; not for attempts that wait on purpose, such as those of a recovery.
	Started(d *eventhook.Delivery, delay time.Duration)
	Attempted(class eventhook.ErrorClass, took time.Duration)
	SettledDeliveries(batch []*DeliverySettlement, lost int, took time.Duration)
}

// UnclaimedDeliveries ends deliveries that agents do not send. Package agents implements it.
type UnclaimedDeliveries interface {
	// Expire makes up to limit due deliveries dead that no agent gets any more, because they are
	// too old or agents have not reported them, and returns their number.
	Expire(ctx context.Context, of eventhook.Destination, limit int) (int, error)
}

// DispatcherDeps are the dependencies of a dispatcher. Chance returns random numbers
// between 0 and 1. Lease is how long a delivery is leased, in addition to the timeout of
// its destination.
type DispatcherDeps struct {
	Queue     Queue
	Directory Directory
	Agents    UnclaimedDeliveries
	Observer  DispatchObserver
	Log       *slog.Logger
	Now       func() time.Time
	Chance    func() float64
	Lease     time.Duration
}

// Dispatcher sends deliveries. It sends new deliveries from the memory of the instance
// that stored them, and claims all other deliveries from the database. It settles the
// outcomes in batches. Package schedule decides which delivery is sent when. These
// goroutines do the work:
//
//	claimLoop    leases due deliveries          Queue.ClaimDeliveries
//	sendLoop     sends deliveries               Transport.Send
//	rateLoop     reserves send times            Queue.ReserveSends
//	settlements  writes outcomes in batches     Queue.SettleDeliveries
//	releaseLoop  releases deliveries            Queue.ReleaseDeliveries
//	abandonLoop  makes deliveries to deleted destinations dead    Queue.AbandonDeliveries
//	expireLoop   makes deliveries dead that agents do not send    UnclaimedDeliveries.Expire
//	reloadLoop   looks up changed destinations, and removes unused ones from memory
//
// The loops share the fields scheduler, settlements, deleted, ofAgents, changes and claimSignal,
// each of which is safe for concurrent use. Run sets settlements before it starts the
// loops. All other fields are set by NewDispatcher.
type Dispatcher struct {
	DispatcherDeps
	config      Config
	scheduler   *scheduler
	settlements *batch.Committer[*DeliverySettlement]
	deleted     *unsentDestinations
	ofAgents    *unsentDestinations // with due deliveries that agents send
	changes     *changedTenants
	claimSignal wake.Signal // deliveries may be due in the database
}

// NewDispatcher returns a dispatcher; Run starts it.
func NewDispatcher(config Config, deps DispatcherDeps) *Dispatcher {
	core := schedule.New(schedule.Config{
		Slots: config.SendsAtOnce, Deliveries: config.QueueDeliveries, Bytes: config.QueueBytes, Batch: config.BatchSize,
		Unsettled: config.UnsettledDeliveries, Lease: deps.Lease,
	}, deps.Chance)
	return &Dispatcher{DispatcherDeps: deps, config: config, scheduler: newScheduler(core), deleted: newUnsentDestinations(abandonInterval), ofAgents: newUnsentDestinations(expireInterval),
		changes: newChangedTenants(), claimSignal: wake.New(1)}
}

// Reserve implements LocalDispatcher. It grants nothing while the circuit breaker of the
// destination is open, or while this gateway does not send to the destination.
func (d *Dispatcher) Reserve(to schedule.Destination, n int) (granted int, until time.Time) {
	d.scheduler.with(func(core *schedule.Scheduler) { granted, until = core.Reserve(to, n, d.Now()) })
	return granted, until
}

// Release implements LocalDispatcher.
func (d *Dispatcher) Release(to eventhook.DestinationID, n int) {
	d.scheduler.with(func(core *schedule.Scheduler) { core.Release(to, n, d.Now()) })
}

// Enqueue implements LocalDispatcher.
func (d *Dispatcher) Enqueue(list []*eventhook.Delivery) {
	now := d.Now()
	for _, x := range list {
		x.DueSince = now
	}
	d.scheduler.with(func(core *schedule.Scheduler) { core.Offer(list, now) })
}

// NotifyDue implements LocalDispatcher.
func (d *Dispatcher) NotifyDue() { d.claimSignal.Notify() }

// TenantChanged must be called when a destination of a tenant may have changed. The
// dispatcher looks up the tenant's destinations again, and releases the waiting deliveries
// of paused and deleted ones. TenantChanged does not wait for that.
func (d *Dispatcher) TenantChanged(id eventhook.TenantID) { d.changes.add(id) }

// AllTenantsChanged calls TenantChanged for all tenants with a destination in memory. It
// must be called when change notifications may have been missed.
func (d *Dispatcher) AllTenantsChanged() {
	var all []eventhook.TenantID
	d.scheduler.with(func(core *schedule.Scheduler) { all = core.Tenants() })
	d.changes.add(all...)
}

// Run sends deliveries until ctx ends. Then it starts no more sends. Sends in progress
// may continue for DrainTimeout. Run settles their outcomes, releases all other
// deliveries, and returns nil when no delivery is left in memory. Run must be called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.config.SendsAtOnce == 0 {
		<-ctx.Done()
		return nil
	}
	working, stopSends := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSends()
	writing, stopWrites := lifetime.Extend(working, finalWriteTimeout)
	defer stopWrites()
	feeding, stopWriters := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriters()
	d.settlements = batch.New(settleBounds(d.config.BatchSize), func(list []*DeliverySettlement) error {
		d.settle(writing, list)
		return nil
	})
	// Shutdown order: feeders pass work to senders, and both pass work to writers.
	var feeders, senders, writers sync.WaitGroup
	for _, loop := range []func(context.Context){d.claimLoop, d.rateLoop, d.abandonLoop, d.expireLoop, d.reloadLoop} {
		feeders.Go(panics.Guarded(func() { loop(ctx) }))
	}
	senders.Go(panics.Guarded(func() { d.sendLoop(ctx, working) }))
	writers.Go(panics.Guarded(func() { _ = d.settlements.Run(feeding) })) // Run always returns nil
	writers.Go(panics.Guarded(func() { d.releaseLoop(feeding, writing) }))
	<-ctx.Done()
	d.scheduler.with((*schedule.Scheduler).Close)
	drain := time.AfterFunc(d.config.DrainTimeout, stopSends)
	defer drain.Stop()
	feeders.Wait()
	senders.Wait()
	stopSends()
	stopWriters()
	writers.Wait()
	return nil
}

// Stats returns the numbers of deliveries in memory.
func (d *Dispatcher) Stats() (n schedule.Stats) {
	d.scheduler.with(func(core *schedule.Scheduler) { n = core.Stats() })
	return n
}

// Blocked returns the destinations to which this instance cannot send more at present, because
// of the destinations themselves.
func (d *Dispatcher) Blocked() (b eventhook.BlockedDestinations) {
	d.scheduler.with(func(core *schedule.Scheduler) { b = core.Blocked(d.Now()) })
	return b
}

// Status returns the state of a destination on this instance. ok is false if the
// destination was not used lately.
func (d *Dispatcher) Status(id eventhook.DestinationID) (status schedule.Status, ok bool) {
	d.scheduler.with(func(core *schedule.Scheduler) { status, ok = core.Status(id) })
	return status, ok
}
