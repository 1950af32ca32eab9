package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// DeliveryStore reads and retries deliveries. A delivery that does not exist or belongs
// to another tenant is KindNotFound.
type DeliveryStore interface {
	// Deliveries returns deliveries, newest first. It ignores the event type and the scope.
	Deliveries(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter) ([]eventhook.Delivery, error)
	// ScanDeliveries returns deliveries like Deliveries, for any filter, and those of all
	// tenants if tenant is zero. It may return fewer than the limit.
	ScanDeliveries(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter) (eventhook.DeliveryScan, error)
	// Delivery returns a delivery with its attempts in chronological order.
	Delivery(ctx context.Context, tenant eventhook.TenantID, id eventhook.DeliveryID) (eventhook.Delivery, []eventhook.Attempt, error)
	// DeliveryToSend returns a delivery with its event, which is nil if its data is past the
	// retention period.
	DeliveryToSend(ctx context.Context, tenant eventhook.TenantID, id eventhook.DeliveryID) (eventhook.Delivery, error)
	// EventDeliveries returns at most limit deliveries of an event, and their total
	// number.
	EventDeliveries(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID, limit int) (list []eventhook.Delivery, count int, err error)
	// RestartDeliveries queues deliveries for sending and resets their retries. It
	// returns the ids, newest first. Only deliveries with one of the selected statuses
	// are restarted, also if they are selected by id; without statuses these are failed
	// and dead. Deliveries are skipped if they are pending or acquired, if their
	// subscription is deleted or disabled, or if their event's data is past the
	// retention period.
	RestartDeliveries(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, which eventhook.DeliverySelection) ([]eventhook.DeliveryID, error)
	// SubscriptionNames returns the names of subscriptions. Deleted subscriptions are
	// missing.
	SubscriptionNames(ctx context.Context, tenant eventhook.TenantID, ids []eventhook.SubscriptionID) (map[eventhook.SubscriptionID]string, error)
}

// Delivery is the sending of an event to one destination: a subscription, or an http
// target of a route.
type Delivery struct {
	ID               string     `json:"id" format:"uuid"`
	EventID          string     `json:"event_id" format:"uuid"`
	EventType        string     `json:"event_type"`
	SubscriptionID   *string    `json:"subscription_id" format:"uuid" doc:"Destination subscription; null for a delivery to a target of a route."`
	SubscriptionName *string    `json:"subscription_name" doc:"Null if the subscription is deleted, or for a delivery to a target of a route."`
	RouteID          *string    `json:"route_id" format:"uuid" doc:"Route of the target; null for a delivery to a subscription."`
	TargetIndex      *int       `json:"target_index" doc:"Index of the route's target, starting at 0; null for a delivery to a subscription."`
	Status           string     `json:"status" enum:"pending,acquired,success,failed,dead" doc:"pending: waiting to be sent. acquired: being sent. success: answered with 2xx. failed: the last attempt failed and a retry is scheduled. dead: no retries are left, or the failure cannot be retried."`
	AttemptCount     int        `json:"attempt_count" doc:"Total number of attempts."`
	RetryCount       int        `json:"retry_count" doc:"Failed attempts since the delivery was created or last retried or replayed by a user."`
	NextAttemptAt    *time.Time `json:"next_attempt_at" doc:"Earliest time of the next attempt; null if no attempt is scheduled."`
	AcquiredBy       *string    `json:"acquired_by" format:"uuid" doc:"While the delivery is being sent, the instance of the gateway (the instance at its /info) or the agent that sends it; otherwise null."`
	AcquiredUntil    *time.Time `json:"acquired_until" doc:"While the delivery is being sent, the time at which another instance or agent takes it over; otherwise null."`
	StatusCode       *int       `json:"status_code" doc:"Status code of the last attempt; null if the receiver did not answer."`
	LastError        *string    `json:"last_error" doc:"Error of the last attempt."`
	CreatedAt        time.Time  `json:"created_at" doc:"When the event was published or received."`
	CompletedAt      *time.Time `json:"completed_at" doc:"When the delivery succeeded or became dead; null before that."`
}

// DeliveryDetail is a delivery with its attempts.
type DeliveryDetail struct {
	Delivery
	Attempts []DeliveryAttempt `json:"attempts" doc:"Attempts in chronological order. If there are very many, only the most recent ones."`
}

// DeliveryAttempt is one attempt to send a delivery.
type DeliveryAttempt struct {
	StartedAt       time.Time `json:"started_at"`
	DurationMS      int64     `json:"duration_ms" doc:"Duration of the attempt in milliseconds."`
	StatusCode      *int      `json:"status_code" doc:"Status code of the response; null if the receiver did not answer."`
	Error           *string   `json:"error" doc:"Why the attempt failed; null on success."`
	ErrorClass      *string   `json:"error_class" example:"timeout" doc:"dns, connect, tls, timeout, http_4xx, http_5xx, http (any other status outside 2xx), blocked (the address is not allowed), closed (the connection was closed before the complete response arrived), refused (a broker or Temporal does not take the message, for example because its topic does not exist), auth (a broker or Temporal does not accept the credentials, or they do not suffice), transform (the transform of the subscription failed) or busy (the transform was not run, because the tenant's share of time is used up); null on success."`
	ResponseExcerpt *string   `json:"response_excerpt" doc:"The first bytes of the response body, at most 1 KiB."`
}

func (c caller) viewDelivery(d eventhook.Delivery, names map[eventhook.SubscriptionID]string) Delivery {
	d.LastError = c.forCaller(d.LastError)
	return viewDelivery(d, names)
}

func viewDelivery(d eventhook.Delivery, names map[eventhook.SubscriptionID]string) Delivery {
	v := Delivery{
		ID: d.ID.String(), EventID: d.EventID.String(), EventType: d.EventType, SubscriptionName: optional(names[d.SubscriptionID]),
		Status: string(d.Status), AttemptCount: d.Attempts, RetryCount: d.RetryCount, NextAttemptAt: nextAttempt(d), StatusCode: optionalNumber(d.StatusCode),
		AcquiredBy: optionalID(d.AcquiredBy), AcquiredUntil: optionalUTC(d.AcquiredUntil), LastError: optional(d.LastError), CreatedAt: d.ID.Time(), CompletedAt: optionalUTC(d.CompletedAt),
	}
	if d.IsOfRoute() {
		v.RouteID, v.TargetIndex = new(d.RouteID.String()), new(d.TargetIndex)
	} else {
		v.SubscriptionID = new(d.SubscriptionID.String())
	}
	return v
}

// nextAttempt returns the time of the next attempt. It is nil for a delivery that is
// being sent, whose NextAttemptAt is the end of the lease.
func nextAttempt(d eventhook.Delivery) *time.Time {
	if d.Status == eventhook.DeliveryAcquired {
		return nil
	}
	return optionalUTC(d.NextAttemptAt)
}

// optionalNumber returns nil for 0.
func optionalNumber(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func viewAttempt(a eventhook.Attempt) DeliveryAttempt {
	return DeliveryAttempt{
		StartedAt: utc(a.StartedAt), DurationMS: a.Duration.Milliseconds(), StatusCode: optionalNumber(a.StatusCode), Error: optional(a.Error),
		ErrorClass: optional(string(a.ErrorClass)), ResponseExcerpt: optional(a.Excerpt),
	}
}

// subscriptionNames returns the names of the subscriptions to which deliveries go.
func (s *server) subscriptionNames(ctx context.Context, tenant eventhook.TenantID, list []eventhook.Delivery) (map[eventhook.SubscriptionID]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	seen := map[eventhook.SubscriptionID]bool{}
	var ids []eventhook.SubscriptionID
	for _, d := range list {
		if !seen[d.SubscriptionID] && !d.IsOfRoute() {
			ids = append(ids, d.SubscriptionID)
		}
		seen[d.SubscriptionID] = true
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Deliveries.SubscriptionNames(ctx, tenant, ids)
}

func (s *server) registerDeliveries(api huma.API) {
	op := func(id, method, path, summary string, scope eventhook.Scope) operation {
		return operation{id: id, method: method, path: base + "/deliveries" + path, summary: summary, scope: scope, tag: "deliveries"}
	}
	list := op("list-deliveries", http.MethodGet, "", "List deliveries", eventhook.ScopeRead)
	list.about = "Newest first. With event_type: " + aboutScans
	register(s, api, list, s.listDeliveries)
	register(s, api, op("get-delivery", http.MethodGet, "/{id}", "Get a delivery with its attempts", eventhook.ScopeRead), s.getDelivery)
	s.registerDeliveryRequest(api)
	s.registerDeadGroups(api)
	one := op("retry-delivery", http.MethodPost, "/{id}/retry", "Retry a delivery", eventhook.ScopeManage)
	one.about = "Makes the delivery due at once and resets its retries. A delivery that succeeded is sent again. " +
		"If the delivery belongs to a route, its event returns to the status processing. " +
		"409 if the delivery is already waiting or being sent, if its subscription is deleted or disabled (enable it first), or if its route is deleted or has another target at this index."
	one.class = bulks
	register(s, api, one, s.retryDelivery)
	many := op("retry-deliveries", http.MethodPost, "/retry", "Retry failed and dead deliveries", eventhook.ScopeManage)
	many.skipsShape, many.class, many.about = true, bulks, "Makes the newest deliveries that match the filter due at once and resets their retries. "+
		"Deliveries of disabled subscriptions are skipped. 409 if the filter names a disabled subscription; enable it first."
	register(s, api, many, s.retryDeliveries)
	own := subscriptionOperation("list-subscription-deliveries", http.MethodGet, "/{id}/deliveries", "List the deliveries of a subscription", eventhook.ScopeRead)
	register(s, api, own, s.listSubscriptionDeliveries)
}

// DeliveryPath is the part of a path that identifies a delivery.
type DeliveryPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Delivery id."`
}

// DeliveryQuery filters a list of deliveries.
type DeliveryQuery struct {
	PageQuery
	EventID       string    `query:"event_id" format:"uuid" doc:"Return only deliveries of this event."`
	Status        string    `query:"status" enum:"pending,acquired,success,failed,dead" doc:"Return only deliveries with this status."`
	EventType     string    `query:"event_type" example:"payment.*" doc:"Return only deliveries of events of this type, or of a type that this pattern matches."`
	CreatedAfter  time.Time `query:"created_after" doc:"Return only deliveries created after this time."`
	CreatedBefore time.Time `query:"created_before" doc:"Return only deliveries created before this time."`
}

type deliveriesQuery struct {
	TenantPath
	SubscriptionID string `query:"subscription_id" format:"uuid" doc:"Return only deliveries to this subscription."`
	RouteID        string `query:"route_id" format:"uuid" doc:"Return only deliveries to the targets of this route."`
	DeliveryQuery
}

func (s *server) listDeliveries(ctx context.Context, by caller, in *deliveriesQuery) (*page[Delivery], error) {
	return s.pageOfDeliveries(ctx, by, in.SubscriptionID, in.RouteID, in.DeliveryQuery)
}

type subscriptionDeliveriesQuery struct {
	SubscriptionPath
	DeliveryQuery
}

func (s *server) listSubscriptionDeliveries(ctx context.Context, by caller, in *subscriptionDeliveriesQuery) (*page[Delivery], error) {
	if _, err := s.findSubscription(ctx, by, &in.SubscriptionPath); err != nil {
		return nil, err
	}
	return s.pageOfDeliveries(ctx, by, in.ID, "", in.DeliveryQuery)
}

func (s *server) pageOfDeliveries(ctx context.Context, by caller, subscription, route string, q DeliveryQuery) (*page[Delivery], error) {
	pages := s.pager("deliveries", by.tenant)
	f, err := q.filter(pages, subscription, route)
	if err != nil {
		return nil, err
	}
	f.Scope = by.scope()
	found, err := s.findDeliveries(ctx, by.tenant, f)
	if err != nil {
		return nil, err
	}
	names, err := s.subscriptionNames(ctx, by.tenant, found.Deliveries)
	if err != nil {
		return nil, err
	}
	show := func(d eventhook.Delivery) Delivery { return by.viewDelivery(d, names) }
	return scannedPage(pages, found.Deliveries, found.Next, q.Limit, show,
		func(d eventhook.Delivery) eventhook.DeliveryID { return d.ID }), nil
}

// findDeliveries reads a page of deliveries: through an index, or by a scan if the filter has none.
func (s *server) findDeliveries(ctx context.Context, tenant eventhook.TenantID,
	f eventhook.DeliveryFilter) (found eventhook.DeliveryScan, err error) {
	if f.EventType != "" || f.Scope != "" {
		return s.Deliveries.ScanDeliveries(ctx, tenant, f)
	}
	found.Deliveries, err = s.Deliveries.Deliveries(ctx, tenant, f)
	return found, err
}

// filter returns the filter of a list, with a limit of one more than a page.
func (q DeliveryQuery) filter(pages pager, subscription, route string) (f eventhook.DeliveryFilter, err error) {
	before, err := cursorOf[eventhook.Delivery](pages, q.Cursor)
	if err != nil {
		return f, err
	}
	f = eventhook.DeliveryFilter{Status: eventhook.DeliveryStatus(q.Status),
		CreatedAfter: sinceEpoch(q.CreatedAfter), CreatedBefore: sinceEpoch(q.CreatedBefore), Before: before, Limit: q.Limit + 1}
	if f.EventType, err = typeFilter("query.event_type", q.EventType); err != nil {
		return f, err
	}
	if f.SubscriptionID, err = idFilter[eventhook.Subscription]("query.subscription_id", subscription); err != nil {
		return f, err
	}
	if f.RouteID, err = idFilter[eventhook.Route]("query.route_id", route); err != nil {
		return f, err
	}
	f.EventID, err = idFilter[eventhook.Event]("query.event_id", q.EventID)
	return f, err
}

// idFilter parses an id that filters a list; an empty text is the zero id, which does
// not filter. The text of the zero id is a fault for that reason.
func idFilter[K any](at, text string) (id eventhook.ID[K], err error) {
	if text == "" {
		return id, nil
	}
	if id, err = eventhook.ParseID[K](text); err == nil && id.IsZero() {
		err = invalid(at, "must not be the zero id")
	}
	return id, err
}

type deliveryAnswer struct{ Body DeliveryDetail }

func (s *server) getDelivery(ctx context.Context, by caller, in *DeliveryPath) (*deliveryAnswer, error) {
	d, attempts, err := s.findDelivery(ctx, by, in)
	if err != nil {
		return nil, err
	}
	names, err := s.subscriptionNames(ctx, by.tenant, []eventhook.Delivery{d})
	if err != nil {
		return nil, err
	}
	out := DeliveryDetail{by.viewDelivery(d, names), []DeliveryAttempt{}}
	for _, a := range attempts {
		a.Error = by.forCaller(a.Error)
		out.Attempts = append(out.Attempts, viewAttempt(a))
	}
	return &deliveryAnswer{out}, nil
}
