package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/backoff"
)

const (
	maxBatch      = 100 // the API's limit of a report
	reportTimeout = 5 * time.Second
)

// report is a result that the gateway has not stored yet. err is its error after the commit.
type report struct {
	result client.AgentDeliveryResult
	trace  string    // id
	until  time.Time // the end of the lease
	err    error
}

// Errors of a report.
var (
	errLost        = errors.New("the lease is lost: the delivery has ended, or another agent has it")
	errUnavailable = errors.New("the gateway could not store the result")
)

// report reports a result, and retries with growing pauses until the lease ends or ctx ends. The
// results of several deliveries share a call.
func (a *Agent) report(ctx context.Context, r *report) {
	var retry backoff.Calls
	for {
		err := a.reports.Do(r, 1, 0)
		if err == nil {
			err = r.err
		}
		left := time.Until(r.until)
		switch {
		case err == nil:
			a.state.reported.Add(1)
			a.metrics.reported(reportAccepted)
			return
		case errors.Is(err, errLost):
			a.unreportable(r, reportLost, err)
			return
		case !client.IsTemporary(err):
			a.unreportable(r, reportRejected, err)
			return
		case left <= 0, ctx.Err() != nil:
			a.unreportable(r, reportExpired, err)
			return
		}
		backoff.Sleep(ctx, min(retry.Next(client.RetryAfterOf(err)), left))
	}
}

func (a *Agent) unreportable(r *report, outcome string, err error) {
	a.state.unreported.Add(1)
	a.metrics.reported(outcome)
	a.log.Warn("the result of a delivery is not reported; it is sent again when its lease ends", "delivery", r.result.ID, "trace_id", r.trace, "reason", outcome, "error", err)
}

// commit reports several results in one call. If the gateway finds the call invalid, commit reports them
// one by one, so that an invalid one stops only itself.
func (a *Agent) commit(list []*report) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	body := client.AgentResults{Items: make([]client.AgentDeliveryResult, len(list))}
	for i, r := range list {
		r.err, body.Items[i] = nil, r.result
	}
	answer, err := a.gateway.ReportDeliveries(ctx, a.config.Tenant, body)
	switch {
	case err == nil && len(answer.Items) != len(list):
		return fmt.Errorf("%w: it answered %d of %d results", errUnavailable, len(answer.Items), len(list))
	case err == nil:
		for i, r := range list {
			r.err = outcomeErr(answer.Items[i])
		}
	case isInvalid(err) && len(list) > 1:
		for _, r := range list {
			r.err = a.reportOne(ctx, r.result)
		}
		return nil
	}
	return err
}

func isInvalid(err error) bool {
	status := client.StatusOf(err)
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

func outcomeErr(o client.AgentResultAnswer) error {
	switch o.Status {
	case client.AgentResultAnswerStatusAccepted:
		return nil
	case client.AgentResultAnswerStatusLost:
		return errLost
	case client.AgentResultAnswerStatusUnavailable:
	}
	return errUnavailable
}

func (a *Agent) reportOne(ctx context.Context, r client.AgentDeliveryResult) error {
	one := client.AgentResult{DurationMs: r.DurationMs, Error: r.Error, LeaseToken: r.LeaseToken,
		ResponseExcerpt: r.ResponseExcerpt, RetryAfterSeconds: r.RetryAfterSeconds, StatusCode: r.StatusCode}
	if r.ErrorClass != nil {
		one.ErrorClass = new(client.AgentResultErrorClass(*r.ErrorClass))
	}
	err := a.gateway.ReportDelivery(ctx, a.config.Tenant, r.ID, one)
	if status := client.StatusOf(err); status == http.StatusConflict || status == http.StatusNotFound {
		return errLost
	}
	return err
}
