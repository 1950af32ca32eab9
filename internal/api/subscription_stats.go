package api

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// SubscriptionStats counts the recent deliveries of a subscription. The periods may
// include up to five minutes more, and the latest seconds may be missing.
type SubscriptionStats struct {
	DeliveredLastHour int64      `json:"delivered_last_hour" doc:"Successful deliveries."`
	DeliveredLast24h  int64      `json:"delivered_last_24h" doc:"Successful deliveries."`
	FailedLastHour    int64      `json:"failed_last_hour" doc:"Failed attempts."`
	FailedLast24h     int64      `json:"failed_last_24h" doc:"Failed attempts."`
	DeadLastHour      int64      `json:"dead_last_hour" doc:"Deliveries that became dead."`
	DeadLast24h       int64      `json:"dead_last_24h" doc:"Deliveries that became dead."`
	MeanDurationMS    float64    `json:"mean_duration_ms" doc:"Mean duration of the attempts of the last 24 hours."`
	Waiting           int        `json:"waiting" doc:"Deliveries waiting to be sent, including retries. 10000 means 10000 or more."`
	OldestWaitingAt   *time.Time `json:"oldest_waiting_at" doc:"When the first waiting delivery became or becomes due; null if none is waiting."`
	DeadInRow         int        `json:"dead_in_row" doc:"Dead deliveries since the last success."`
}

type statsAnswer struct{ Body SubscriptionStats }

func (s *server) getStats(ctx context.Context, by caller, in *SubscriptionPath) (*statsAnswer, error) {
	x, err := s.readStats(ctx, by, in)
	if err != nil {
		return nil, err
	}
	return &statsAnswer{SubscriptionStats{
		DeliveredLastHour: x.DeliveredLastHour, DeliveredLast24h: x.DeliveredLast24h, FailedLastHour: x.FailedLastHour,
		FailedLast24h: x.FailedLast24h,
		DeadLastHour:  x.DeadLastHour, DeadLast24h: x.DeadLast24h, MeanDurationMS: float64(x.MeanDuration) / float64(time.Millisecond),
		Waiting: x.Waiting, OldestWaitingAt: optionalUTC(x.OldestAt), DeadInRow: x.DeadInRow,
	}}, nil
}

func (s *server) readStats(ctx context.Context, by caller, in *SubscriptionPath) (eventhook.SubscriptionStats, error) {
	if by.customer != nil {
		x, err := s.findSubscription(ctx, by, in)
		if err != nil {
			return eventhook.SubscriptionStats{}, err
		}
		return s.Subscriptions.CustomerStats(ctx, x, by.scope())
	}
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return eventhook.SubscriptionStats{}, err
	}
	return s.Subscriptions.SubscriptionStats(ctx, by.tenant, id)
}
