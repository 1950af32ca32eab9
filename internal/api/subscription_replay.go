package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// ReplayStore stores replays, which a background worker handles. A replay that does not
// exist, or is of another subscription, is KindNotFound.
type ReplayStore interface {
	// Estimate returns how many events a replay would match, without the filter of the
	// subscription, at most eventhook.MaxReplayEstimate.
	Estimate(ctx context.Context, of eventhook.Subscription, r eventhook.ReplayRequest) (int64, error)
	// CreateReplay starts a replay, or returns the running replay of the same request.
	// The error is KindConflict if too many replays of the subscription are running.
	CreateReplay(ctx context.Context, by eventhook.Actor, of eventhook.Subscription, r eventhook.Replay) (eventhook.Replay, error)
	Replays(ctx context.Context, tenant eventhook.TenantID, f eventhook.ReplayFilter) ([]eventhook.Replay, error)
	Replay(ctx context.Context, tenant eventhook.TenantID, of eventhook.SubscriptionID, id eventhook.ReplayID) (eventhook.Replay, error)
	// CancelReplay ends a running replay. If it has ended, the error is KindConflict.
	CancelReplay(ctx context.Context, by eventhook.Actor, of eventhook.Subscription, id eventhook.ReplayID) (eventhook.Replay, error)
}

func (s *server) registerReplays(api huma.API) {
	start := subscriptionOperation("replay-subscription", http.MethodPost, "/{id}/replay", "Replay events to a subscription",
		eventhook.ScopeManage)
	start.skipsShape, start.class, start.status = true, bulks, http.StatusAccepted
	start.about = "Sends stored events of a time range again, in the background, oldest first: events whose deliveries are dead or have the given statuses, and with missing also events that have no delivery to the subscription, " +
		"because it was disabled or did not exist yet. The events are matched against the subscription as it is now. " +
		"A request that is identical to a running replay returns the id of that replay. A replay of a paused subscription waits. 409 if the subscription is disabled; enable it first."
	register(s, api, start, s.replay)
	list := subscriptionOperation("list-replays", http.MethodGet, "/{id}/replays", "List replays of a subscription", eventhook.ScopeRead)
	list.about = "Newest first. The list includes recoveries, which the gateway starts when an outage of the receiver ends."
	register(s, api, list, s.listReplays)
	register(s, api, subscriptionOperation("get-replay", http.MethodGet, "/{id}/replays/{replay_id}", "Get a replay",
		eventhook.ScopeRead), s.getReplay)
	end := subscriptionOperation("cancel-replay", http.MethodPost, "/{id}/replays/{replay_id}/cancel", "Cancel a replay",
		eventhook.ScopeManage)
	end.about = "Ends a running replay: it queues no more deliveries. Deliveries that it has queued are still sent. 409 if the replay has ended."
	register(s, api, end, s.cancelReplay)
}

// SubscriptionReplay selects the events of a replay.
type SubscriptionReplay struct {
	Since      string   `json:"since" format:"date-time" doc:"Replay events published at or after this time."`
	Until      string   `json:"until,omitempty" nullable:"true" format:"date-time" doc:"Replay events published before this time; default, and at most, the time of the request."`
	Status     []string `json:"status,omitempty" minItems:"1" maxItems:"3" enum:"dead,failed,success" doc:"Statuses of deliveries to send again; default dead. success sends delivered events again."`
	EventTypes []string `json:"event_types,omitempty" example:"[\"payment.*\"]" doc:"Replay only events of these types or patterns; default all types of the subscription."`
	Missing    bool     `json:"missing,omitempty" doc:"Also send events that have no delivery to the subscription, because it was disabled or did not exist yet."`
	Limit      int      `json:"limit,omitempty" minimum:"1" maximum:"1000000" doc:"Maximum number of deliveries, oldest event first; default no limit."`
	// ExpectedCount is compared with the estimate.
	ExpectedCount *int `json:"expected_count,omitempty" minimum:"0" maximum:"10000" doc:"Number of events that the replay must be estimated to send: the estimated of the response. If the estimate is another number, no replay is started: 409 with that number."`
}

// request returns the request and its faults.
func (b SubscriptionReplay) request(now time.Time) (eventhook.ReplayRequest, eventhook.Faults) {
	r := eventhook.ReplayRequest{Since: moment(b.Since), Until: moment(b.Until), Statuses: deliveryStatuses(b.Status),
		EventTypes: b.EventTypes,
		Missing:    b.Missing, Limit: b.Limit}
	var rules eventhook.Faults
	rules.Merge("body", r.Validate(now))
	return r, rules
}

// ReplayStarted identifies a replay that is running.
type ReplayStarted struct {
	ReplayID  string `json:"replay_id" format:"uuid" doc:"The replay. Its progress is at …/replays/{replay_id}."`
	Estimated int64  `json:"estimated" doc:"Estimated number of events to send, without the subscription's filter. It counts within the first 10,000 stored events or deliveries of the time range."`
}

type replayRequest struct {
	SubscriptionPath
	Body document[SubscriptionReplay]
}

type replayAnswer struct {
	Location string `header:"Location"`
	Body     ReplayStarted
}

func (s *server) replay(ctx context.Context, by caller, in *replayRequest) (*replayAnswer, error) {
	x, err := s.findSubscription(ctx, by, &in.SubscriptionPath)
	if err != nil {
		return nil, err
	}
	body, shape := in.Body.read(s)
	want, rules := body.request(s.Now())
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	if x.Status == eventhook.SubscriptionDisabled {
		return nil, errNotEnabled
	}
	estimated, err := s.estimate(ctx, by, x, want)
	if err == nil {
		err = eventhook.CheckExpectedCount(body.ExpectedCount, int(estimated), "events")
	}
	if err != nil {
		return nil, err
	}
	r, err := s.Replays.CreateReplay(ctx, by.actor(), x, eventhook.Replay{ReplayRequest: want, Estimated: estimated})
	if err != nil {
		return nil, err
	}
	return &replayAnswer{pathTo(in.Tenant, "subscriptions", x.ID.String(), "replays", r.ID.String()),
		ReplayStarted{r.ID.String(), r.Estimated}}, nil
}

// Replay sends stored events to a subscription again, in the background.
type Replay struct {
	ID             string     `json:"id" format:"uuid"`
	ReplayID       string     `json:"replay_id" format:"uuid" doc:"The same as id."`
	SubscriptionID string     `json:"subscription_id" format:"uuid"`
	Kind           string     `json:"kind" enum:"replay,recovery" doc:"replay: requested. recovery: started by the gateway when an outage of the receiver ended."`
	Status         string     `json:"status" enum:"running,completed,cancelled" doc:"running: queues deliveries, waits because the subscription is paused or disabled, or waits until the queued deliveries have ended. completed: all queued deliveries have ended. cancelled: ended before that."`
	Since          time.Time  `json:"since"`
	Until          time.Time  `json:"until"`
	DeliveryStatus []string   `json:"delivery_status" doc:"Statuses of deliveries that are sent again."`
	EventTypes     []string   `json:"event_types" doc:"Types and patterns of the request; empty for all types of the subscription."`
	Missing        bool       `json:"missing" doc:"Whether events without a delivery are sent, too."`
	Limit          *int       `json:"limit" doc:"Maximum number of deliveries; null without a limit."`
	Estimated      int64      `json:"estimated" doc:"The estimate when the replay was created."`
	Matched        int64      `json:"matched" doc:"Events that matched so far."`
	Queued         int64      `json:"queued" doc:"Deliveries that were queued so far. A matching event whose delivery another request is queuing, or whose data is past its retention, is not queued."`
	Sent           int64      `json:"sent" doc:"Queued deliveries that were answered with 2xx. It may lag behind by seconds, and is not updated after the end."`
	Failed         int64      `json:"failed" doc:"Queued deliveries that are dead again. It may lag behind by seconds, and is not updated after the end."`
	CreatedAt      time.Time  `json:"created_at"`
	FinishedAt     *time.Time `json:"finished_at" doc:"When the replay was completed or cancelled; null while it is running."`
}

func viewReplay(r eventhook.Replay) Replay {
	v := Replay{ID: r.ID.String(), ReplayID: r.ID.String(), SubscriptionID: r.SubscriptionID.String(), Kind: string(r.Kind),
		Status: string(r.Status), Since: utc(r.Since), Until: utc(r.Until),
		EventTypes: r.EventTypes, Missing: r.Missing, Limit: optionalNumber(r.Limit), Estimated: r.Estimated, Matched: r.Matched,
		Queued: r.Queued,
		Sent:   r.Sent, Failed: r.Failed, CreatedAt: utc(r.CreatedAt), FinishedAt: optionalUTC(r.FinishedAt)}
	for _, status := range r.Statuses {
		v.DeliveryStatus = append(v.DeliveryStatus, string(status))
	}
	return v
}

type replaysQuery struct {
	SubscriptionPath
	PageQuery
	Status string `query:"status" enum:"running,completed,cancelled" doc:"Return only replays with this status."`
}

func (s *server) listReplays(ctx context.Context, by caller, in *replaysQuery) (*page[Replay], error) {
	x, err := s.findSubscription(ctx, by, &in.SubscriptionPath)
	if err != nil {
		return nil, err
	}
	pages := s.pager("replays of "+x.ID.String(), by.tenant)
	before, err := cursorOf[eventhook.Replay](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	f := by.replaysOf(x)
	f.Status, f.Before, f.Limit = eventhook.ReplayStatus(in.Status), before, in.Limit+1
	list, err := s.Replays.Replays(ctx, by.tenant, f)
	if err != nil {
		return nil, err
	}
	return newPage(pages, list, in.Limit, viewReplay, func(r eventhook.Replay) eventhook.ReplayID { return r.ID }), nil
}

// ReplayPath is the path of a replay.
type ReplayPath struct {
	SubscriptionPath
	ReplayID string `path:"replay_id" format:"uuid" doc:"Replay id."`
}

type oneReplayAnswer struct{ Body Replay }

func (s *server) getReplay(ctx context.Context, by caller, in *ReplayPath) (*oneReplayAnswer, error) {
	x, id, err := s.findReplayed(ctx, by, in)
	if err != nil {
		return nil, err
	}
	return answerReplay(s.Replays.Replay(ctx, by.tenant, x.ID, id))
}

func (s *server) cancelReplay(ctx context.Context, by caller, in *ReplayPath) (*oneReplayAnswer, error) {
	x, id, err := s.findReplayed(ctx, by, in)
	if err != nil {
		return nil, err
	}
	return answerReplay(s.Replays.CancelReplay(ctx, by.actor(), x, id))
}

// findReplayed returns the subscription and the replay id of a path.
func (s *server) findReplayed(ctx context.Context, by caller, in *ReplayPath) (x eventhook.Subscription, id eventhook.ReplayID, err error) {
	if id, err = eventhook.ParseID[eventhook.Replay](in.ReplayID); err != nil {
		return x, id, err
	}
	if x, err = s.findSubscription(ctx, by, &in.SubscriptionPath); err != nil || by.customer == nil {
		return x, id, err
	}
	r, err := s.Replays.Replay(ctx, by.tenant, x.ID, id)
	if err == nil && !by.replaysOf(x).Includes(r) {
		err = eventhook.NotFound("replay")
	}
	return x, id, err
}

func answerReplay(r eventhook.Replay, err error) (*oneReplayAnswer, error) {
	if err != nil {
		return nil, err
	}
	return &oneReplayAnswer{viewReplay(r)}, nil
}
