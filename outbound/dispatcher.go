package outbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// Queue is where deliveries are leased and settled.
//
// DueLanes tells subscriptions with something due, in the order of their ids,
// after one; fewer than limit: there are no more. ClaimDeliveries leases what
// is due of some, as each claim says, with Event. SettleDeliveries is atomic and
// returns the settlements whose lease was lost, of which it wrote nothing.
// ReleaseDeliveries makes those due now whose lease still holds. PaceDeliveries
// reserves sends from those of all instances, and tells when the first of each
// request is; the next follow at 1/PerSecond. AbandonDeliveries has due
// deliveries of a subscription that is gone die, and tells how many it were; it
// changes nothing while there is such a subscription.
type Queue interface {
	DueLanes(ctx context.Context, after eventhook.SubscriptionID, limit int) ([]Lane, error)
	ClaimDeliveries(ctx context.Context, claims []LaneClaim) ([]*eventhook.Delivery, error)
	SettleDeliveries(ctx context.Context, batch []*DeliverySettlement) (lost []*DeliverySettlement, err error)
	ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error
	PaceDeliveries(ctx context.Context, list []PaceRequest) ([]time.Time, error)
	AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (int, error)
	DeliveriesWake() <-chan struct{}
}

// Directory tells a subscription as it is now, mostly from memory and else
// within seconds, or an error of KindNotFound. What it returns is not changed
// any more.
type Directory interface {
	Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (*eventhook.Subscription, error)
}

// DispatchObserver hears of attempts, and of what was written of them.
type DispatchObserver interface {
	Attempted(class eventhook.ErrorClass, took time.Duration)
	SettledDeliveries(batch []*DeliverySettlement, lost int, took time.Duration)
}

// DispatcherDeps are what a dispatcher works with. Chance yields numbers
// between 0 and 1.
type DispatcherDeps struct {
	Queue     Queue
	Directory Directory
	Sender    Sender
	Observer  DispatchObserver
	Log       *slog.Logger
	Now       func() time.Time
	Chance    func() float64
	Lease     time.Duration
}

// Dispatcher sends what is owed to subscribers, fresh from the memory of who
// has published it, or leased from the database, and writes down what came of
// it. Each subscription is a lane: none waits for another's endpoint.
type Dispatcher struct {
	DispatcherDeps
	config  Config
	traffic *traffic
	outbox  *outbox
	gone    *gone
	changes changes
	look    bell // there may be something due in the database
}

// NewDispatcher makes a dispatcher; Run starts it.
func NewDispatcher(config Config, deps DispatcherDeps) *Dispatcher {
	return &Dispatcher{DispatcherDeps: deps, config: config, traffic: newTraffic(config, deps.Lease, deps.Chance),
		outbox: newOutbox(config.BatchSize), gone: newGone(), changes: changes{told: newBell()}, look: newBell()}
}

// Reserve asks for room for n deliveries of a subscription that are about to be
// stored, and tells until when to lease those that are granted. Each of them
// must be Put or Released. None are while the endpoint is in trouble, nor while
// it is not this gateway that sends.
func (d *Dispatcher) Reserve(s *eventhook.Subscription, n int) (granted int, until time.Time) {
	return d.traffic.reserve(s, n, d.Now())
}

// Release gives reserved room back.
func (d *Dispatcher) Release(s eventhook.SubscriptionID, n int) { d.traffic.release(s, n, d.Now()) }

// Put hands over stored deliveries, leased to this instance, with Event.
func (d *Dispatcher) Put(list []*eventhook.Delivery) { d.traffic.put(list, d.Now()) }

// DeliveriesLeft says that deliveries were stored which nobody here takes.
func (d *Dispatcher) DeliveriesLeft() { d.look.ring() }

// Changed says that a tenant's subscriptions have changed: what waits here for
// one that is paused now is given back at once.
func (d *Dispatcher) Changed(of eventhook.TenantID) { d.changes.tell(of) }

// ChangedAll says that any subscription may have changed.
func (d *Dispatcher) ChangedAll() { d.changes.tell(d.traffic.allTenants()...) }

// Run sends deliveries until ctx ends. Then nothing more is begun: what is
// under way has DrainTimeout to end, what was answered is written down, and the
// rest is given back. It returns when nothing is left.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.config.SendsAtOnce == 0 {
		<-ctx.Done()
		return nil
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// Those that feed others end before them.
	var feeders, senders, keepers sync.WaitGroup
	ended := make(chan struct{})
	for _, loop := range []func(context.Context){d.claimLoop, d.paceLoop, d.abandonLoop, d.lookLoop} {
		feeders.Go(func() { loop(ctx) })
	}
	senders.Go(func() { d.sendLoop(ctx, working) })
	for range settlers {
		keepers.Go(func() { d.settleLoop(working, ended) })
	}
	keepers.Go(func() { d.giveBackLoop(working, ended) })
	<-ctx.Done()
	d.traffic.close()
	drain := time.AfterFunc(d.config.DrainTimeout, stop)
	defer drain.Stop()
	feeders.Wait()
	senders.Wait()
	stop()
	close(ended)
	keepers.Wait()
	return nil
}

// Standing is how much a dispatcher has in memory.
type Standing struct {
	Waiting   int // for their turn
	Sending   int
	Unsettled int // outcomes that wait for the database
	OpenLanes int // subscriptions whose endpoint is in trouble
}

// Standing tells how much is in memory.
func (d *Dispatcher) Standing() Standing { return d.traffic.standing() }

// LaneState is how a subscription is served by this instance.
type LaneState struct {
	Breaker   BreakerState
	AtOnce    int // sends that may be under way
	Waiting   int
	Sending   int
	RestUntil time.Time // nothing is sent before
}

// State tells how a subscription is served by this instance, false if it has
// had nothing to do with it of late.
func (d *Dispatcher) State(s eventhook.SubscriptionID) (LaneState, bool) { return d.traffic.state(s) }
