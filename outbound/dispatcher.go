package outbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/internal/wake"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// Queue leases and settles deliveries.
//
// DueDestinations lists destinations with due deliveries, in the order of their ids,
// after a cursor; fewer than limit are the last. ClaimDeliveries leases due
// deliveries of some destinations, as each claim says, with their events; a
// destination has one claim at most. SettleDeliveries is atomic. It returns the
// settlements whose lease was lost, of which it wrote nothing. ReleaseDeliveries makes
// deliveries due now whose lease still holds. ReserveSends reserves sends from the
// ones of all instances, and returns the time of the first send of each request; the
// next follow at 1/PerSecond. AbandonDeliveries makes due deliveries dead of a
// destination that does not exist any more, and returns how many there were; it changes
// nothing while the destination exists. DeliveriesWake is closed when deliveries may
// have become due.
type Queue interface {
	DueDestinations(ctx context.Context, after eventhook.DestinationID, limit int) ([]DueDestination, error)
	ClaimDeliveries(ctx context.Context, claims []Claim) ([]*eventhook.Delivery, error)
	SettleDeliveries(ctx context.Context, batch []*DeliverySettlement) (lost []*DeliverySettlement, err error)
	ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error
	ReserveSends(ctx context.Context, list []SendReservation) ([]time.Time, error)
	AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (int, error)
	DeliveriesWake() <-chan struct{}
}

// DispatchObserver is told of attempts, and of the outcomes that were written.
type DispatchObserver interface {
	Attempted(class eventhook.ErrorClass, took time.Duration)
	SettledDeliveries(batch []*DeliverySettlement, lost int, took time.Duration)
}

// DispatcherDeps are the dependencies of a dispatcher. Chance returns numbers between 0
// and 1.
type DispatcherDeps struct {
	Queue     Queue
	Directory Directory
	Observer  DispatchObserver
	Log       *slog.Logger
	Now       func() time.Time
	Chance    func() float64
	Lease     time.Duration
}

// Dispatcher sends deliveries: new ones from the memory of the instance that stored
// them, and other deliveries after it leased them from the database. It settles the outcomes in
// batches. Package schedule decides which delivery is sent when; the loops here do the work.
//
//	claimLoop    leases due deliveries          Queue.ClaimDeliveries
//	sendLoop     uses the slots                 Transport.Send
//	rateLoop     reserves send times            Queue.ReserveSends
//	settlements  writes outcomes in batches     Queue.SettleDeliveries
//	releaseLoop  gives deliveries back          Queue.ReleaseDeliveries
//	abandonLoop  ends deliveries to deleted destinations    Queue.AbandonDeliveries
//	changesLoop  looks up destinations that changed, and forgets unused ones
//
// The loops share scheduler, settlements, deleted and changes, each of which is safe
// for concurrent use, and look, a channel. Run sets settlements before it starts the
// loops; nothing else changes after NewDispatcher.
type Dispatcher struct {
	DispatcherDeps
	config      Config
	scheduler   *scheduler
	settlements *batch.Committer[*DeliverySettlement]
	deleted     *deleted
	changes     *changes
	look        wake.Signal // deliveries may be due in the database
}

// NewDispatcher returns a dispatcher; Run starts it.
func NewDispatcher(config Config, deps DispatcherDeps) *Dispatcher {
	core := schedule.New(schedule.Config{
		Slots: config.SendsAtOnce, Deliveries: config.QueueDeliveries, Bytes: config.QueueBytes, Batch: config.BatchSize,
		Unsettled: config.UnsettledDeliveries, Lease: deps.Lease,
	}, deps.Chance)
	return &Dispatcher{DispatcherDeps: deps, config: config, scheduler: newScheduler(core), deleted: newDeleted(), changes: newChanges(), look: wake.New(1)}
}

// Reserve asks for memory for n deliveries to a destination that are about to be
// stored. It returns how many are granted, and until when to lease them. Each one
// must be enqueued or released. Nothing is granted while the destination fails, or while
// this gateway does not send to it.
func (d *Dispatcher) Reserve(to schedule.Destination, n int) (granted int, until time.Time) {
	d.scheduler.with(func(core *schedule.Scheduler) { granted, until = core.Reserve(to, n, d.Now()) })
	return granted, until
}

// Release gives reserved memory back.
func (d *Dispatcher) Release(to eventhook.DestinationID, n int) {
	d.scheduler.with(func(core *schedule.Scheduler) { core.Release(to, n, d.Now()) })
}

// Enqueue hands over stored deliveries, leased to this instance, with their events.
func (d *Dispatcher) Enqueue(list []*eventhook.Delivery) {
	d.scheduler.with(func(core *schedule.Scheduler) { core.Offer(list, d.Now()) })
}

// NotifyDue says that due deliveries were stored that this instance does not have
// in memory.
func (d *Dispatcher) NotifyDue() { d.look.Notify() }

// TenantChanged says that destinations of a tenant have changed. Waiting deliveries of a
// destination that is paused now are given back at once.
func (d *Dispatcher) TenantChanged(of eventhook.TenantID) { d.changes.add(of) }

// AllTenantsChanged says that any destination may have changed.
func (d *Dispatcher) AllTenantsChanged() {
	var all []eventhook.TenantID
	d.scheduler.with(func(core *schedule.Scheduler) { all = core.Tenants() })
	d.changes.add(all...)
}

// Run sends deliveries until ctx ends. Then it starts no more sends: sends in progress
// have DrainTimeout to end, their outcomes are settled, and the other deliveries are
// given back. It returns when nothing is left, and must be called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.config.SendsAtOnce == 0 {
		<-ctx.Done()
		return nil
	}
	working, stopSends := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSends()
	writing, stopWrites := lifetime.Extend(working, lastWrites)
	defer stopWrites()
	feeding, stopWriters := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriters()
	d.settlements = batch.New(settleBounds(d.config.BatchSize), func(list []*DeliverySettlement) error {
		d.settle(writing, list)
		return nil
	})
	// A loop that hands work to other loops ends before them.
	var feeders, senders, writers sync.WaitGroup
	for _, loop := range []func(context.Context){d.claimLoop, d.rateLoop, d.abandonLoop, d.changesLoop} {
		feeders.Go(func() { loop(ctx) })
	}
	senders.Go(func() { d.sendLoop(ctx, working) })
	writers.Go(func() { _ = d.settlements.Run(feeding) }) // it always returns nil
	writers.Go(func() { d.releaseLoop(feeding, writing) })
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

// Stats returns how much the dispatcher has in memory.
func (d *Dispatcher) Stats() (n schedule.Stats) {
	d.scheduler.with(func(core *schedule.Scheduler) { n = core.Stats() })
	return n
}

// Status returns how a destination is served by this instance, false if it was not used
// lately.
func (d *Dispatcher) Status(id eventhook.DestinationID) (status schedule.Status, ok bool) {
	d.scheduler.with(func(core *schedule.Scheduler) { status, ok = core.Status(id) })
	return status, ok
}
