package agents

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
)

const (
	composedAtOnce = 8
	// maxComposing bounds the time in which the requests of a claim are composed, which may need a
	// transform or a token.
	maxComposing = 5 * time.Second
	// busyPause is how long nothing is sent to a destination whose tenant has used up its time for
	// transforms.
	busyPause = time.Second
)

// leasesExpired is why a delivery is dead that no agent reports.
var leasesExpired = fmt.Sprintf("not sent: %d agents in a row have claimed it and not reported a result", eventhook.MaxAgentLeases)

// composed is a leased delivery as a request, or its settlement without one. If it is neither, the
// delivery is released.
type composed struct {
	request    *eventhook.AgentRequest
	settlement *outbound.DeliverySettlement
	probe      outbound.ProbeResult // of a probe with a settlement
}

// requests composes the requests of leased deliveries, settles deliveries without a
// request, and releases the remaining ones.
func (s *Service) requests(ctx context.Context, c eventhook.AgentClaim, leased []leasedDelivery) (list []eventhook.AgentRequest, err error) {
	finishing, cancel := lifetime.Extend(ctx, finishTimeout)
	defer cancel()
	all := s.composeAll(ctx, c, leased)
	var settlements []*outbound.DeliverySettlement
	var released []*eventhook.Delivery
	size := 0
	for i, x := range all {
		switch {
		case x.settlement != nil:
			settlements = append(settlements, x.settlement)
		case x.request != nil && ctx.Err() == nil && (len(list) == 0 || size+len(x.request.Body) <= MaxClaimBytes):
			list = append(list, *x.request)
			size += len(x.request.Body)
		default:
			released = append(released, leased[i].Delivery)
			s.gate(leased[i].to.Destination, func(g *schedule.Gate) { g.Cancel(leased[i].Lease.Until) })
		}
	}
	if len(released) > 0 {
		if err := s.Queue.ReleaseDeliveries(finishing, released); err != nil {
			s.Log.Warn("deliveries could not be released; agents get them when their leases expire", "deliveries", len(released), "error", err)
		}
	}
	s.settleUnsent(finishing, settlements)
	return list, ctx.Err()
}

// settleUnsent settles deliveries that are not sent. If the database fails, the leases expire, and
// the next claim settles them.
func (s *Service) settleUnsent(ctx context.Context, settlements []*outbound.DeliverySettlement) {
	if len(settlements) == 0 {
		return
	}
	if _, err := s.settle(ctx, settlements); err != nil {
		s.Log.Warn("deliveries of agents that are not sent could not be settled; retrying when their leases expire", "deliveries", len(settlements), "error", err)
	}
}

// composeTimeout limits the time in which the requests of a claim are composed. The remaining part of
// the lease is for the agent.
func composeTimeout(c eventhook.AgentClaim) time.Duration { return min(maxComposing, c.Lease/2) } //nolint:mnd // half

// composeAll composes several requests at once, so that a slow one delays the others little. It
// composes no further ones when their bodies have MaxClaimBytes.
func (s *Service) composeAll(ctx context.Context, c eventhook.AgentClaim, leased []leasedDelivery) []composed {
	ctx, cancel := context.WithTimeout(ctx, composeTimeout(c))
	defer cancel()
	all := make([]composed, len(leased))
	next := make(chan int)
	var size atomic.Int64
	var workers sync.WaitGroup
	for range min(composedAtOnce, len(leased)) {
		workers.Go(panics.Guarded(func() {
			for i := range next {
				if size.Load() >= MaxClaimBytes {
					continue
				}
				if all[i] = s.composeSafely(ctx, c, leased[i]); all[i].request != nil {
					size.Add(int64(len(all[i].request.Body)))
				}
			}
		}))
	}
	for i := range leased {
		next <- i
	}
	close(next)
	workers.Wait()
	return all
}

// composeSafely is compose. A panic, such as one of a tenant's configuration, is a failed attempt
// of its delivery.
func (s *Service) composeSafely(ctx context.Context, c eventhook.AgentClaim, x leasedDelivery) (result composed) {
	began := s.Now()
	defer func() {
		if reason := recover(); reason != nil {
			s.Log.Error("the request of a delivery could not be composed", "delivery", x.ID, "trace_id", x.Trace(), "destination", x.to.ID, "error", panics.Recovered(panics.Delivery, reason))
			result = s.failed(x, eventhook.Attempt{StartedAt: began, ErrorClass: eventhook.ErrorClosed,
				Error: "the gateway failed to compose the request because of an internal error"})
		}
	}()
	return s.compose(ctx, c, x)
}

func (s *Service) compose(ctx context.Context, c eventhook.AgentClaim, x leasedDelivery) composed {
	if settlement := s.unsendable(x); settlement != nil {
		return composed{settlement: settlement, probe: outbound.ProbeRejected}
	}
	transport, ok := x.to.Transport.(Transport)
	if !ok || ctx.Err() != nil {
		return composed{}
	}
	request, a := transport.Compose(ctx, x.Delivery, x.Attempts+1)
	switch {
	case request == nil && a.ErrorClass == eventhook.ErrorBusy:
		s.gate(x.to.Destination, func(g *schedule.Gate) { g.Delay(s.Now().Add(busyPause)) })
		return composed{}
	case request == nil:
		return s.failed(x, a)
	}
	r, err := requestOf(request)
	if err != nil {
		return composed{}
	}
	r.ID, r.Lease, r.Timeout, r.Attempt = x.ID, x.Lease, min(x.to.Timeout, c.Lease), x.Attempts+1
	s.sizes.Add(leaseKey{x.ID, x.Lease.Token}, len(r.Body))
	return composed{request: r}
}

// unsendable returns the settlement of a delivery that becomes dead without an attempt, or nil. A
// delivery that is too old has waited for an agent: its age is an outage of its subscription.
func (s *Service) unsendable(x leasedDelivery) *outbound.DeliverySettlement {
	rules := s.rules()
	if x.missed != nil { // its age does not matter
		rules.MaxAge = math.MaxInt64
	}
	reason := rules.Unsendable(x.to, x.Delivery)
	if reason == "" && x.Leases > eventhook.MaxAgentLeases {
		reason = leasesExpired
	}
	if reason == "" {
		return nil
	}
	settlement := rules.Unsent(x.to, x.Delivery, reason)
	settlement.IsProbe = x.missed != nil && x.missed.WasDead
	if settlement.IsStale {
		settlement.FailingSince, settlement.CircuitOpen = waitingSince(x.Delivery), true
	}
	return settlement
}

// waitingSince returns since when a delivery waits to be sent.
func waitingSince(d *eventhook.Delivery) time.Time {
	if d.RestartedAt != nil {
		return *d.RestartedAt
	}
	return d.EventID.Time()
}

// failed settles an attempt whose request could not be composed.
func (s *Service) failed(x leasedDelivery, a eventhook.Attempt) composed {
	s.Observer.Attempted(a.ErrorClass, a.Duration)
	if x.missed != nil {
		result, settlement := outbound.ProbeOutcome(x.to, x.missed, &a)
		return composed{settlement: settlement, probe: result}
	}
	return composed{settlement: s.rules().Settle(x.to, x.Delivery, &a)}
}

func (s *Service) rules() outbound.OutcomeRules {
	return outbound.OutcomeRules{Now: s.Now(), MaxAge: s.config.MaxAge, Chance: s.Chance()}
}

// requestOf returns a composed request as an agent gets it. A header without values is not sent; see
// http.Transport.
func requestOf(request *http.Request) (*eventhook.AgentRequest, error) {
	r := &eventhook.AgentRequest{Method: request.Method, URL: request.URL.String(), Headers: make(map[string]string, len(request.Header))}
	for name, values := range request.Header {
		if len(values) > 0 {
			r.Headers[name] = strings.Join(values, ", ")
		}
	}
	if request.Body == nil {
		return r, nil
	}
	defer func() { _ = request.Body.Close() }()
	var err error
	r.Body, err = io.ReadAll(request.Body)
	return r, err
}
