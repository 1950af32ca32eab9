package send

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/eventhook/eventhook"
)

// Transformer runs the transforms of subscriptions.
type Transformer interface {
	// Transform runs a transform over the JSON of an event and returns its result as JSON,
	// the same for the same event. The error is a *TransformError, or the error of ctx.
	Transform(ctx context.Context, tenant eventhook.TenantID, t *eventhook.Transform, event []byte) (json.RawMessage, error)
}

// TransformError is why a transform has no result. Its text is for users.
type TransformError struct {
	Reason string
	// IsBusy says that the transform was not run, because the tenant's share of time is
	// used up or the gateway is overloaded.
	IsBusy bool
}

func (e *TransformError) Error() string { return e.Reason }

// message is the body of a delivery, with its media type. It is the same at each attempt.
type message struct {
	body      []byte
	mediaType string
}

const mediaJSON = "application/json"

// message composes the body of a delivery according to the transform or the format of the
// subscription. Its errors are those of Transformer.
func (r *Receiver) message(ctx context.Context, e *eventhook.Event) (message, error) {
	if r.sub.Transform != nil {
		return r.transformed(ctx, e)
	}
	switch r.sub.Format {
	case eventhook.FormatCloudEvents:
		return message{cloudEvent(e), "application/cloudevents+json"}, nil
	case eventhook.FormatSlack:
		return message{slackMessage(e), mediaJSON}, nil
	case eventhook.FormatTeams:
		return message{teamsMessage(e), mediaJSON}, nil
	case eventhook.FormatPagerDuty:
		return message{pagerDutyEvent(e, r.sub.AuthHeader), mediaJSON}, nil
	}
	return message{Body(e), mediaJSON}, nil
}

// transformed returns the result of the transform: a string as text, any other value as
// JSON.
func (r *Receiver) transformed(ctx context.Context, e *eventhook.Event) (message, error) {
	result, err := r.sender.deps.Transformer.Transform(ctx, r.sub.TenantID, r.sub.Transform, Body(e))
	if err != nil {
		return message{}, err
	}
	var text string
	switch {
	case string(result) == "null":
		return message{}, &TransformError{Reason: "transform: its result is null, so there is no body to send"}
	case result[0] == '"' && json.Unmarshal(result, &text) == nil:
		return message{[]byte(text), "text/plain; charset=utf-8"}, nil
	}
	return message{result, mediaJSON}, nil
}

// unsent returns the attempt for which the body could not be composed.
func unsent(a eventhook.Attempt, err error) eventhook.Attempt {
	a.ErrorClass, a.Error = eventhook.ErrorTransform, err.Error()
	if of, ok := errors.AsType[*TransformError](err); !ok || of.IsBusy {
		a.ErrorClass = eventhook.ErrorBusy
	}
	return a
}
