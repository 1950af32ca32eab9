package targets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// promise settles the promise whose key is in the event. It resolves the promise with the value at
// value_path, by default the body or the output of the route's transform, or rejects it with the
// value at error_path. For the engine temporal, it sends the outcome as a signal to the workflow whose
// id is the key.
type promise struct {
	IdempotencyKeySettings
	Resolve    *bool  `json:"resolve,omitempty" doc:"Whether to resolve the promise (true, the default) or to reject it (false)."`
	ValuePath  string `json:"value_path,omitempty" doc:"The path in the event to the value of the promise. The default is the whole body."`
	ErrorPath  string `json:"error_path,omitempty" doc:"A path in the event. If the event has a value there, the promise is rejected with that value."`
	OnMissing  string `json:"on_missing,omitempty" enum:"hold,fail" doc:"What to do if the promise does not exist yet: hold, the default, keeps the outcome until the promise is created; fail fails the action."`
	SignalName string `json:"signal_name,omitempty" maxLength:"255" example:"payment" doc:"The name of the signal. Required by the engine temporal."`
	EngineSettings
}

// Values of on_missing: the behavior if the promise does not exist yet.
const (
	onMissingHold = "hold" // keep the outcome until the promise is created
	onMissingFail = "fail" // fail the action, and retry it with the event
)

func (s *promise) Check() (f eventhook.Faults) {
	if s.IdempotencyKeyPath == "" {
		f.Add("idempotency_key_path", "is required: it names the promise")
	}
	f = append(f, s.IdempotencyKeySettings.Check()...)
	checkPath(&f, "value_path", s.ValuePath)
	checkPath(&f, "error_path", s.ErrorPath)
	checkOneOf(&f, "on_missing", s.OnMissing, onMissingHold, onMissingFail)
	f = append(f, s.EngineSettings.Check()...)
	if !s.usesTemporal() {
		checkUnfit(&f, "needs the engine temporal", setting{"signal_name", s.SignalName != ""})
		return f
	}
	checkUnfit(&f, "is not a setting of the engine temporal", setting{"on_missing", s.OnMissing != ""})
	if s.SignalName == "" || len(s.SignalName) > maxSignal || !isText(s.SignalName) {
		f.Add("signal_name", "is required: 1 to %d bytes of text", maxSignal)
	}
	return f
}

const maxSignal = 255

func (s *promise) Compile(d Deps) (Effector, error) {
	p, err := s.compile()
	if err != nil || !s.usesTemporal() {
		return p, err
	}
	t, err := s.EngineSettings.compile(d, s.IdempotencyKeySettings)
	if err != nil {
		return nil, err
	}
	t.signal, t.value = s.SignalName, p
	return t, nil
}

func (s *promise) compile() (settlePromise, error) {
	p := settlePromise{keyAt: s.IdempotencyKeyPath, resolve: s.Resolve == nil || *s.Resolve, hold: s.OnMissing != onMissingFail}
	var err error
	if p.key, err = s.IdempotencyKeySettings.compile(); err != nil {
		return p, err
	}
	if p.value, err = optionalPath(s.ValuePath); err != nil {
		return p, err
	}
	p.failure, err = optionalPath(s.ErrorPath)
	return p, err
}

// settlePromise is a compiled promise target.
type settlePromise struct {
	keyAt   string // the path of key, for errors
	key     keyPath
	value   payload.Path
	failure payload.Path // zero if no path is set
	resolve bool
	hold    bool
}

func (p settlePromise) Effect(_ *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	outcome := &effects.PromiseOutcome{Key: p.key.keyOf(v), Hold: p.hold}
	if outcome.Key == "" {
		return effects.Effect{}, fmt.Errorf("the event has no string or number at %s, the path to the key of the promise", p.keyAt)
	}
	if message, rejected := p.rejection(v); rejected {
		outcome.Status, outcome.Error = eventhook.PromiseRejected, message
		return effects.Effect{Promise: outcome}, nil
	}
	outcome.Status, outcome.Value = eventhook.PromiseResolved, p.valueOf(v)
	return effects.Effect{Promise: outcome}, nil
}

const defaultRejection = "rejected by the webhook" // the reason if the event does not state one

// rejection reports whether the event rejects the promise, and returns the reason.
func (p settlePromise) rejection(v *payload.View) (string, bool) {
	raw, isRejected := p.failureOf(v)
	if !isRejected {
		return "", false
	}
	return cmp.Or(asText(raw), defaultRejection), true
}

// failureOf reports whether the event rejects the promise, and returns the reason as JSON. It does so if
// the event has a value at error_path other than null, or if resolve is false.
func (p settlePromise) failureOf(v *payload.View) (json.RawMessage, bool) {
	if !p.failure.IsZero() {
		if raw, ok := v.Raw(p.failure); ok && string(raw) != "null" {
			return raw, true
		}
	}
	return json.RawMessage(`"` + defaultRejection + `"`), !p.resolve
}

func (p settlePromise) valueOf(v *payload.View) json.RawMessage {
	if p.value.IsZero() {
		return v.Render()
	}
	raw, ok := v.Raw(p.value)
	if !ok {
		return json.RawMessage("null")
	}
	return raw
}

// asText returns the text of a JSON string, or other JSON as it is written.
func asText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	const maxError = 4096
	return eventhook.Truncate(eventhook.SanitizeText(strings.TrimSpace(s)), maxError)
}
