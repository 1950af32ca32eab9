package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

func (s *server) registerReplay(api huma.API) {
	op := subscriptionOperation("replay-subscription", http.MethodPost, "/{id}/replay", "Send again what a subscription has missed since a time", eventhook.ScopeManage)
	op.skipsShape, op.class = true, bulks
	op.about = "Its deliveries of events since then that are dead, or have the statuses that are named, are due at once, the newest first, with all their retries before them. " +
		"409: it is disabled, and has to be enabled first."
	register(s, api, op, s.replay)
	register(s, api, subscriptionOperation("get-subscription-stats", http.MethodGet, "/{id}/stats", "Read what a subscription has received lately", eventhook.ScopeRead), s.readStats)
}

// SubscriptionReplay says what is sent again.
type SubscriptionReplay struct {
	Since  string   `json:"since" format:"date-time" doc:"Events published from then on."`
	Until  string   `json:"until,omitempty" format:"date-time" doc:"And before then; without it all since."`
	Status []string `json:"status,omitempty" minItems:"1" enum:"dead,failed,success" doc:"dead without it. success sends again what was delivered."`
	Limit  int      `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"1000" doc:"How many at most; 1000 by default."`
}

// SubscriptionReplayed is what it came to.
type SubscriptionReplayed struct {
	ReplayedCount int      `json:"replayed_count"`
	DeliveryIDs   []string `json:"delivery_ids" doc:"The first 100 of them, those of the newest events first."`
	More          bool     `json:"more" doc:"The limit was reached, so that there may be more: repeat it."`
}

type replayRequest struct {
	SubscriptionPath
	Body document[SubscriptionReplay]
}

type replayAnswer struct{ Body SubscriptionReplayed }

const (
	defaultReplay = 1000
	mostReplayIDs = 100
)

func (s *server) replay(ctx context.Context, who caller, in *replayRequest) (*replayAnswer, error) {
	x, err := s.findSubscription(ctx, who, &in.SubscriptionPath)
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
	if err := together(shape, rules); err != nil {
		return nil, err
	}
	if x.Status == eventhook.SubscriptionDisabled {
		return nil, errNotEnabled
	}
	restarted, err := s.Deliveries.RestartDeliveries(ctx, who.actor(), who.tenant, which)
	if err != nil {
		return nil, err
	}
	shown := restarted[:min(len(restarted), mostReplayIDs)]
	return &replayAnswer{SubscriptionReplayed{len(restarted), idTexts(shown), len(restarted) == which.Limit}}, nil
}

// SubscriptionStats is how much a subscription has received lately. The spans
// may be five minutes longer than they say, and the newest seconds may be
// missing.
type SubscriptionStats struct {
	DeliveredLastHour int64      `json:"delivered_last_hour"`
	DeliveredLast24h  int64      `json:"delivered_last_24h"`
	FailedLastHour    int64      `json:"failed_last_hour" doc:"Attempts that failed."`
	FailedLast24h     int64      `json:"failed_last_24h"`
	DeadLastHour      int64      `json:"dead_last_hour"`
	DeadLast24h       int64      `json:"dead_last_24h"`
	MeanDurationMS    float64    `json:"mean_duration_ms" doc:"Of the attempts of the last 24 hours."`
	Waiting           int        `json:"waiting" doc:"Deliveries that are owed, retries included; 10000: or more."`
	OldestWaitingAt   *time.Time `json:"oldest_waiting_at" doc:"Since when the first of them is due, or when it will be."`
	DeadInRow         int        `json:"dead_in_row" doc:"Deliveries dead since the last success."`
}

type statsAnswer struct{ Body SubscriptionStats }

func (s *server) readStats(ctx context.Context, who caller, in *SubscriptionPath) (*statsAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return nil, err
	}
	x, err := s.Subscriptions.SubscriptionStats(ctx, who.tenant, id)
	if err != nil {
		return nil, err
	}
	return &statsAnswer{SubscriptionStats{
		DeliveredLastHour: x.DeliveredLastHour, DeliveredLast24h: x.DeliveredLast24h, FailedLastHour: x.FailedLastHour, FailedLast24h: x.FailedLast24h,
		DeadLastHour: x.DeadLastHour, DeadLast24h: x.DeadLast24h, MeanDurationMS: float64(x.MeanDuration) / float64(time.Millisecond),
		Waiting: x.Waiting, OldestWaitingAt: optionalUTC(x.OldestAt), DeadInRow: x.DeadInRow,
	}}, nil
}
