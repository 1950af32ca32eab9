package route_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/route"
)

// calledShare is a meter.Share with unlimited steps. It calls each before every Take and counts the
// steps.
type calledShare struct {
	each  func()
	taken int
}

func (s *calledShare) Take(steps int) bool {
	s.each()
	s.taken += steps
	return true
}

const loopWithinLoop = "body.l.exists(a, body.l.exists(b, a + b > 9999999))"

var numbers = []byte(`{"l":[` + strings.Repeat("1,", 2999) + `1]}`)

func expressing(name, expression string) eventhook.Route {
	r := enabled(newRoute(name, "", "ok"))
	r.FilterExpression = expression
	return r
}

// An expression that exceeds its limits leaves no event unrouted: the event is dead at once, and
// the error names the route.
func TestExpressionsBeyondTheirLimitsMakeEventsDead(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.InboxBytes = 4 << 20 }, func(t *testing.T, b *harness) {
		e := b.handOverCostly(slowTenant, 101, expressing("payments", loopWithinLoop))
		b.set(func(q *queue) { q.rows[e.ID].Body, e.Body = numbers, numbers })
		b.run()
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventDead: 1})
		const want = `route "payments" filter_expression: it costs more than 100 000 steps`
		if got := b.rows[e.ID]; got.LastError != want || got.Lease.Token != 1 {
			t.Errorf("got %q after %d leases, want %q after one", got.LastError, got.Lease.Token, want)
		}
	})
}

// The duration of an evaluation depends on the machine, so exceeding the time limit is retried.
func TestExpressionsThatTakeTooLongAreRetried(t *testing.T) {
	route.SetEvalTime(t, 0)
	for claim, expression := range map[string]string{
		"a loop":         "body.l.all(a, a == 1)",
		"many variables": strings.Repeat("body.l[0] == 1 && ", 20) + "true",
	} {
		m := meter.New(t.Context(), meter.EventLimit, nil)
		s := compile(expressing("slow", expression)).Settle(m, carrying(string(numbers)), nil, noon)
		if m.Err() != nil || len(s.Actions) != 1 || s.Actions[0].Permanent ||
			!strings.HasPrefix(s.Actions[0].Failure, `route "slow" filter_expression: it takes longer than `) {
			t.Errorf("%s: got %+v and %v, want one transient failure", claim, s.Actions, m.Err())
		}
	}
}

// The end of the caller's context is not a failure of the expression.
func TestExpressionsThatEndWithTheContextStopTheMeter(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := meter.New(ctx, meter.EventLimit, &calledShare{each: cancel})
	compile(expressing("r", "body.l.all(a, a == 1)")).Settle(m, carrying(string(numbers)), nil, noon)
	if !errors.Is(m.Err(), context.Canceled) {
		t.Errorf("got %v, want the context's error", m.Err())
	}
}

// On a slow machine, a cheap expression must not exceed the limit of the event.
func TestTimeOfExpressionsIsChargedToTheShareOnly(t *testing.T) {
	route.SetEvalTime(t, time.Second)
	synctest.Test(t, func(t *testing.T) {
		share := &calledShare{each: func() { time.Sleep(300 * time.Millisecond) }}
		m := meter.New(t.Context(), 10*meter.Slice, share)
		e := carrying(`{"s":"` + strings.Repeat("x", 900_000) + `"}`)
		s := compile(expressing("r", "size(body.s) > 0")).Settle(m, e, nil, noon)
		if m.Err() != nil || len(s.Actions) != 1 || s.Actions[0].Failure != "" {
			t.Errorf("got %+v and %v, want the action", s.Actions, m.Err())
		}
		if least := meter.StepsIn(300 * time.Millisecond); share.taken < least {
			t.Errorf("got %d steps of the share, want at least %d: the time is charged, too", share.taken, least)
		}
	})
}

// The cost of an evaluation is known only afterwards. The share is charged even if the quick path
// then stops.
func TestEvaluationsStoppedOnTheQuickPathAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 500 * time.Millisecond
		all := cpushare.New(cpushare.Config{Processors: 0.5, Burst: burst, Tenants: 10}, nil, time.Now)
		share := all.Bucket(eventhook.TenantID{1})
		m := meter.New(t.Context(), meter.Slice, share)
		compile(expressing("r", loopWithinLoop)).Settle(m, carrying(string(numbers)), nil, noon)
		m.Close()
		if !errors.Is(m.Err(), meter.ErrLimit) || m.Steps() < 1_000_000 {
			t.Errorf("got %v after %d steps, want ErrLimit after the cost of the evaluation", m.Err(), m.Steps())
		}
		if share.Take(meter.StepsIn(burst) - m.Steps() + 1) {
			t.Error("the share has steps that were used, want them charged")
		}
	})
}
