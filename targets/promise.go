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

// promise settles the promise whose key is in the event: with the value at
// value_path, else the whole body or what the route's transform made of it; or
// rejects it with what is at error_path.
type promise struct {
	IdempotencyKeySettings
	Resolve   *bool  `json:"resolve,omitempty" doc:"Resolve it, which is the default, or reject it."`
	ValuePath string `json:"value_path,omitempty" doc:"What in the event is its value; the body by default."`
	ErrorPath string `json:"error_path,omitempty" doc:"Where this exists, it is rejected with what is there."`
	OnMissing string `json:"on_missing,omitempty" enum:"hold,fail" doc:"When nobody has made it yet: keep the outcome, which is the default, or fail."`
}

// What a promise target does when nobody has made its promise yet.
const (
	onMissingHold = "hold" // keep the outcome until the promise is made
	onMissingFail = "fail" // fail the action, and retry with the event
)

func (s *promise) Check() (f eventhook.Faults) {
	if s.IdempotencyKeyPath == "" {
		f.Add("idempotency_key_path", "is required: it names the promise")
	}
	f = append(f, s.IdempotencyKeySettings.Check()...)
	checkPath(&f, "value_path", s.ValuePath)
	checkPath(&f, "error_path", s.ErrorPath)
	checkOneOf(&f, "on_missing", s.OnMissing, onMissingHold, onMissingFail)
	return f
}

func (s *promise) Compile(Deps) (Effector, error) {
	p := settler{keyAt: s.IdempotencyKeyPath, resolve: s.Resolve == nil || *s.Resolve, hold: s.OnMissing != onMissingFail}
	var err error
	if p.key, err = s.IdempotencyKeySettings.compile(); err != nil {
		return nil, err
	}
	if p.value, err = optionalPath(s.ValuePath); err != nil {
		return nil, err
	}
	p.failure, err = optionalPath(s.ErrorPath)
	return p, err
}

// settler is a promise target, compiled.
type settler struct {
	keyAt   string
	key     keyPath
	value   payload.Path
	failure payload.Path
	resolve bool
	hold    bool
}

func (p settler) Effect(_ *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	outcome := &effects.PromiseOutcome{Key: p.key.key(v), Hold: p.hold}
	if outcome.Key == "" {
		return effects.Effect{}, fmt.Errorf("the event has no text or number at %s, which names the promise", p.keyAt)
	}
	if message, rejected := p.rejection(v); rejected {
		outcome.Status, outcome.Error = eventhook.PromiseRejected, message
		return effects.Effect{Promise: outcome}, nil
	}
	outcome.Status, outcome.Value = eventhook.PromiseResolved, p.valueOf(v)
	return effects.Effect{Promise: outcome}, nil
}

const bareRejection = "rejected by the webhook" // when it says nothing more

// rejection is why the event rejects the promise, if it does: something is at
// error_path, or the target never resolves.
func (p settler) rejection(v *payload.View) (string, bool) {
	if !p.failure.IsZero() {
		if raw, ok := v.Raw(p.failure); ok && string(raw) != "null" {
			return cmp.Or(asText(raw), bareRejection), true
		}
	}
	if !p.resolve {
		return bareRejection, true
	}
	return "", false
}

func (p settler) valueOf(v *payload.View) json.RawMessage {
	if p.value.IsZero() {
		return v.Render()
	}
	raw, ok := v.Raw(p.value)
	if !ok {
		return json.RawMessage("null")
	}
	return raw
}

// asText is a JSON string's text, or other JSON as it is written.
func asText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	const most = 4096
	return eventhook.Truncate(eventhook.SanitizeText(strings.TrimSpace(s)), most)
}
