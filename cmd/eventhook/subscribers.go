package main

import (
	"context"
	"math/rand/v2"
	"net/url"
	"runtime"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/internal/tracing"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/agents"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/replay"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/outbound/temporal"
	"github.com/eventhook/eventhook/outbound/transform"
	"github.com/eventhook/eventhook/targets"
)

// subscribers are the parts that publish events and deliver them to subscriptions
// and http targets.
type subscribers struct {
	subscriptionCache *match.SubscriptionCache
	targets           *outbound.TargetDirectory
	catalogue         *match.Catalogue
	publisher         *outbound.Publisher
	dispatcher        *outbound.Dispatcher
	prober            *outbound.Prober
	tester            *outbound.Tester
	replays           *replay.Worker
	agents            *agents.Service
	brokers           *brokers.Brokers
}

// deliveryObserver reports settled deliveries to the metrics and the usage meter.
type deliveryObserver struct {
	*telemetry.Metrics
	meter *usage.Meter
}

func (s deliveryObserver) SettledDeliveries(batch []*outbound.DeliverySettlement, lost int, took time.Duration) {
	s.Metrics.SettledDeliveries(batch, lost, took)
	s.meter.Delivered(batch)
}

// localDispatcher passes new deliveries to the dispatcher of this instance. If the
// dispatcher has no free slot for a delivery, the other instances are notified.
type localDispatcher struct {
	*outbound.Dispatcher
	db *pg.DB
}

func (d localDispatcher) NotifyDue() { d.db.WakeDeliveries() }

// wireSubscribers creates the parts of g.subscribers.
func (g *gateway) wireSubscribers() {
	c := g.config.Outbound
	s := &g.subscribers
	s.subscriptionCache = match.NewSubscriptionCache(c.Publish.CachedSubscriptions, g.db, g.log, now)
	s.catalogue = match.NewCatalogue(c.Publish.CachedEventTypes, g.db, g.metrics, g.log, now)
	sends := send.Deps{Client: g.out.client, Authenticator: g.out.authenticator(), Transformer: g.transforms(),
		Tracer: g.sendTracer(), UserAgent: g.out.client.UserAgent, Now: now}
	s.brokers = brokers.New(brokers.Deps{Dialer: g.out.client, Tracer: g.brokerTracer(), Name: g.out.client.UserAgent, Now: now})
	subscriptions := outbound.SubscriptionDirectory{Subscriptions: s.subscriptionCache, Sender: send.NewHTTPSender(sends)}
	s.targets = outbound.NewTargetDirectory(outbound.TargetDeps{Routes: g.db, Compile: g.compileTarget(sends), Log: g.log, Now: now})
	directory, observer := outbound.Directories{Subscriptions: subscriptions, Routes: s.targets}, deliveryObserver{g.metrics, g.meter}
	s.prober = &outbound.Prober{Store: g.db, Directory: directory, Observer: observer, Log: g.log, Now: now,
		Lease: g.config.Lease(), IsOff: c.Dispatch.SendsAtOnce == 0}
	s.agents = agents.New(c.Dispatch, agents.Deps{Queue: g.db, Directory: directory, Observer: observer, Log: g.log, Now: now, Chance: rand.Float64,
		Destinations: agents.Directory{Subscriptions: s.subscriptionCache, Transports: subscriptions, Targets: s.targets}})
	s.dispatcher = outbound.NewDispatcher(c.Dispatch, outbound.DispatcherDeps{
		Queue: g.db, Directory: directory, Agents: s.agents, Observer: observer,
		Log: g.log, Now: now, Chance: rand.Float64, Lease: g.config.Lease(),
	})
	g.metrics.WatchDispatch(func() telemetry.DispatcherLoad { return telemetry.DispatcherLoad(s.dispatcher.Stats()) })
	s.publisher = outbound.NewPublisher(c.Publish, outbound.PublisherDeps{
		Subscriptions: s.subscriptionCache, Catalogue: s.catalogue, CPULimiter: g.cpuLimiter, Store: g.tracedPublishes(g.db), Dispatcher: localDispatcher{s.dispatcher, g.db}, Observer: g.metrics, Log: g.log, Now: now,
	})
	s.replays = &replay.Worker{Store: g.db, CPULimiter: g.cpuLimiter,
		Retention: time.Duration(g.config.Retention.DeliveriesDays) * 24 * time.Hour, Log: g.log, Now: now}
	g.metrics.WatchAgentClaims(s.agents.Waiting)
	s.tester = &outbound.Tester{Transports: subscriptions, Generations: s.subscriptionCache, Store: g.db, Now: now}
}

// transforms returns the runner of the transforms of subscriptions. Its first run starts a
// process.
func (g *gateway) transforms() *transform.Runner {
	processes := max(3, runtime.GOMAXPROCS(0)+1) // one for each processor, and one that a single tenant cannot take
	return transform.NewRunner(transform.NewPools(processes), processes, g.cpuLimiter, now)
}

// apiPublisher publishes the events that callers of the API send.
type apiPublisher struct{ publisher *outbound.Publisher }

func (p apiPublisher) Publish(ctx context.Context, tenant eventhook.TenantID, events []*eventhook.Event) []api.PublishResult {
	outcomes := make([]api.PublishResult, len(events))
	for i, o := range p.publisher.PublishBatch(ctx, tenant, events) {
		switch {
		case o.Err != nil:
			outcomes[i].Err = o.Err
		case o.Event.Status == eventhook.EventDuplicate:
			outcomes[i] = api.PublishResult{EventID: o.Event.DuplicateOf, Deliveries: o.Count, IsDuplicate: true}
		default:
			tracing.Created(ctx, o.Event)
			outcomes[i] = api.PublishResult{EventID: o.Event.ID, Deliveries: o.Count}
		}
	}
	return outcomes
}

// replayStore stores the replays of the API.
type replayStore struct {
	*pg.DB
	*replay.Worker
}

// settler stores accepted and processed events and delivers the events that their
// routes publish.
type settler struct {
	*pg.DB
	fanout *outbound.Fanout
}

func (s settler) SettleEvents(ctx context.Context, batch []*effects.Settlement) ([]*effects.Settlement, error) {
	return s.fanout.SettleEvents(ctx, batch)
}

func (s settler) Accept(ctx context.Context, batch []*effects.Arrival) error {
	return s.fanout.Accept(ctx, batch)
}

func (g *gateway) newSettler() settler {
	s := &g.subscribers
	return settler{g.db, &outbound.Fanout{Subscriptions: s.subscriptionCache, Targets: s.targets, Catalogue: s.catalogue, CPULimiter: g.cpuLimiter, Dispatcher: localDispatcher{s.dispatcher, g.db}, Store: g.db, Log: g.log}}
}

// receivers returns the checks of the API for the URLs of subscriptions.
func (g *gateway) receivers() api.Receivers {
	return api.Receivers{
		CheckFilter: match.CheckFilter,
		CheckAddress: func(ctx context.Context, text string) error {
			u, err := url.Parse(text)
			if err != nil {
				return nil //nolint:nilerr // the validation of the URL reports it
			}
			return g.out.client.LookUpAndCheckHost(ctx, u)
		},
		Tester: g.subscribers.tester, RequireHTTPS: g.config.Outbound.RequireHTTPS,
	}
}

// compileTarget returns the function that compiles targets for the dispatcher.
func (g *gateway) compileTarget(sends send.Deps) func(eventhook.TenantID, eventhook.Target) (*outbound.Target, error) {
	return func(tenant eventhook.TenantID, t eventhook.Target) (*outbound.Target, error) {
		compiled, err := targets.New(t, targets.Deps{})
		if err != nil {
			return nil, err
		}
		switch x := compiled.(type) {
		case *targets.HTTP:
			return outbound.HTTPTarget(x, sends)
		case *targets.Message:
			return g.subscribers.brokers.Target(tenant, x)
		case *targets.Temporal:
			return temporal.Target(g.subscribers.brokers, tenant, x)
		}
		return nil, nil //nolint:nilnil // no destination
	}
}

// checkEngine returns why this build of the gateway cannot send to the engine of a target.
func checkEngine(t eventhook.Target) error {
	if targets.NeedsTemporal(t) {
		return temporal.Missing()
	}
	return nil
}

// invalidate evicts the destinations that a configuration change concerns. The
// dispatcher reloads them.
func (s *subscribers) invalidate(c pg.ConfigChange) {
	switch {
	case c == pg.ConfigChange{}:
		s.subscriptionCache.InvalidateAll()
		s.targets.InvalidateAll()
		s.dispatcher.AllTenantsChanged()
	case !c.SubscriptionID.IsZero() && c.TenantID == eventhook.OperatorTenant: // in the matchers of all tenants
		s.subscriptionCache.InvalidateAll()
		s.dispatcher.TenantChanged(c.TenantID)
	case !c.SubscriptionID.IsZero():
		s.subscriptionCache.Invalidate(c.TenantID)
		s.dispatcher.TenantChanged(c.TenantID)
	case !c.SourceID.IsZero():
		for _, tenant := range s.targets.InvalidateSource(c.SourceID) {
			s.dispatcher.TenantChanged(tenant)
		}
	default:
		s.targets.InvalidateTenant(c.TenantID)
		s.dispatcher.TenantChanged(c.TenantID)
	}
}
