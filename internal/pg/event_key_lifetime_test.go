package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// The lifetime of a key is that of the target whose execution claimed it. Without one, it is a
// day, whatever the retention of events is.
func TestEachTargetHasItsOwnKeyLifetime(t *testing.T) {
	f := setUp(t)
	lasting := func(ttl time.Duration) func(*eventhook.Execution) {
		return func(x *eventhook.Execution) { x.KeyTTL = ttl }
	}
	began := f.clock.Now()
	for _, c := range []struct {
		after              time.Duration
		short, usual, long int // executions
	}{
		{0, 1, 1, 1},
		{time.Hour - time.Second, 1, 1, 1},
		{time.Hour, 2, 1, 1},
		{day - time.Second, 3, 1, 1},
		{day, 3, 2, 1},
		{2*day - time.Second, 4, 2, 1},
		{2 * day, 4, 3, 2},
	} {
		f.clock.Advance(began.Add(c.after).Sub(f.clock.Now()))
		f.settle(f.db, f.plan(f.leasedEvents(1)[0],
			f.executionAction(eventhook.Task, "short", lasting(time.Hour)), f.executionAction(eventhook.Task, "usual"), f.executionAction(eventhook.Task, "long", lasting(2*day))))
		got := f.counts(`SELECT idempotency_key, count(*) FROM eventhook.execution GROUP BY 1`)
		same(t, "executions after "+c.after.String(), got, map[string]int{"short": c.short, "usual": c.usual, "long": c.long})
	}
}
