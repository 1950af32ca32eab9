package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// AgentDeliveries serves the claims and results of agents. Safe for concurrent use.
type AgentDeliveries interface {
	// Claim leases due deliveries to an agent. If there are none, next is when to claim again
	// without a wake-up; zero: only after one.
	Claim(ctx context.Context, a eventhook.Agent, c eventhook.AgentClaim) (list []eventhook.AgentRequest, next time.Time, err error)
	// Wake returns a channel that is closed when deliveries for an agent may have become due.
	Wake(a eventhook.Agent) <-chan struct{}
	// Leave must be called when no claim for the labels of an agent waits any more.
	Leave(a eventhook.Agent)
	// Report stores results, and returns an error or nil for each, in their order.
	Report(a eventhook.Agent, results []eventhook.AgentResult) []error
}

// Limits of the results of agents.
const (
	agentResultBody   = 1 << 20
	agentResultsBody  = 4 << 20
	maxAgentErrorText = 4 << 10 // bytes; more are cut off
)

// agentCheckInterval is the longest time between two claims of a request that waits. Its
// AgentDeliveries looks for due deliveries meanwhile.
const agentCheckInterval = 30 * time.Second

type agentClaimRequest struct {
	TenantPath
	UserAgent string `header:"User-Agent" hidden:"true"`
	Body      struct {
		Max          int    `json:"max,omitempty" default:"10" minimum:"1" maximum:"100" doc:"Maximum number of deliveries to claim."`
		WaitSeconds  int    `json:"wait_seconds,omitempty" minimum:"0" maximum:"60" doc:"Seconds to wait for a delivery if none is due."`
		LeaseSeconds int    `json:"lease_seconds,omitempty" default:"30" minimum:"1" maximum:"300" doc:"Duration of the lease in seconds."`
		Version      string `json:"version,omitempty" maxLength:"64" doc:"Version of the agent's program, for people who read the list of agents."`
	}
}

type agentItem struct {
	ID             string            `json:"id" format:"uuid" doc:"Delivery id."`
	LeaseToken     int64             `json:"lease_token" doc:"Token of the lease, required by the result."`
	LeaseUntil     time.Time         `json:"lease_until" doc:"When the lease expires, by the clock of the gateway."`
	LeaseSeconds   int               `json:"lease_seconds" doc:"Duration of the lease in seconds, for agents whose clock differs: count it from the moment before the claim was sent."`
	Method         string            `json:"method" enum:"POST,PUT,PATCH"`
	URL            string            `json:"url" doc:"URL to send the request to."`
	Headers        map[string]string `json:"headers" doc:"Headers of the request, with its signatures and credentials. Send them unchanged. Add only Host and Content-Length."`
	BodyBase64     []byte            `json:"body_base64" doc:"Body of the request in base64."`
	TimeoutSeconds int               `json:"timeout_seconds" doc:"How long to wait for the answer, in seconds; not longer than the lease."`
	Attempt        int               `json:"attempt" doc:"Number of this attempt, starting at 1."`
}

type agentClaimAnswer struct {
	Body struct {
		Items []agentItem `json:"items" doc:"Claimed deliveries; empty if none became due in time."`
	}
}

// AgentResult is the outcome of a delivery that an agent has sent.
type AgentResult struct {
	LeaseToken        int64  `json:"lease_token" doc:"Token of the lease, from claim."`
	StatusCode        int    `json:"status_code,omitempty" minimum:"100" maximum:"599" doc:"Status of the answer. Either status_code or error is required."`
	Error             string `json:"error,omitempty" doc:"Why there was no answer, as text for users; cut off after 1 KiB."`
	ErrorClass        string `json:"error_class,omitempty" enum:"dns,connect,tls,timeout,blocked,closed" doc:"Class of the error; default closed. blocked: the agent does not send to this destination."`
	DurationMS        int64  `json:"duration_ms" minimum:"0" maximum:"3600000" doc:"Duration of the attempt in milliseconds."`
	ResponseExcerpt   string `json:"response_excerpt,omitempty" doc:"Beginning of the body of the answer as text; cut off after 1 KiB."`
	RetryAfterSeconds int    `json:"retry_after_seconds,omitempty" minimum:"0" doc:"Delay that the receiver asked for with Retry-After; it counts for 429 and 503."`
}

// AgentDeliveryResult is the result of one of several deliveries.
type AgentDeliveryResult struct {
	ID string `json:"id" doc:"Delivery id."`
	AgentResult
}

// AgentDeliveryPath identifies a delivery.
type AgentDeliveryPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Delivery id."`
}

type agentResultRequest struct {
	AgentDeliveryPath
	Body AgentResult
}

type agentResultsRequest struct {
	TenantPath
	Body document[AgentResults]
}

// AgentResults are the results of several deliveries.
type AgentResults struct {
	Items []AgentDeliveryResult `json:"items" minItems:"1" maxItems:"100" doc:"Results to store. If an id occurs twice, the first item counts."`
}

type agentResultsAnswer struct {
	Body struct {
		Items []agentResultAnswer `json:"items" doc:"One outcome per result, in the order of the request."`
	}
}

type agentResultAnswer struct {
	ID     string `json:"id" format:"uuid"`
	Status string `json:"status" enum:"accepted,lost,unavailable" doc:"accepted: the result is stored. lost: the lease is lost, or the delivery does not exist; do not report it again. unavailable: the result could not be stored; report it again."`
	Error  string `json:"error,omitempty" doc:"Present unless the result was accepted."`
}

func (s *server) registerAgentDeliveries(api huma.API) {
	post := func(id, path, summary, about string) operation {
		return operation{id: id, method: http.MethodPost, path: base + "/agents" + path, summary: summary, about: about,
			scope: eventhook.ScopeDeliver, tag: "agents", class: ownLimits, isOfAgent: true}
	}
	register(s, api, post("claim-deliveries", "/claim", "Claim due deliveries",
		"Leases deliveries of subscriptions and http targets whose target_labels are all among the agent's labels. "+
			"If none is due, waits up to wait_seconds. A claim is the heartbeat of the agent. An expired lease gives the delivery to another agent and is no attempt; "+
			"after five in a row the delivery is dead."), s.claimDeliveries)
	one := post("report-delivery", "/deliveries/{id}/result", "Report the result of a delivery",
		"Ends the lease: the delivery has succeeded, is retried later or is dead. 409 if the lease is lost: another agent may have claimed the delivery.")
	one.status, one.maxBody = http.StatusNoContent, agentResultBody
	register(s, api, one, s.reportDelivery)
	many := post("report-deliveries", "/deliveries/results", "Report the results of several deliveries",
		"Always 200 if the request is valid, even if some results were not accepted. items contains the outcome per result, in the order of the request.")
	many.maxBody, many.skipsShape = agentResultsBody, true
	register(s, api, many, s.reportDeliveries)
}

var errNoAgent = &eventhook.Error{Kind: eventhook.KindForbidden,
	Message: "This operation requires the key of an agent: create an agent, and use the key that the response contains."}

// agentOf returns the agent whose key the caller has.
func (c caller) agentOf() (eventhook.Agent, error) {
	a := c.agent
	a.TenantID = c.tenant
	if a.ID.IsZero() {
		return a, errNoAgent
	}
	return a, nil
}

// currentAgent returns the agent of a caller that waits, with its current labels. The error is
// errUnauthorized if the key is no longer valid.
func (s *server) currentAgent(ctx context.Context, by caller) (eventhook.Agent, error) {
	key, err := s.keys.keys.Get(ctx, by.keyHash)
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound, err == nil && key.ExpiresAt != nil && !s.Now().Before(*key.ExpiresAt):
		by.reservation.header.Set("WWW-Authenticate", "Bearer")
		return eventhook.Agent{}, errUnauthorized
	case err != nil:
		return eventhook.Agent{}, err
	}
	return eventhook.Agent{ID: key.AgentID, TenantID: by.tenant, Labels: key.AgentLabels}, nil
}

func (s *server) claimDeliveries(ctx context.Context, by caller, in *agentClaimRequest) (*agentClaimAnswer, error) {
	agent, err := by.agentOf()
	if err != nil {
		return nil, err
	}
	if err := s.Heartbeats.seen(sightingOf(agent.ID, in.Body.Version, in.UserAgent)); err != nil {
		return nil, err
	}
	claim := eventhook.AgentClaim{Max: in.Body.Max, Lease: time.Duration(in.Body.LeaseSeconds) * time.Second}
	list, err := s.claimDeliveriesOrWait(ctx, by, claim, time.Duration(in.Body.WaitSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	out := &agentClaimAnswer{}
	out.Body.Items = make([]agentItem, len(list))
	for i, r := range list {
		out.Body.Items[i] = viewAgentRequest(r, in.Body.LeaseSeconds)
	}
	return out, nil
}

// claimDueDeliveries claims due deliveries once, in a slot, since what it returns takes memory that
// is counted only then. It is refused while other answers of the tenant take all of its memory.
func (s *server) claimDueDeliveries(ctx context.Context, by caller, a eventhook.Agent, c eventhook.AgentClaim) (list []eventhook.AgentRequest, next time.Time, err error) {
	release, err := by.reservation.acquireSlot(ctx, agentClaims)
	if err != nil {
		return nil, next, err
	}
	defer release()
	if err := by.reservation.reserve(0); err != nil {
		return nil, next, err
	}
	list, next, err = s.AgentDeliveries.Claim(ctx, a, c)
	for _, r := range list {
		by.reservation.addUnchecked(int64(len(r.Body)) * shownWeight)
	}
	return list, next, err
}

// claimDeliveriesOrWait claims due deliveries for the agent of the caller. If there are none, it
// waits until it is woken, until maxWait is over, or until the server stops. If other agents with
// the same labels wait, it queues behind them without claiming first.
func (s *server) claimDeliveriesOrWait(ctx context.Context, by caller, c eventhook.AgentClaim, maxWait time.Duration) (list []eventhook.AgentRequest, err error) {
	var agent eventhook.Agent
	claim := func(o *waitState) (bool, error) {
		if agent, err = s.currentAgent(ctx, by); err != nil {
			return true, err
		}
		o.wake = nil
		if maxWait > 0 {
			o.wake = s.AgentDeliveries.Wake(agent)
		}
		var next time.Time
		if list, next, err = s.claimDueDeliveries(ctx, by, agent, c); err != nil || len(list) > 0 || maxWait == 0 {
			return true, err
		}
		const minDelay = 10 * time.Millisecond
		now := s.Now()
		o.checkAt = now.Add(agentCheckInterval)
		if !next.IsZero() && next.Before(o.checkAt) {
			o.checkAt = later(next, now.Add(minDelay))
		}
		return false, nil
	}
	key := waitKey{by.tenant, "agents " + strings.Join(slices.Sorted(slices.Values(by.agent.Labels)), "\x00")}
	defer func() {
		if maxWait > 0 && s.waitQueues.queues.Callers(key) == 0 && !agent.ID.IsZero() {
			s.AgentDeliveries.Leave(agent)
		}
	}()
	var seen waitState
	if maxWait == 0 || s.waitQueues.queues.Callers(key) == 0 {
		if done, err := claim(&seen); done {
			return list, err
		}
	}
	by.reservation.releaseForWait()
	err = s.waitQueues.wait(ctx, key, maxWait, seen, claim)
	return list, err
}

func viewAgentRequest(r eventhook.AgentRequest, leaseSeconds int) agentItem {
	body := r.Body
	if body == nil {
		body = []byte{} // not null
	}
	return agentItem{ID: r.ID.String(), LeaseToken: r.Lease.Token, LeaseUntil: utc(r.Lease.Until), LeaseSeconds: leaseSeconds, Method: r.Method, URL: r.URL,
		Headers: r.Headers, BodyBase64: body, TimeoutSeconds: int(r.Timeout / time.Second), Attempt: r.Attempt}
}

// result returns a result as the gateway stores it. at is its location, such as body.items[0].
func (r AgentResult) result(f *eventhook.Faults, at string, id eventhook.DeliveryID) eventhook.AgentResult {
	switch hasError := r.Error != "" || r.ErrorClass != ""; {
	case r.StatusCode == 0 && !hasError:
		f.Add(at+".status_code", "is required, or error if there was no answer")
	case r.StatusCode != 0 && hasError:
		f.Add(at+".error", "must not be given with status_code")
	}
	result := eventhook.AgentResult{ID: id, LeaseToken: r.LeaseToken, StatusCode: r.StatusCode, Duration: time.Duration(r.DurationMS) * time.Millisecond,
		Excerpt: eventhook.Truncate(r.ResponseExcerpt, maxAgentErrorText), RetryAfter: time.Duration(min(r.RetryAfterSeconds, maxRetryAfterSeconds)) * time.Second}
	if r.StatusCode == 0 {
		result.ErrorClass, result.Error = eventhook.ErrorClass(r.ErrorClass), eventhook.Truncate(r.Error, maxAgentErrorText)
		if result.ErrorClass == "" {
			result.ErrorClass = eventhook.ErrorClosed
		}
		if result.Error == "" {
			result.Error = "the agent got no answer"
		}
	}
	return result
}

// maxRetryAfterSeconds bounds a Retry-After before it is converted. Longer delays are cut to the
// gateway's own maximum anyway.
const maxRetryAfterSeconds = 7 * 24 * 60 * 60

func (s *server) reportDelivery(_ context.Context, by caller, in *agentResultRequest) (*struct{}, error) {
	agent, err := by.agentOf()
	if err != nil {
		return nil, err
	}
	id, err := eventhook.ParseID[eventhook.Delivery](in.ID)
	if err != nil {
		return nil, err
	}
	var faults eventhook.Faults
	result := in.Body.result(&faults, "body", id)
	if err := faults.Err(notValid); err != nil {
		return nil, err
	}
	return nil, s.AgentDeliveries.Report(agent, []eventhook.AgentResult{result})[0]
}

func (s *server) reportDeliveries(_ context.Context, by caller, in *agentResultsRequest) (*agentResultsAnswer, error) {
	body, shape := in.Body.read(s)
	var rules, bad eventhook.Faults
	results := make([]eventhook.AgentResult, len(body.Items))
	for i, item := range body.Items {
		at := fmt.Sprintf("body.items[%d]", i)
		results[i] = item.result(&rules, at, idAt[eventhook.Delivery](&bad, at+".id", item.ID))
	}
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	if err := malformed(bad); err != nil {
		return nil, err
	}
	agent, err := by.agentOf()
	if err != nil {
		return nil, err
	}
	out := &agentResultsAnswer{}
	for i, err := range s.AgentDeliveries.Report(agent, results) {
		answer, err := viewAgentOutcome(results[i].ID, err)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, answer)
	}
	return out, nil
}

// viewAgentOutcome returns the outcome of one result. The error is that of a fault of the gateway.
func viewAgentOutcome(id eventhook.DeliveryID, err error) (agentResultAnswer, error) {
	answer := agentResultAnswer{ID: id.String(), Status: "accepted"}
	e, ok := errors.AsType[*eventhook.Error](err)
	switch {
	case err == nil:
		return answer, nil
	case !ok:
		return answer, err
	case e.Kind == eventhook.KindUnavailable:
		answer.Status = "unavailable"
	default:
		answer.Status = "lost"
	}
	answer.Error = e.Message
	return answer, nil
}
