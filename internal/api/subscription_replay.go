package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

func (s *server) registerReplay(api huma.API) {
	op := subscriptionOperation("replay-subscription", http.MethodPost, "/{id}/replay", "Replay deliveries of a subscription", eventhook.ScopeManage)
	op.skipsShape, op.class = true, bulks
	op.about = "Sends the dead deliveries of a time range again, or deliveries with the given statuses: they are due at once, and their retries are reset. " +
		"If more match than limit, the newest are replayed. 409 if the subscription is disabled; enable it first."
	register(s, api, op, s.replay)
	register(s, api, subscriptionOperation("get-subscription-stats", http.MethodGet, "/{id}/stats", "Get statistics of a subscription", eventhook.ScopeRead), s.getStats)
}

// SubscriptionReplay selects the deliveries of a subscription to replay.
type SubscriptionReplay struct {
	Since  string   `json:"since" format:"date-time" doc:"Replay deliveries of events published at or after this time."`
	Until  string   `json:"until,omitempty" format:"date-time" doc:"Replay deliveries of events published before this time; default no upper bound."`
	Status []string `json:"status,omitempty" minItems:"1" enum:"dead,failed,success" doc:"Statuses to replay; default dead. success sends delivered events again."`
	Limit  int      `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"1000" doc:"Maximum number of deliveries to replay; default 1000."`
}

// SubscriptionReplayed is the outcome of a replay.
type SubscriptionReplayed struct {
	ReplayedCount int      `json:"replayed_count" doc:"Number of replayed deliveries."`
	DeliveryIDs   []string `json:"delivery_ids" doc:"The first 100 replayed deliveries, newest event first."`
	More          bool     `json:"more" doc:"True if the limit was reached. Repeat the request to replay the rest."`
}

type replayRequest struct {
	SubscriptionPath
	Body document[SubscriptionReplay]
}

type replayAnswer struct{ Body SubscriptionReplayed }

const (
	defaultReplay = 1000
	maxReplayIDs  = 100
)

func (s *server) replay(ctx context.Context, by caller, in *replayRequest) (*replayAnswer, error) {
	x, err := s.findSubscription(ctx, by, &in.SubscriptionPath)
	if err != nil {
		return nil, err
	}
	body, shape := in.Body.read(s)
	which := eventhook.DeliverySelection{SubscriptionID: x.ID, Statuses: []eventhook.DeliveryStatus{eventhook.DeliveryDead}, Since: moment(body.Since), Until: moment(body.Until), Limit: body.Limit}
	if body.Status != nil {
		which.Statuses = deliveryStatuses(body.Status)
	}
	if which.Limit == 0 {
		which.Limit = defaultReplay
	}
	var rules eventhook.Faults
	if !which.Until.IsZero() && !which.Until.After(which.Since) {
		rules.Add("body.until", "must be later than since")
	}
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	if x.Status == eventhook.SubscriptionDisabled {
		return nil, errNotEnabled
	}
	restarted, err := s.Deliveries.RestartDeliveries(ctx, by.actor(), by.tenant, which)
	if err != nil {
		return nil, err
	}
	shown := restarted[:min(len(restarted), maxReplayIDs)]
	return &replayAnswer{SubscriptionReplayed{len(restarted), idTexts(shown), len(restarted) == which.Limit}}, nil
}

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
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return nil, err
	}
	x, err := s.Subscriptions.SubscriptionStats(ctx, by.tenant, id)
	if err != nil {
		return nil, err
	}
	return &statsAnswer{SubscriptionStats{
		DeliveredLastHour: x.DeliveredLastHour, DeliveredLast24h: x.DeliveredLast24h, FailedLastHour: x.FailedLastHour, FailedLast24h: x.FailedLast24h,
		DeadLastHour: x.DeadLastHour, DeadLast24h: x.DeadLast24h, MeanDurationMS: float64(x.MeanDuration) / float64(time.Millisecond),
		Waiting: x.Waiting, OldestWaitingAt: optionalUTC(x.OldestAt), DeadInRow: x.DeadInRow,
	}}, nil
}
