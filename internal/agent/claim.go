package agent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/panics"
)

const (
	maxClaim = 100 // the API's limit of a claim
	// minWait separates an empty answer after a wait from an immediate one, such as that of a
	// gateway that shuts down. After an immediate one the agent backs off.
	minWait = time.Second
)

// delivery is a delivery that the agent has leased.
type delivery struct {
	client.AgentItem
	until time.Time // the end of the lease by the agent's clock
}

// trace returns the trace id of a delivery, or "" if its request has none.
func (d delivery) trace() string {
	for name, value := range d.Headers {
		if strings.EqualFold(name, "traceparent") {
			trace, _, _ := eventhook.ParseTraceparent(value)
			return trace
		}
	}
	return ""
}

// claimAll claims deliveries and starts to send them. It returns nil when ctx ends, and an error if
// the gateway rejects a claim permanently. It sends every claimed delivery, even if ctx has ended
// meanwhile. The contexts sending and reporting end the requests and the reports. The first claim,
// and the one after a failure, does not wait: its answer shows whether the gateway can be reached.
func (a *Agent) claimAll(ctx, sending, reporting context.Context) error {
	var retry backoff.Calls
	for wait := time.Duration(0); ctx.Err() == nil; {
		n := acquire(ctx, a.slots, maxClaim)
		if n == 0 {
			break
		}
		began := time.Now()
		list, err := a.claim(ctx, n, wait)
		a.requests.Add(int64(len(list)))
		for _, d := range list {
			a.deliveries.Go(panics.Guarded(func() { a.deliver(sending, reporting, d) }))
		}
		release(a.slots, n-len(list))
		switch isQuick := wait > 0 && len(list) == 0 && time.Since(began) < minWait; {
		case ctx.Err() != nil:
		case err != nil && !client.IsTemporary(err):
			_, _ = a.state.claimFailed(time.Now(), err)
			return a.rejected(err)
		case err != nil:
			wait = 0
			pause := retry.Next(client.RetryAfterOf(err))
			a.noteFailure(err, pause)
			backoff.Sleep(ctx, pause)
		case isQuick:
			backoff.Sleep(ctx, retry.Next(0))
		default:
			wait, retry = a.config.claimWait(), backoff.Calls{}
			a.noteSuccess()
		}
	}
	return nil
}

// claim claims up to n deliveries and waits for the first one.
func (a *Agent) claim(ctx context.Context, n int, wait time.Duration) ([]delivery, error) {
	claiming, cancel := context.WithTimeout(ctx, a.config.Lease) // later the leases have ended
	defer cancel()
	began := time.Now()
	answer, err := a.gateway.ClaimDeliveries(claiming, a.config.Tenant, client.AgentClaimRequest{
		Max: new(int64(n)), WaitSeconds: new(int64(wait / time.Second)), LeaseSeconds: new(int64(a.config.Lease / time.Second))})
	if ctx.Err() == nil || err == nil {
		a.metrics.claimed(len(answer.Items), err)
	}
	if err != nil {
		return nil, err
	}
	list := make([]delivery, min(n, len(answer.Items)))
	for i := range list {
		item := answer.Items[i]
		list[i] = delivery{item, began.Add(time.Duration(item.LeaseSeconds) * time.Second)}
	}
	return list, nil
}

func (a *Agent) noteFailure(err error, pause time.Duration) {
	if failed, isLogged := a.state.claimFailed(time.Now(), err); isLogged {
		a.log.Warn("cannot claim deliveries; retrying", "error", err, "failed_claims", failed, "pause", pause.Round(time.Millisecond))
	}
}

func (a *Agent) noteSuccess() {
	if failed, isChange := a.state.claimed(time.Now()); isChange {
		a.log.Info("connected: claiming deliveries", "server", a.config.Server, "tenant", a.config.Tenant, "failed_claims", failed)
	}
}

// rejected wraps the error of a claim that the gateway rejected with the likely reason.
func (a *Agent) rejected(err error) error {
	reason := "the gateway rejected the claim"
	switch client.StatusOf(err) {
	case http.StatusUnauthorized:
		reason = "the key is not valid: the agent was deleted, or its key was rotated"
	case http.StatusForbidden:
		reason = "the key is not the key of an agent"
	case http.StatusNotFound:
		reason = fmt.Sprintf("the key has no access to the tenant %q, or the tenant does not exist", a.config.Tenant)
	}
	return fmt.Errorf("claim deliveries from %s: %s: %w", a.config.Server, reason, err)
}
