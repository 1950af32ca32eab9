package outbound

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// maxRetryAfter bounds the delay of a delivery that a receiver can request by Retry-After.
const maxRetryAfter = 24 * time.Hour

// answeredGone is the reason why a subscription is disabled after an answer of 410.
const answeredGone = "the receiver answered 410 Gone"

// OutcomeRules decide the next state of a delivery, for the gateway's attempts and for these of
// agents.
type OutcomeRules struct {
	Now    time.Time
	MaxAge time.Duration // older deliveries are not sent
	Chance float64       // between 0 and 1, for the jitter
}

// staleAt returns when a delivery becomes too old to be sent. The age counts from the
// creation of the event, or from the last replay of the delivery.
func (r OutcomeRules) staleAt(d *eventhook.Delivery) time.Time {
	if d.RestartedAt != nil {
		return d.RestartedAt.Add(r.MaxAge)
	}
	return d.EventID.Time().Add(r.MaxAge)
}

// Unsendable returns the reason why a delivery to a destination becomes dead without being sent, or
// "" if it can be sent.
func (r OutcomeRules) Unsendable(to Destination, d *eventhook.Delivery) string {
	switch {
	case r.isStale(d):
		return "not sent: it is older than " + age(r.MaxAge)
	case !hasData(d):
		return dataExpired
	case to.excludes(d):
		return otherScope
	}
	return ""
}

// dataExpired is why a delivery without its event's data is dead.
const dataExpired = "not sent: the event's data is past its retention"

// otherScope is why a delivery is dead whose event is of another scope than its subscription has now.
// The subscription may have got another owner, who must not receive the event.
const otherScope = "not sent: the scope_filter of the subscription no longer matches the scope of the event"

func hasData(d *eventhook.Delivery) bool {
	return d.Event != nil && (d.Event.Body != nil || d.Event.BodySize == 0)
}

func (r OutcomeRules) isStale(d *eventhook.Delivery) bool { return !r.Now.Before(r.staleAt(d)) }

// Unsent returns the settlement of a delivery that becomes dead without an attempt, for a
// reason of Unsendable.
func (r OutcomeRules) Unsent(to Destination, d *eventhook.Delivery, reason string) *DeliverySettlement {
	return &DeliverySettlement{Delivery: d, TargetType: to.TargetType, Status: eventhook.DeliveryDead, RetryCount: d.RetryCount, LastError: reason,
		DeadInRow:   to.DeadInRow,
		IsUncounted: isTest(d) || reason == otherScope, IsStale: r.isStale(d)}
}

// age formats a duration without its zero parts, such as 24h or 1h30m.
func age(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if short := strings.TrimSuffix(text, "h0m"); short != text {
		return short + "h"
	}
	if text == "" || !strings.ContainsAny(text[len(text)-1:], "hm") {
		return d.String()
	}
	return text
}

// Settle returns the settlement of an attempt. A failed delivery is retried as the retry
// policy of the destination says, but not before the time that the receiver requested. It
// is dead if its retries are used up, if it would be too old by then, or after a 410, a
// terminal status of the policy, or a failed transform. A test is dead after its first failure.
// The dispatcher sends a test only if the Tester did not settle it, or if it was replayed.
func (r OutcomeRules) Settle(to Destination, d *eventhook.Delivery, a *eventhook.Attempt) *DeliverySettlement {
	o := &DeliverySettlement{Delivery: d, TargetType: to.TargetType, Attempt: a, Status: eventhook.DeliveryDead, RetryCount: d.RetryCount, LastError: a.Error, DeadInRow: to.DeadInRow, IsUncounted: isTest(d)}
	switch {
	case a.Succeeded():
		o.Status, o.LastError = eventhook.DeliverySuccess, ""
	case isTest(d):
	case a.StatusCode == http.StatusGone:
		if to.DisableGone {
			o.Disable = answeredGone
		}
	case a.ErrorClass == eventhook.ErrorTransform:
	case slices.Contains(to.Retry.TerminalStatuses, a.StatusCode):
		o.LastError += " (not retried: a terminal status of the retry policy)"
	default:
		r.retry(to.Retry, o)
	}
	return o
}

// Repeat returns the settlement of an attempt after which the delivery is sent again at once. It
// counts as no retry.
func (r OutcomeRules) Repeat(to Destination, d *eventhook.Delivery, a *eventhook.Attempt) *DeliverySettlement {
	return &DeliverySettlement{Delivery: d, TargetType: to.TargetType, Attempt: a, Status: eventhook.DeliveryFailed, DueAt: r.Now, RetryCount: d.RetryCount, LastError: a.Error,
		DeadInRow: to.DeadInRow, IsUncounted: isTest(d)}
}

// retry schedules the next attempt, unless the retries are used up or the delivery would be
// too old by then.
func (r OutcomeRules) retry(policy eventhook.RetryPolicy, o *DeliverySettlement) {
	delay, isRetried := policy.Delay(o.RetryCount + 1)
	if !isRetried {
		return
	}
	due := r.Now.Add(max(policy.AddJitter(delay, r.Chance), min(retryAfter(*o.Attempt), maxRetryAfter)))
	if due.Before(r.staleAt(o.Delivery)) {
		o.Status, o.DueAt = eventhook.DeliveryFailed, due
		o.RetryCount++
		return
	}
	o.LastError = fmt.Sprintf("%s (not retried: it would be older than %s by then)", o.Attempt.Error, age(r.MaxAge))
}

// retryAfter returns the delay before the next request that the receiver requested. Only
// the Retry-After of a 429 or 503 counts.
func retryAfter(a eventhook.Attempt) time.Duration {
	if a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable {
		return max(0, a.RetryAfter)
	}
	return 0
}

// Observed returns the part of an attempt that the circuit breaker uses.
func Observed(a eventhook.Attempt) schedule.Attempt {
	return schedule.Attempt{Took: a.Duration, Succeeded: a.Succeeded(), Failed: isOverload(a), RetryAfter: retryAfter(a)}
}

// isOverload reports whether the destination should get fewer sends after an attempt: there
// was no answer, or the status was 429 or 5xx. That a workflow does not exist says nothing about the
// other sends to its engine.
func isOverload(a eventhook.Attempt) bool {
	switch a.ErrorClass {
	case "", eventhook.ErrorHTTP, eventhook.ErrorTransform:
		return false
	case eventhook.ErrorHTTP4xx:
		return a.StatusCode == http.StatusTooManyRequests
	case eventhook.ErrorRefused:
		return a.StatusCode != eventhook.StatusNoWorkflow
	default:
		return true
	}
}
