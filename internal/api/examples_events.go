package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
)

// exampleDelivery is the delivery of a payment to the subscription billing, whose
// first attempt timed out.
func exampleDelivery() Delivery {
	return Delivery{ID: exampleDeliveryID, EventID: examplePublishedID, EventType: "payment.succeeded", SubscriptionID: new(exampleSubscriptionID),
		SubscriptionName: new("billing"), Status: "success", AttemptCount: 2, RetryCount: 1, StatusCode: new(http.StatusOK),
		CreatedAt: exampleTime(11), CompletedAt: new(exampleTime(13))}
}

func exampleAttempt() DeliveryAttempt {
	return DeliveryAttempt{StartedAt: exampleTime(13), DurationMS: 48, StatusCode: new(http.StatusOK), ResponseExcerpt: new("ok")}
}

// exampleEvent is a push that GitHub has sent.
func exampleEvent() EventView {
	return EventView{ID: exampleEventID, Source: new("github"), Origin: "source", EventType: "push", Status: "delivered", IdempotencyKey: new("72d3162e"),
		ContentType: "application/json", BodySize: 43, SourceIP: new("203.0.113.7"), TraceID: exampleTraceID, ReceivedAt: exampleTime(10), ProcessedAt: new(exampleTime(11))}
}

const examplePush = `{"ref":"refs/heads/main","after":"9fceb02"}`

func eventExamples() map[string]example {
	detail := eventDetail{EventView: exampleEvent(), Method: new("POST"), Verification: &verificationView{"sha256", 1, 1}, Headers: map[string]string{"Content-Type": "application/json", "X-Github-Event": "push"},
		Body: json.RawMessage(examplePush), ActionsCount: 1, Deliveries: []Delivery{}, Outcome: "succeeded", Failures: []failureView{},
		Actions: []actionView{{ID: exampleActionID, RouteID: exampleRouteID, RouteName: "pushes", TargetType: "task", Status: "success", Attempts: 1,
			TaskExecutionID: new(exampleExecutionID), EffectStatus: new("completed"), StartedAt: exampleTime(10),
			CompletedAt: new(exampleTime(11))}}}
	return map[string]example{
		"list-events":       {query: "status=failed&event_type=push", response: examplePage(exampleEvent())},
		"get-event":         {response: detail},
		"get-event-payload": {response: examplePush},
		"reprocess-events": {request: `{"filter": {"status": ["failed", "dead"], "source": "github"}, "limit": 100, "expected_count": 1}`,
			response: EventsReprocessed{ReprocessedCount: 1, EventIDs: []string{exampleEventID}}},
		"search-events": {request: `{"filter": {"body.ref": "refs/heads/main"}, "received_after": "2026-03-01T00:00:00Z", "limit": 50}`,
			response: EventsFound{Items: []EventView{exampleEvent()}, Scanned: 1200, ScannedUntil: new(exampleTime(0))}},
		"test-event":    {response: eventTestView{exampleExplanation()}},
		"stream-events": {query: "source=github", response: string(appendEvent(nil, exampleStoredEvent()))},
		"publish-event": {request: `{
  "event_type": "payment.succeeded",
  "data": {"payment_id": "pay_81", "amount": 4200, "currency": "eur"},
  "idempotency_key": "pay_81",
  "scope": "customer-42"
}`, response: EventPublished{EventID: examplePublishedID, Deliveries: 1}},
	}
}

// examplesOfBatches are the further examples of publish-event: for each content
// type of a request, and for the response to a batch.
func examplesOfBatches() (requests map[string]string, response any) {
	const cloudEvent = `{"specversion": "1.0", "id": "pay_81", "source": "/billing", "type": "payment.succeeded", "data": {"amount": 4200}}`
	return map[string]string{
		"application/json": `{"events": [{"event_type": "payment.succeeded", "data": {"amount": 4200}}, {"event_type": "refund.created", "data": {"amount": 100}}]}`,
		cloudEventType:     cloudEvent,
		cloudEventsType:    "[" + cloudEvent + "]",
	}, EventsPublished{Items: []EventOutcome{{EventID: examplePublishedID, Deliveries: new(1)}, {EventID: exampleEventID, Deliveries: new(0)}}}
}

func deliveryExamples() map[string]example {
	timedOut := DeliveryAttempt{StartedAt: exampleTime(11), DurationMS: 1000, Error: new("no response within 1s"), ErrorClass: new("timeout")}
	waiting := exampleDelivery()
	waiting.Status, waiting.RetryCount, waiting.CompletedAt, waiting.NextAttemptAt = "pending", 0, nil, new(exampleTime(40))
	return map[string]example{
		"list-deliveries":      {query: "status=dead&subscription_id=" + exampleSubscriptionID, response: examplePage(exampleDelivery())},
		"get-delivery-request": {response: deliveryRequest{"POST", map[string]string{"Content-Type": "application/json", "Webhook-Id": exampleEventID}, []byte(`{"event_type":"push"}`), 21}},
		"get-delivery":         {response: DeliveryDetail{exampleDelivery(), []DeliveryAttempt{timedOut, exampleAttempt()}}},
		"retry-delivery":       {response: DeliveryDetail{waiting, []DeliveryAttempt{timedOut, exampleAttempt()}}},
		"retry-deliveries":     {request: `{"filter": {"subscription_id": "` + exampleSubscriptionID + `", "status": ["dead"]}, "limit": 100, "expected_count": 1}`, response: DeliveriesRetried{1, []string{exampleDeliveryID}}},
	}
}

func workExamples() map[string]example {
	input := json.RawMessage(examplePush)
	execution := func(status string, change func(*executionView)) executionView {
		x := executionView{ID: exampleExecutionID, Type: "task", Kind: "build", Queue: "ci", Status: status, EventID: new(exampleEventID),
			IdempotencyKey: new("72d3162e"), Attempt: 1, MaxAttempts: 4, TraceID: exampleTraceID, CreatedAt: exampleTime(11)}
		change(&x)
		return x
	}
	ended := func(x *executionView) { x.CompletedAt = new(exampleTime(30)) }
	suspended := execution("suspended", func(x *executionView) {
		x.Type, x.Kind, x.Queue, x.State = "workflow", "process-payment", "payments", json.RawMessage(`{"step":"awaiting_payment"}`)
		x.DueAt = new(exampleTime(0).Add(time.Hour))
	})
	var claimed claimAnswer
	claimed.Body.Items = []workItem{{ID: exampleExecutionID, Type: "task", Kind: "build", Queue: "ci", EventID: new(exampleEventID), IdempotencyKey: new("72d3162e"),
		Input: input, Attempt: 1, TraceID: exampleTraceID, LeaseToken: 1, LeaseUntil: exampleTime(41)}}
	var extended heartbeatAnswer
	extended.Body.LeaseUntil = exampleTime(51)
	var completed completeManyAnswer
	completed.Body.Items = []completion{{ID: exampleExecutionID, Status: "completed"}}
	const output = `"lease_token": 1, "output": {"image": "acme/shop:9fceb02"}}`
	return map[string]example{
		"list-work": {query: "status=dead&queue=ci", response: examplePage(execution("dead", func(x *executionView) { x.Attempt, x.Error = 4, new("exit status 2"); ended(x) }))},
		"start-work": {request: `{"type": "task", "kind": "build", "queue": "ci", "input": {"ref": "refs/heads/main"}, "idempotency_key": "nightly-2026-03-10", "priority": 10}`,
			response: execution("pending", func(x *executionView) {
				x.EventID, x.IdempotencyKey, x.Attempt, x.Priority, x.DueAt = nil, new("nightly-2026-03-10"), 0, 10, new(exampleTime(11))
			})},
		"claim-work":         {request: `{"queue": "ci", "kinds": ["build"], "max": 10, "wait_seconds": 20, "lease_seconds": 30}`, response: claimed.Body},
		"complete-many-work": {request: `{"items": [{"id": "` + exampleExecutionID + `", ` + output + `]}`, response: completed.Body},
		"get-work":           {response: execution("running", func(x *executionView) { x.Input = input })},
		"cancel-work":        {response: execution("cancelled", ended)},
		"complete-work":      {request: `{` + output, response: execution("completed", func(x *executionView) { x.Output = json.RawMessage(`{"image":"acme/shop:9fceb02"}`); ended(x) })},
		"fail-work": {request: `{"lease_token": 1, "error": "registry.example: connection refused", "retryable": true}`,
			response: execution("failed", func(x *executionView) {
				x.Error, x.DueAt = new("registry.example: connection refused"), new(exampleTime(40))
			})},
		"heartbeat-work": {request: `{"lease_token": 1, "lease_seconds": 30}`, response: extended.Body},
		"retry-work":     {response: execution("pending", func(x *executionView) { x.Attempt, x.DueAt = 0, new(exampleTime(40)) })},
		"suspend-work": {request: `{
  "lease_token": 1,
  "state": {"step": "awaiting_payment"},
  "await": ["` + examplePromiseID + `"],
  "timeout_seconds": 3600
}`, response: suspended},
	}
}

func promiseExamples() map[string]example {
	pending := promiseView{ID: examplePromiseID, IdempotencyKey: "stripe:pi_3PX", Status: "pending", Value: json.RawMessage("null"),
		WorkflowExecutionID: new(exampleExecutionID), ExpiresAt: new(exampleTime(0).Add(time.Hour)), CreatedAt: exampleTime(10)}
	resolved, rejected := pending, pending
	resolved.Status, resolved.Value, resolved.SettledAt = "resolved", json.RawMessage(`{"amount":4200}`), new(exampleTime(20))
	rejected.Status, rejected.Error, rejected.SettledAt = "rejected", new("card declined"), new(exampleTime(20))
	return map[string]example{
		"list-promises":   {query: "idempotency_key=stripe:pi_3PX", response: lastExamplePage(resolved)},
		"create-promise":  {request: `{"idempotency_key": "stripe:pi_3PX", "workflow_execution_id": "` + exampleExecutionID + `", "timeout_seconds": 3600}`, response: pending},
		"get-promise":     {query: "wait_seconds=20", response: resolved},
		"resolve-promise": {request: `{"value": {"amount": 4200}}`, response: resolved},
		"reject-promise":  {request: `{"error": "card declined"}`, response: rejected},
	}
}

// exampleStoredEvent is exampleEvent as it is stored.
func exampleStoredEvent() eventhook.Event {
	id, _ := eventhook.ParseID[eventhook.Event](exampleEventID) // a constant
	return eventhook.Event{ID: id, SourceSlug: "github", Origin: eventhook.OriginSource, EventType: "push", Status: eventhook.EventDelivered,
		IdempotencyKey: "72d3162e", ContentType: "application/json", BodySize: len(examplePush), SourceIP: "203.0.113.7", TraceID: exampleTraceID,
		ProcessedAt: new(exampleTime(11))}
}
