package main

import (
	"context"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/targets"
)

// subscribers is what goes out: what is published finds its subscribers, is
// stored with a delivery to each, and sent.
type subscribers struct {
	subscriptionCache *match.SubscriptionCache
	targets           *outbound.TargetDirectory
	catalogue         *match.Catalogue
	publisher         *outbound.Publisher
	dispatcher        *outbound.Dispatcher
	tester            *outbound.Tester
}

// delivered tells the metrics and the meter what came of deliveries.
type delivered struct {
	*telemetry.Metrics
	meter *usage.Meter
}

func (s delivered) SettledDeliveries(batch []*outbound.DeliverySettlement, lost int, took time.Duration) {
	s.Metrics.SettledDeliveries(batch, lost, took)
	s.meter.Delivered(batch)
}

// room is the dispatcher's; what does not fit is for any instance.
type localDispatcher struct {
	*outbound.Dispatcher
	db *pg.DB
}

func (d localDispatcher) NotifyDue() { d.db.WakeDeliveries() }

func (g *gateway) wireSubscribers() {
	c := g.config.Outbound
	s := &g.subscribers
	s.subscriptionCache = match.NewSubscriptionCache(c.Publish.CachedSubscriptions, g.db, g.log, time.Now)
	s.catalogue = match.NewCatalogue(c.Publish.CachedEventTypes, g.db, g.metrics, g.log, time.Now)
	subscriptions := outbound.SubscriptionDirectory{Subscriptions: s.subscriptionCache, Sender: send.NewHTTPSender(g.out.client, g.out.client.UserAgent, time.Now)}
	s.targets = outbound.NewTargetDirectory(outbound.TargetDeps{Routes: g.db, Compile: compileHTTP, Client: g.out.client, Log: g.log, Now: time.Now})
	s.dispatcher = outbound.NewDispatcher(c.Dispatch, outbound.DispatcherDeps{
		Queue: g.db, Directory: outbound.Directories{Subscriptions: subscriptions, Routes: s.targets}, Observer: delivered{g.metrics, g.meter},
		Log: g.log, Now: time.Now, Chance: rand.Float64, Lease: g.config.Lease(),
	})
	g.metrics.WatchDispatch(func() telemetry.DispatcherLoad { return telemetry.DispatcherLoad(s.dispatcher.Stats()) })
	s.publisher = outbound.NewPublisher(c.Publish, outbound.PublisherDeps{
		Subscriptions: s.subscriptionCache, Catalogue: s.catalogue, Shares: g.shares, Store: g.db, Dispatcher: localDispatcher{s.dispatcher, g.db}, Observer: g.metrics, Log: g.log, Now: time.Now,
	})
	s.tester = &outbound.Tester{Transports: subscriptions, Generations: s.subscriptionCache, Store: g.db, Now: time.Now}
}

// publishing stores what tenants publish through the API.
type publishing struct{ publisher *outbound.Publisher }

func (p publishing) Publish(ctx context.Context, tenant eventhook.TenantID, events []*eventhook.Event) []api.Published {
	outcomes := make([]api.Published, len(events))
	for i, o := range p.publisher.PublishBatch(ctx, tenant, events) {
		switch {
		case o.Err != nil:
			outcomes[i].Err = o.Err
		case o.Event.Status == eventhook.EventDuplicate:
			outcomes[i] = api.Published{EventID: o.Event.DuplicateOf, Deliveries: o.Count, IsDuplicate: true}
		default:
			outcomes[i] = api.Published{EventID: o.Event.ID, Deliveries: o.Count}
		}
	}
	return outcomes
}

// published settles events, and delivers what their routes publish.
type published struct {
	*pg.DB
	fanout *outbound.Fanout
}

func (p published) SettleEvents(ctx context.Context, batch []*effects.Settlement) ([]*effects.Settlement, error) {
	return p.fanout.SettleEvents(ctx, batch)
}

func (p published) Accept(ctx context.Context, batch []*effects.Arrival) error {
	return p.fanout.Accept(ctx, batch)
}

func (g *gateway) settler() published {
	s := &g.subscribers
	return published{g.db, &outbound.Fanout{Subscriptions: s.subscriptionCache, Targets: s.targets, Catalogue: s.catalogue, Shares: g.shares, Dispatcher: localDispatcher{s.dispatcher, g.db}, Store: g.db, Log: g.log}}
}

// receivers is how the API looks at where subscriptions send.
func (g *gateway) receivers() api.Receivers {
	return api.Receivers{
		CheckFilter: match.CheckFilter,
		CheckAddress: func(ctx context.Context, text string) error {
			u, err := url.Parse(text)
			if err != nil {
				return nil //nolint:nilerr // it is found fault with elsewhere
			}
			return g.out.client.LookUpAndCheckHost(ctx, u)
		},
		Tester: g.subscribers.tester, RequireHTTPS: g.config.Outbound.RequireHTTPS,
	}
}

// compileHTTP compiles an http target for the dispatcher.
func compileHTTP(t eventhook.Target) (send.TargetRequests, error) {
	return targets.NewHTTP(t)
}

// forget drops what is in memory about destinations that a change concerns, and has the
// dispatcher look them up again.
func (s *subscribers) forget(c pg.ConfigChange) {
	switch {
	case c == pg.ConfigChange{}:
		s.subscriptionCache.InvalidateAll()
		s.targets.InvalidateAll()
		s.dispatcher.AllTenantsChanged()
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
