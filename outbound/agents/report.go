package agents

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

// reportTimeout limits the storage of a batch of results.
const reportTimeout = 10 * time.Second

// Errors of Report.
var (
	errReportsFull = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "Too many results of agents are waiting to be stored; report the result again.", RetryAfter: time.Second}
	errNotReported = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "The result could not be stored; report it again.", RetryAfter: time.Second}
	errNoDelivery  = eventhook.NotFound("delivery")
)

// report is the results that an agent reports in one call. errs has the error of each after the
// commit.
type report struct {
	agent   eventhook.Agent
	results []eventhook.AgentResult
	errs    []error
}

// Report stores results of an agent, and returns an error or nil for each, in their order: the error
// is of KindNotFound if the agent's tenant has no such delivery, ErrLeaseLost if the agent does not
// hold the lease any more, and of KindUnavailable if the result was not stored and should be
// reported again. A result whose lease has expired is stored unless another claim has taken the
// delivery over. The results must be valid.
func (s *Service) Report(a eventhook.Agent, results []eventhook.AgentResult) []error {
	r := &report{a, results, make([]error, len(results))}
	err := s.report(r)
	switch {
	case errors.Is(err, batch.ErrFull), errors.Is(err, batch.ErrStopping):
		err = errReportsFull
	case err != nil:
		err = errNotReported
	default:
		return r.errs
	}
	for i := range r.errs {
		r.errs[i] = err
	}
	return r.errs
}

// report queues results and waits until they are stored. The results of one tenant take a quarter of
// the queue at most.
func (s *Service) report(r *report) error {
	tenant, n := r.agent.TenantID, len(r.results)
	s.mu.Lock()
	isFull := s.reported[tenant] > 0 && s.reported[tenant]+n > maxReports/4
	if !isFull {
		s.reported[tenant] += n
	}
	s.mu.Unlock()
	if isFull {
		return batch.ErrFull
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reported[tenant] -= n; s.reported[tenant] == 0 {
			delete(s.reported, tenant)
		}
	}()
	return s.reports.Do(r, n, 0)
}

// outcome is a result with its settlement.
type outcome struct {
	*outbound.DeliverySettlement
	to    outbound.Destination
	probe outbound.ProbeResult // "" unless it was a probe
	err   *error               // of its result
}

// commit stores the results of several reports in one transaction. It does not end with the
// requests that wait for it.
func (s *Service) commit(reports []*report) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	held, err := s.held(ctx, reports)
	if err != nil {
		s.Log.Warn("the deliveries of agents could not be read; the agents report their results again", "error", err)
		return err
	}
	var outcomes []outcome
	for _, r := range reports {
		for i, result := range r.results {
			o, err := s.outcome(ctx, r.agent, result, held)
			if r.errs[i] = err; err == nil {
				o.err = &r.errs[i]
				outcomes = append(outcomes, o)
			}
		}
	}
	return s.store(ctx, outcomes, countResults(reports))
}

func countResults(reports []*report) (n int) {
	for _, r := range reports {
		n += len(r.results)
	}
	return n
}

// held reads the deliveries of reports.
func (s *Service) held(ctx context.Context, reports []*report) (map[Key]*Held, error) {
	var keys []Key
	for _, r := range reports {
		for _, result := range r.results {
			keys = append(keys, Key{r.agent.TenantID, result.ID})
		}
	}
	list, err := s.Queue.HeldDeliveries(ctx, keys)
	if err != nil {
		return nil, err
	}
	held := make(map[Key]*Held, len(list))
	for i := range list {
		held[Key{list[i].TenantID, list[i].ID}] = &list[i]
	}
	return held, nil
}

// outcome returns the settlement of a result. The first result of a delivery counts.
func (s *Service) outcome(ctx context.Context, a eventhook.Agent, r eventhook.AgentResult, held map[Key]*Held) (o outcome, err error) {
	h := held[Key{a.TenantID, r.ID}]
	switch {
	case h == nil:
		return o, errNoDelivery
	case h.Status != eventhook.DeliveryAcquired || h.Agent != a.ID || h.Lease.Token != r.LeaseToken:
		return o, eventhook.ErrLeaseLost
	}
	h.Status = ""
	to, err := s.Directory.Destination(ctx, h.Destination())
	if err != nil && eventhook.KindOf(err) != eventhook.KindNotFound {
		s.Log.Warn("the destination of a result could not be read; the agent reports it again", "delivery", r.ID, "trace_id", h.Trace(), "error", err)
		return o, errNotReported
	}
	to.ID, to.TenantID = h.DestinationID, h.TenantID
	return s.settlement(to, h, r), nil
}

// settlement returns the settlement of a result, and applies it to the gate of the destination.
func (s *Service) settlement(to outbound.Destination, h *Held, r eventhook.AgentResult) outcome {
	rules := s.rules()
	a, isRenewed := s.attempt(to, h, r)
	s.Observer.Attempted(a.ErrorClass, a.Duration)
	if h.IsProbe {
		result, settlement := outbound.ProbeOutcome(to, &outbound.Missed{Delivery: h.Delivery, WasDead: h.WasDead}, &a)
		return outcome{DeliverySettlement: settlement, to: to, probe: result}
	}
	settlement := rules.Settle(to, h.Delivery, &a)
	if isRenewed && h.StatusCode != a.StatusCode { // as the gateway's own sends, once
		settlement = rules.Repeat(to, h.Delivery, &a)
	}
	isKnown := h.IsReleased && h.RetryCount > 0
	s.gate(to.Destination, func(g *schedule.Gate) {
		outage := g.Finish(outbound.Observed(a), isKnown, rules.Now, s.Chance)
		settlement.FailingSince, settlement.CircuitOpen = outage.FailingSince, outage.IsOpen
	})
	return outcome{DeliverySettlement: settlement, to: to}
}

// attempt returns the attempt of a result. It cannot have begun before the longest lease that ends
// when this one does: the clock of an agent may have been set meanwhile.
func (s *Service) attempt(to outbound.Destination, h *Held, r eventhook.AgentResult) (a eventhook.Attempt, isRenewed bool) {
	now := s.Now()
	r.Duration = min(r.Duration, max(0, now.Sub(h.Lease.Until.Add(-eventhook.MaxAgentLease))))
	transport, ok := to.Transport.(Transport)
	if !ok { // the destination was deleted
		transport = unknownReceiver{}
	}
	return transport.Complete(send.Reported{Delivery: h.Delivery, Attempt: h.Attempts + 1, Result: r.Attempt(now), BodySize: s.takeSize(h)})
}

// unknownReceiver is the Transport of a destination that was deleted.
type unknownReceiver struct{ Transport }

// Complete implements Transport.
func (unknownReceiver) Complete(r send.Reported) (a eventhook.Attempt, isRenewed bool) {
	a = r.Result
	a.Excerpt = "" // it may contain secrets of the destination
	if a.StatusCode != 0 {
		a.ErrorClass, a.Error = send.Classify("the receiver", a.StatusCode)
	} else {
		a.Error = "the agent got no answer; the destination was deleted"
	}
	return a, false
}

// store settles outcomes and sets the errors of results whose lease was lost.
func (s *Service) store(ctx context.Context, outcomes []outcome, results int) error {
	list := make([]*outbound.DeliverySettlement, len(outcomes))
	for i, o := range outcomes {
		list[i] = o.DeliverySettlement
	}
	lost, err := s.settle(ctx, list)
	if err != nil {
		s.Log.Warn("the results of agents could not be stored; the agents report them again", "results", len(list), "error", err)
		return err
	}
	for _, o := range outcomes {
		if lost[o.DeliverySettlement] {
			*o.err = eventhook.ErrLeaseLost
		} else if o.probe != "" {
			s.reportedProbe(ctx, o.Delivery, o.probe)
		}
	}
	stored := len(outcomes) - len(lost)
	s.Observer.AgentsReported(stored, results-stored)
	s.wakeAfter(list)
	return nil
}

// settle writes settlements and returns the settlements whose lease was lost.
func (s *Service) settle(ctx context.Context, list []*outbound.DeliverySettlement) (map[*outbound.DeliverySettlement]bool, error) {
	if len(list) == 0 {
		return nil, nil
	}
	began := s.Now()
	gone, err := s.Queue.SettleDeliveries(ctx, list)
	if err != nil {
		return nil, err
	}
	lost, settled := make(map[*outbound.DeliverySettlement]bool, len(gone)), make([]*outbound.DeliverySettlement, 0, len(list))
	for _, x := range gone {
		lost[x] = true
	}
	for _, x := range list {
		if !lost[x] {
			settled = append(settled, x)
		}
	}
	s.Observer.SettledDeliveries(settled, len(gone), s.Now().Sub(began))
	return lost, nil
}
