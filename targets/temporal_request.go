package targets

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// Temporal is a compiled workflow or promise target of the engine temporal. It composes the requests of
// deliveries to a cluster of Temporal. It is immutable and safe for concurrent use.
type Temporal struct {
	EngineSettings
	key    keyPath
	keyAt  string         // the path of key, for errors
	place  string         // the route's id and the target's index in it
	start  *WorkflowStart // nil: a signal
	signal string
	value  settlePromise // the value of a signal
}

// WorkflowStart says which workflow of Temporal is started. A timeout of 0 means none.
type WorkflowStart struct {
	Type, Queue                  string
	ExecutionTimeout, RunTimeout time.Duration
}

// TemporalRequest starts a workflow of Temporal or sends a signal to one. It is the same at every
// attempt.
type TemporalRequest struct {
	ID         string // of the request: that of the delivery. Temporal ignores a repetition
	WorkflowID string
	Start      *WorkflowStart // nil: a signal
	Signal     string
	Argument   json.RawMessage // of the workflow or the signal
	Origin     TemporalOrigin
}

// TemporalOrigin says where a request comes from. Workers can read it.
type TemporalOrigin struct {
	EventID     string `json:"event_id"`
	EventType   string `json:"event_type"`
	Source      string `json:"source,omitempty"`
	TenantID    string `json:"tenant_id"`
	DeliveryID  string `json:"delivery_id,omitempty"`
	RequestID   string `json:"request_id,omitempty"`
	Traceparent string `json:"traceparent"`
}

// Effect returns a request. Its body is stored only if a transform produced it and the request has it;
// otherwise the argument is composed from the event at each attempt.
func (t *Temporal) Effect(e *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	if _, err := t.workflowID(e, v); err != nil {
		return effects.Effect{}, err
	}
	q := &effects.Request{}
	if t.start != nil || t.value.value.IsZero() {
		q.Body = v.Transformed()
	}
	q.Preview = func() json.RawMessage { return t.preview(e, q.Body) }
	return effects.Effect{Request: q}, nil
}

// workflowID returns the id of the workflow: the idempotency key. A workflow whose event has none gets
// an id of its own, since losing it is worse than repeating it.
func (t *Temporal) workflowID(e *eventhook.Event, v *payload.View) (string, error) {
	if t.start == nil {
		if key := t.key.keyOf(v); key != "" {
			return key, nil
		}
		return "", fmt.Errorf("the event has no string or number at %s, the path to the id of the workflow", t.keyAt)
	}
	if key := t.key.ownKeyOf(e, v); key != "" {
		return key, nil
	}
	return e.ID.String() + "/" + t.place, nil
}

// Compose returns the request of a delivery with its event. The error says what the event lacks.
func (t *Temporal) Compose(d *eventhook.Delivery) (TemporalRequest, error) {
	q, err := t.compose(d.Event, d.Body)
	q.ID, q.Origin.DeliveryID = d.ID.String(), d.ID.String()
	return q, err
}

func (t *Temporal) compose(e *eventhook.Event, stored []byte) (TemporalRequest, error) {
	v := payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body).WithTransformed(stored)
	q := TemporalRequest{Start: t.start, Signal: t.signal, Origin: TemporalOrigin{
		EventID: e.ID.String(), EventType: e.EventType, Source: e.SourceSlug, TenantID: e.TenantID.String(), RequestID: e.RequestID,
		Traceparent: eventhook.Traceparent(e.Trace(), e.Span(), e.TraceFlags())}}
	q.Argument = t.argument(v)
	var err error
	q.WorkflowID, err = t.workflowID(e, v)
	return q, err
}

// argument returns the input of a workflow, the value of a signal, or {"error": …} for a signal of a
// rejected promise.
func (t *Temporal) argument(v *payload.View) json.RawMessage {
	if t.start != nil {
		return v.Render()
	}
	failure, isRejected := t.value.failureOf(v)
	if !isRejected {
		return t.value.valueOf(v)
	}
	raw, err := encode(map[string]json.RawMessage{"error": failure})
	if err != nil {
		return json.RawMessage(`{"error":null}`) // cannot happen: failure is JSON
	}
	return raw
}

// temporalPreview is the preview of a request to Temporal.
type temporalPreview struct {
	Server       string          `json:"server"`
	Namespace    string          `json:"namespace"`
	WorkflowID   string          `json:"workflow_id"`
	WorkflowType string          `json:"workflow_type,omitempty"`
	TaskQueue    string          `json:"task_queue,omitempty"`
	Signal       string          `json:"signal,omitempty"`
	Argument     json.RawMessage `json:"argument,omitempty"`
	ArgumentSize int             `json:"argument_size"`
}

// preview encodes a request without credentials.
func (t *Temporal) preview(e *eventhook.Event, stored []byte) json.RawMessage {
	q, _ := t.compose(e, stored) // Effect has returned the error
	p := temporalPreview{Server: t.Address, Namespace: t.Namespace, WorkflowID: q.WorkflowID, Signal: q.Signal, ArgumentSize: len(q.Argument)}
	if q.Start != nil {
		p.WorkflowType, p.TaskQueue = q.Start.Type, q.Start.Queue
	}
	if len(q.Argument) <= maxPreviewBody {
		p.Argument = q.Argument
	}
	raw, err := encode(p)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
