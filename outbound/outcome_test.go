package outbound_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

func TestTheOutcomeOfADelivery(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fresh := eventhook.Delivery{EventID: eventhook.NewID[eventhook.Event](now.Add(-time.Minute))}
	old := eventhook.Delivery{EventID: eventhook.NewID[eventhook.Event](now.Add(-day + time.Minute))}
	restarted := eventhook.Delivery{EventID: eventhook.NewID[eventhook.Event](now.Add(-100 * day)), RestartedAt: &now}
	retried := func(d eventhook.Delivery, times int) eventhook.Delivery {
		d.RetryCount = times
		return d
	}
	status := func(code int, after time.Duration) eventhook.Attempt {
		a := respondsWith(code)()
		a.RetryAfter = after
		return a
	}
	settings := eventhook.SubscriptionSettings{}
	full := eventhook.SubscriptionSettings{Retry: eventhook.RetryPolicy{Jitter: eventhook.JitterFull}}
	never := eventhook.SubscriptionSettings{Retry: eventhook.RetryPolicy{MaxRetries: new(0)}}
	spelled := eventhook.SubscriptionSettings{Retry: eventhook.RetryPolicy{ScheduleSeconds: []int{30, 7200}}}
	final := eventhook.SubscriptionSettings{Retry: eventhook.RetryPolicy{TerminalStatuses: []int{422, 503}}}
	for _, c := range []struct {
		claim    string
		settings eventhook.SubscriptionSettings
		delivery eventhook.Delivery
		attempt  eventhook.Attempt
		status   eventhook.DeliveryStatus
		in       time.Duration // with the random value 0.5
		retries  int
	}{
		{"a 2xx response delivers", settings, fresh, eventhook.Attempt{StatusCode: 204}, success, 0, 0},
		{"a 2xx response at the last retry delivers", settings, retried(fresh, 5), eventhook.Attempt{StatusCode: 200}, success, 0, 5},
		{"a failure is retried with jitter of up to a tenth", settings, fresh, refused(), failed, 1050 * time.Millisecond, 1},
		{"the delay doubles", settings, retried(fresh, 1), status(500, 0), failed, 2100 * time.Millisecond, 2},
		{"full jitter", full, retried(fresh, 1), status(500, 0), failed, time.Second, 2},
		{"schedule", spelled, retried(fresh, 1), status(500, 0), failed, 7560 * time.Second, 2},
		{"no retries remain", settings, retried(fresh, 5), status(500, 0), dead, 0, 5},
		{"the policy has no retries", never, fresh, refused(), dead, 0, 0},
		{"a redirect is a failure", settings, fresh, eventhook.Attempt{StatusCode: 302, ErrorClass: eventhook.ErrorHTTP, Error: "no"}, failed, 1050 * time.Millisecond, 1},
		{"a 404 is a failure", settings, fresh, status(404, 0), failed, 1050 * time.Millisecond, 1},
		{"a 410 makes the delivery dead", settings, fresh, status(410, 0), dead, 0, 0},
		{"a failed transform makes the delivery dead", settings, fresh, eventhook.Attempt{ErrorClass: eventhook.ErrorTransform, Error: "transform: no"}, dead, 0, 0},
		{"a terminal status makes the delivery dead", final, fresh, status(422, 0), dead, 0, 0},
		{"a terminal status with a Retry-After", final, fresh, status(503, time.Hour), dead, 0, 0},
		{"a status that is not terminal", final, fresh, status(404, 0), failed, 1050 * time.Millisecond, 1},
		{"no answer with terminal statuses", final, fresh, refused(), failed, 1050 * time.Millisecond, 1},
		{"a 2xx response with terminal statuses", final, fresh, eventhook.Attempt{StatusCode: 204}, success, 0, 0},
		{"the Retry-After of a 429", settings, fresh, status(429, time.Hour), failed, time.Hour, 1},
		{"the Retry-After of a 503", settings, fresh, status(503, time.Hour), failed, time.Hour, 1},
		{"a Retry-After before the scheduled retry has no effect", settings, retried(fresh, 4), status(503, time.Second), failed, 16800 * time.Millisecond, 5},
		{"Retry-After of another status is ignored", settings, fresh, status(500, time.Hour), failed, 1050 * time.Millisecond, 1},
		{"a Retry-After in the past is ignored", settings, fresh, status(429, -time.Hour), failed, 1050 * time.Millisecond, 1},
		{"a retry after the maximum age is not scheduled", settings, restarted, status(429, 1000*time.Hour), dead, 0, 0},
		{"a delivery that would be too old at its retry is dead", settings, old, status(429, time.Hour), dead, 0, 0},
		{"a delivery that would not be too old is retried", settings, old, status(429, 30*time.Second), failed, 30 * time.Second, 1},
		{"a restarted delivery counts its age from the restart", settings, restarted, refused(), failed, 1050 * time.Millisecond, 1},
	} {
		s := &eventhook.Subscription{SubscriptionSettings: c.settings}
		o := outbound.Settle(now, day, 0.5, s, &c.delivery, &c.attempt)
		var in time.Duration
		if !o.DueAt.IsZero() {
			in = o.DueAt.Sub(now)
		}
		if o.Status != c.status || in != c.in || o.RetryCount != c.retries {
			t.Errorf("%s: got %s in %s, %d retries; want %s in %s, %d", c.claim, o.Status, in, o.RetryCount, c.status, c.in, c.retries)
		}
		if o.DeadInRow != 10 || o.Attempt != &c.attempt || o.Delivery != &c.delivery || !strings.HasPrefix(o.LastError, c.attempt.Error) || o.Disable != "" != (c.attempt.StatusCode == 410) {
			t.Errorf("%s: got %+v", c.claim, o)
		}
	}
}

// A test delivery can be in the queue because its Tester was killed or because a user restarted it.
func TestAReplayedTestDelivery(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := eventhook.Delivery{EventID: eventhook.NewID[eventhook.Event](now), EventType: "system.webhook_test"}
	for _, c := range []struct {
		claim   string
		attempt eventhook.Attempt
		status  eventhook.DeliveryStatus
	}{
		{"delivers", eventhook.Attempt{StatusCode: 204}, success},
		{"is not retried", refused(), dead},
		{"does not disable the subscription", respondsWith(410)(), dead},
	} {
		o := outbound.Settle(now, time.Hour, 0, &eventhook.Subscription{}, &d, &c.attempt)
		if o.Status != c.status || !o.IsUncounted || o.Disable != "" || !o.DueAt.IsZero() {
			t.Errorf("%s: got %+v", c.claim, o)
		}
	}
}

// A Retry-After delays a delivery by at most a day, even if deliveries may become older than that.
func TestRetryAfterIsBounded(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d, a := eventhook.Delivery{EventID: eventhook.NewID[eventhook.Event](now)}, respondsWithRetryAfter(429, 1000*time.Hour)()
	o := outbound.Settle(now, 10*day, 0.5, &eventhook.Subscription{}, &d, &a)
	if in := o.DueAt.Sub(now); o.Status != failed || in != day {
		t.Errorf("got %s in %s, want a retry in a day", o.Status, in)
	}
}

func TestIsOverload(t *testing.T) {
	for _, c := range []struct {
		claim string
		a     eventhook.Attempt
		want  bool
	}{
		{"no response", refused(), true},
		{"503", respondsWith(503)(), true},
		{"429", respondsWith(429)(), true},
		{"404: the receiver is healthy", respondsWith(404)(), false},
		{"a redirect", eventhook.Attempt{StatusCode: 302, ErrorClass: eventhook.ErrorHTTP}, false},
		{"200", eventhook.Attempt{StatusCode: 200}, false},
		{"a message that is refused", eventhook.Attempt{ErrorClass: eventhook.ErrorRefused}, true},
		{"a signal to a workflow that does not exist", eventhook.Attempt{StatusCode: eventhook.StatusNoWorkflow, ErrorClass: eventhook.ErrorRefused}, false},
	} {
		if got := outbound.IsTrouble(c.a); got != c.want {
			t.Errorf("%s: got %t, want %t", c.claim, got, c.want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{24 * time.Hour: "24h", 90 * time.Minute: "1h30m", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Hour: "10h", 70 * time.Minute: "1h10m"} {
		if got := outbound.Age(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
