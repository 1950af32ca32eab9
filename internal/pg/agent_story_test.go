package pg

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/agents"
	"github.com/eventhook/eventhook/outbound/send"
)

// agentHarness is a service of agents on a database, with one subscription for agents.
type agentHarness struct {
	*fixture
	service *agents.Service
	of      eventhook.Subscription
	agent   eventhook.Agent
}

func newAgentHarness(t *testing.T) *agentHarness {
	f := setUp(t)
	f.keep(Retention{})
	h := &agentHarness{fixture: f}
	h.of = f.subscription(func(s *eventhook.Subscription) { s.TargetLabels = []string{"env:prod"} })
	h.agent = eventhook.Agent{ID: eventhook.AgentID{1}, TenantID: f.tenant, Labels: []string{"env:prod"}}
	h.service = agents.New(outbound.DefaultConfig(), agents.Deps{Queue: f.db, Destinations: h, Directory: h, Observer: h, Log: slog.New(slog.DiscardHandler),
		Now: f.clock.Now, Chance: func() float64 { return 0 }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return h
}

// ForAgents implements agents.Destinations with the subscription as it is now.
func (h *agentHarness) ForAgents(ctx context.Context, _ eventhook.TenantID) ([]outbound.Destination, error) {
	to, err := h.Destination(ctx, eventhook.Destination{TenantID: h.tenant, SubscriptionID: h.of.ID})
	return []outbound.Destination{to}, err
}

// Destination implements outbound.Directory.
func (h *agentHarness) Destination(ctx context.Context, of eventhook.Destination) (outbound.Destination, error) {
	s, err := h.db.Subscription(ctx, of.TenantID, of.SubscriptionID)
	return outbound.SubscriptionDestination(&s, agentTransport{}), err
}

func (*agentHarness) Attempted(eventhook.ErrorClass, time.Duration)                        {}
func (*agentHarness) SettledDeliveries([]*outbound.DeliverySettlement, int, time.Duration) {}
func (*agentHarness) AgentsClaimed(int, int)                                               {}
func (*agentHarness) AgentsReported(int, int)                                              {}

type agentTransport struct{}

func (agentTransport) Send(context.Context, *eventhook.Delivery, int) eventhook.Attempt {
	panic("the gateway sends nothing to a subscription of agents")
}

func (agentTransport) Compose(ctx context.Context, _ *eventhook.Delivery, _ int) (*http.Request, eventhook.Attempt) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://inside.example/hook", http.NoBody)
	if err != nil {
		panic(err)
	}
	return r, eventhook.Attempt{}
}

func (agentTransport) Complete(r send.Reported) (a eventhook.Attempt, isRenewed bool) {
	if a = r.Result; a.StatusCode != http.StatusOK {
		a.ErrorClass, a.Error = eventhook.ErrorHTTP5xx, "no"
	}
	return a, false
}

// deliver lets the agent claim once and report a status for each delivery. It returns the ids.
func (h *agentHarness) deliver(status int) (ids []eventhook.DeliveryID) {
	h.Helper()
	list, _, err := h.service.Claim(h.Context(), h.agent, eventhook.AgentClaim{Max: 100, Lease: lease})
	h.must(err)
	for _, r := range list {
		h.must(h.service.Report(h.agent, []eventhook.AgentResult{{ID: r.ID, LeaseToken: r.Lease.Token, StatusCode: status}})[0])
		ids = append(ids, r.ID)
	}
	return ids
}

func (h *agentHarness) wantStatus(claim string, id eventhook.DeliveryID, want eventhook.DeliveryStatus) {
	h.Helper()
	d, _ := h.delivery(id)
	same(h, claim, d.Status, want)
}

// No agent has the labels of a subscription for more than a day. Its deliveries are dead then, with a
// visible outage. When an agent appears, its first success recovers them.
func TestDeliveriesWithoutAnAgentAreRecoveredWhenOneAppears(t *testing.T) {
	h := newAgentHarness(t)
	old := h.publishTo(3, &h.of)
	h.clock.Advance(25 * time.Hour)
	h.keep(Retention{})
	n, err := h.service.Expire(t.Context(), eventhook.Destination{TenantID: h.tenant, SubscriptionID: h.of.ID}, 100)
	h.must(err)
	same(t, "ended", n, 3)
	for _, d := range old {
		h.wantStatus("a delivery that no agent claimed", d.ID, eventhook.DeliveryDead)
	}
	o, err := h.db.SubscriptionOutage(t.Context(), h.storedSubscription(h.of.ID), "")
	h.must(err)
	same(t, "the outage", []any{o.Circuit(), o.Missed}, []any{eventhook.CircuitOpen, 3})
	fresh := h.publishTo(1, &h.of)[0]
	same(t, "the agent delivers the new one", h.deliver(200), []eventhook.DeliveryID{fresh.ID})
	w := h.replayWorker(h.db)
	for range 5 {
		h.clock.Advance(time.Minute)
		h.replaySteps(w)
		h.deliver(200)
	}
	for _, d := range old {
		h.wantStatus("after an agent has appeared", d.ID, eventhook.DeliverySuccess)
	}
}

// Failures that agents report disable the subscription. An agent gets its probe, and a success
// enables it.
func TestAnAgentProbesADisabledSubscription(t *testing.T) {
	h := newAgentHarness(t)
	_, err := h.changeSubscription(operator, h.storedSubscription(h.of.ID), 0, func(s *eventhook.Subscription) {
		s.DisableAfterFailures, s.Retry.MaxRetries = new(2), new(0)
	})
	h.must(err)
	h.publishTo(2, &h.of)
	h.deliver(503)
	stored := h.storedSubscription(h.of.ID)
	same(t, "after two failures", stored.DisabledBy, eventhook.DisabledByFailures)
	held := h.publishTo(1, &h.of)[0]
	same(t, "before the probe", len(h.deliver(200)), 0)
	h.clock.Advance(2 * time.Minute)
	gatewayProbes, err := h.other.ClaimProbes(t.Context(), 10, nil, lease)
	h.must(err)
	same(t, "probes of the gateway", len(gatewayProbes), 0)
	same(t, "a failed probe", len(h.deliver(503)), 1)
	same(t, "at once after it", len(h.deliver(200)), 0)
	h.clock.Advance(10 * time.Minute)
	same(t, "the next probe", len(h.deliver(200)), 1)
	same(t, "after a success", h.storedSubscription(h.of.ID).Status, eventhook.SubscriptionActive)
	w := h.replayWorker(h.db)
	for range 5 {
		h.clock.Advance(time.Minute)
		h.replaySteps(w)
		h.deliver(200)
	}
	h.wantStatus("the held delivery", held.ID, eventhook.DeliverySuccess)
	same(t, "dead deliveries", h.count("delivery", "status = 'dead'"), 0)
}

// Claims on two instances at the same moment lease as many deliveries as the destination has slots.
func TestTheSlotsHoldOnAllInstances(t *testing.T) {
	h := newAgentHarness(t)
	for range 20 {
		h.publishTo(12, &h.of)
		claim := agents.Claim{Agent: h.agent.ID, Max: 10, Lease: lease,
			Shares: []agents.Share{{TenantID: h.tenant, DestinationID: eventhook.DestinationID(h.of.ID), Slots: 3, Max: 10}}}
		var claimed [8]int
		var claims sync.WaitGroup
		for i := range claimed {
			claims.Go(func() {
				list, err := []*DB{h.db, h.other}[i%2].ClaimForAgent(t.Context(), claim)
				if claimed[i] = len(list); err != nil {
					t.Error(err)
				}
			})
		}
		claims.Wait()
		n := 0
		for _, c := range claimed {
			n += c
		}
		if n != 3 {
			t.Fatalf("the claims leased %v, want 3 together", claimed)
		}
		h.clock.Advance(lease + time.Second)
	}
}

// An agent with the labels appears, and no new delivery is published: a probe recovers the dead ones.
func TestDeliveriesAreRecoveredWithoutANewOne(t *testing.T) {
	h := newAgentHarness(t)
	old := h.publishTo(3, &h.of)
	h.clock.Advance(25 * time.Hour)
	h.keep(Retention{})
	_, err := h.service.Expire(t.Context(), eventhook.Destination{TenantID: h.tenant, SubscriptionID: h.of.ID}, 100)
	h.must(err)
	w := h.replayWorker(h.db)
	for range 10 {
		h.clock.Advance(time.Minute)
		_, err := h.other.ClaimProbes(t.Context(), 10, nil, lease)
		h.must(err)
		h.replaySteps(w)
		h.deliver(200)
	}
	for _, d := range old {
		h.wantStatus("after an agent has appeared", d.ID, eventhook.DeliverySuccess)
	}
}
