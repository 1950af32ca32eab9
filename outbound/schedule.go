package outbound

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// longestRetryAfter bounds how long one delivery is put off because its
// receiver says so, and longestRest how long all of its subscription's are.
const (
	longestRetryAfter = 24 * time.Hour
	longestRest       = time.Hour
)

// isGone is why a subscription is disabled whose receiver answers 410.
const isGone = "the receiver answered 410 Gone"

// judgement is what a delivery is judged by.
type judgement struct {
	now    time.Time
	maxAge time.Duration
	chance float64 // between 0 and 1, for the jitter
}

// staleAt is from when on a delivery is too old to be sent: as old as its event,
// or as it was begun anew.
func (j judgement) staleAt(d *eventhook.Delivery) time.Time {
	if d.RestartedAt != nil {
		return d.RestartedAt.Add(j.maxAge)
	}
	return d.EventID.Time().Add(j.maxAge)
}

// unsendable is why a delivery dies unsent; "" if it is to be sent.
func (j judgement) unsendable(d *eventhook.Delivery) string {
	switch {
	case !j.now.Before(j.staleAt(d)):
		return "not sent: it is older than " + age(j.maxAge)
	case d.Event == nil || d.Event.Body == nil && d.Event.BodySize > 0:
		return "not sent: the event's data is past its retention"
	}
	return ""
}

// unsent settles a delivery that is not to be sent.
func unsent(s *eventhook.Subscription, d *eventhook.Delivery, why string) *DeliverySettlement {
	return &DeliverySettlement{Delivery: d, Status: eventhook.DeliveryDead, RetryCount: d.RetryCount, LastError: why, DeadInRow: s.DeadInRow(), IsTest: isTest(d)}
}

// age is a duration in words such as 24h or 1h30m.
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

// settle says what becomes of a delivery after an attempt. Every failure is
// tried again, as the subscription has it and not before the receiver asked
// for, but for a 410, and unless it would be too old by then. A test, which is
// here when its Tester was killed or a person has begun it anew, is made once.
func (j judgement) settle(s *eventhook.Subscription, d *eventhook.Delivery, a *eventhook.Attempt) *DeliverySettlement {
	o := &DeliverySettlement{Delivery: d, Attempt: a, Status: eventhook.DeliveryDead, RetryCount: d.RetryCount, LastError: a.Error, DeadInRow: s.DeadInRow(), IsTest: isTest(d)}
	switch {
	case a.Succeeded():
		o.Status, o.LastError = eventhook.DeliverySuccess, ""
	case o.IsTest:
	case a.StatusCode == http.StatusGone:
		o.Disable = isGone
	default:
		j.retry(s.Retry.Or(eventhook.DeliveryRetry), o)
	}
	return o
}

// retry schedules the next attempt, if there is to be one.
func (j judgement) retry(policy eventhook.RetryPolicy, o *DeliverySettlement) {
	delay, more := policy.Delay(o.RetryCount + 1)
	if !more {
		return
	}
	due := j.now.Add(max(policy.Spread(delay, j.chance), min(askedFor(*o.Attempt), longestRetryAfter)))
	if due.Before(j.staleAt(o.Delivery)) {
		o.Status, o.DueAt = eventhook.DeliveryFailed, due
		o.RetryCount++
		return
	}
	o.LastError = fmt.Sprintf("%s (not tried again: it would be older than %s by then)", o.Attempt.Error, age(j.maxAge))
}

// askedFor is how long the receiver wants to be left alone: only these two
// answers may say so.
func askedFor(a eventhook.Attempt) time.Duration {
	if a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable {
		return max(0, a.RetryAfter)
	}
	return 0
}
