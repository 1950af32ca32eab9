package match

import (
	"fmt"
	"log/slog"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/meter"
)

// TooManySteps is the reason for users why an event is not published if its filters
// together take more than meter.EventLimit steps.
var TooManySteps = fmt.Sprintf("the filters of the tenant's subscriptions take more than %d million steps for this event", meter.EventLimit/1_000_000)

// LogTooSlow logs and counts the subscriptions that do not receive an event because their
// filters take too many steps.
func LogTooSlow(log *slog.Logger, limiter *cpushare.Limiter, e *eventhook.Event, list []*eventhook.Subscription) {
	for _, s := range list {
		limiter.Count(cpushare.Subscriptions, cpushare.OverLimit)
		log.Warn("a subscription does not receive an event: its filter takes too many steps", "tenant", e.TenantID, "subscription", s.ID,
			"event", e.ID, "trace_id", e.Trace(), "steps", maxFilterSteps)
	}
}
