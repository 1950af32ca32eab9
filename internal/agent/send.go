package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// deliver sends a delivery and reports its result. It releases its slot when the request has
// ended and the result may wait.
func (a *Agent) deliver(sending, reporting context.Context, d delivery) {
	result, ok := a.send(sending, d)
	if !ok {
		a.state.unreported.Add(1)
		a.endRequest()
		return
	}
	if acquire(reporting, a.unreported, 1) == 1 {
		defer release(a.unreported, 1)
	}
	a.endRequest()
	a.report(reporting, &report{result: result, trace: d.trace(), until: d.until})
}

// errLate is the error for a delivery whose lease leaves no time for its request.
var errLate = errors.New("the lease of the delivery has ended before its request")

// send makes the request of a delivery. It returns ok == false if there is no result, because ctx
// ended during the request or the lease ended before it.
func (a *Agent) send(ctx context.Context, d delivery) (result client.AgentDeliveryResult, ok bool) {
	began := time.Now()
	status, header, beginning, err := a.exchange(ctx, d)
	took := time.Since(began)
	if err != nil && (ctx.Err() != nil || errors.Is(err, errLate)) {
		a.log.Warn("a delivery was not sent; another agent gets it when its lease ends", "delivery", d.ID, "trace_id", d.trace(), "reason", cmp.Or(ctx.Err(), err))
		a.metrics.sent(outcomeUnsent, took)
		return result, false
	}
	result = client.AgentDeliveryResult{ID: d.ID, LeaseToken: d.LeaseToken, DurationMs: took.Milliseconds()}
	if err == nil && status > maxStatus {
		err = errors.New("the answer has a status above 599")
	}
	if err != nil {
		class := classOf(err)
		result.Error, result.ErrorClass = new(err.Error()), new(client.AgentDeliveryResultErrorClass(class))
		a.metrics.sent(class, took)
	} else {
		a.answered(&result, status, header, beginning)
		a.metrics.sent(outcomeOf(status), took)
	}
	a.log.Debug("a delivery was sent", "delivery", d.ID, "trace_id", d.trace(), "attempt", d.Attempt, "status", status, "error", err, "duration", took)
	return result, true
}

const (
	maxStatus = 599 // of the API
	// reportTime is the part of a lease that is left for the report.
	reportTime = time.Second
)

// exchange makes a request within the timeout of the delivery and its lease.
func (a *Agent) exchange(ctx context.Context, d delivery) (status int, header http.Header, beginning []byte, err error) {
	timeout := min(time.Duration(d.TimeoutSeconds)*time.Second, time.Until(d.until)-reportTime)
	if timeout <= 0 {
		return 0, nil, nil, errLate
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, string(d.Method), d.URL, bytes.NewReader(d.BodyBase64))
	if err != nil {
		return 0, nil, nil, errRequest
	}
	for name, value := range d.Headers {
		request.Header.Set(name, value)
	}
	if request.Header["Idempotency-Key"] == nil {
		request.Header["Idempotency-Key"] = nil // repeated on another connection if an idle one turns out to be closed
	}
	return a.destinations.Exchange(ctx, request, eventhook.MaxExcerpt)
}

// errRequest is the error for a method or URL that net/http refuses. The error of net/http repeats
// the URL, which may contain secrets.
var errRequest error = &requestError{"the method or the URL of the delivery is not valid"}

type requestError struct{ text string }

func (e *requestError) Error() string { return e.text }
func (e *requestError) Class() string { return string(eventhook.ErrorBlocked) }

// classOf returns the class of an error of Exchange, one of the classes that the API knows.
func classOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		Class() string
	}](err); ok {
		return e.Class()
	}
	return string(eventhook.ErrorClosed)
}

// answered adds an answer to a result.
func (a *Agent) answered(r *client.AgentDeliveryResult, status int, header http.Header, beginning []byte) {
	r.StatusCode = new(int64(status))
	if len(beginning) > 0 {
		r.ResponseExcerpt = new(strings.ToValidUTF8(string(beginning), "\uFFFD"))
	}
	if after := eventhook.RetryAfter(header.Get("Retry-After"), dateOf(header)); after > 0 {
		r.RetryAfterSeconds = new(int64(after.Round(time.Second) / time.Second))
	}
}

// dateOf returns the time of an answer by the receiver's clock, or else by the agent's.
func dateOf(header http.Header) time.Time {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}
