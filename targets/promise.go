package targets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// promise settles the promise whose key is in the event: with the value at
// value_path, else the whole body or what the route's transform made of it; or
// rejects it with what is at error_path.
type promise struct {
	keyAt   string
	key     keyPath
	value   payload.Path
	failure payload.Path
	resolve bool
	hold    bool
}

func newPromise(t eventhook.Target) (Effector, error) {
	p := promise{keyAt: t.IdempotencyKeyPath, resolve: t.Resolve == nil || *t.Resolve, hold: t.OnMissing != eventhook.OnMissingFail}
	var err error
	if p.key, err = newKeyPath(t); err != nil {
		return nil, err
	}
	if p.value, err = optionalPath(t.ValuePath); err != nil {
		return nil, err
	}
	p.failure, err = optionalPath(t.ErrorPath)
	return p, err
}

func (p promise) Effect(_ *eventhook.Event, v *payload.View, _ time.Time) (eventhook.Effect, error) {
	outcome := &eventhook.PromiseOutcome{Key: p.key.key(v), Hold: p.hold}
	if outcome.Key == "" {
		return eventhook.Effect{}, fmt.Errorf("the event has no text or number at %s, which names the promise", p.keyAt)
	}
	if message, rejected := p.rejection(v); rejected {
		outcome.Status, outcome.Error = eventhook.PromiseRejected, message
		return eventhook.Effect{Promise: outcome}, nil
	}
	outcome.Status, outcome.Value = eventhook.PromiseResolved, p.valueOf(v)
	return eventhook.Effect{Promise: outcome}, nil
}

const bareRejection = "rejected by the webhook" // when it says nothing more

// rejection is why the event rejects the promise, if it does: something is at
// error_path, or the target never resolves.
func (p promise) rejection(v *payload.View) (string, bool) {
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

func (p promise) valueOf(v *payload.View) json.RawMessage {
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
	return eventhook.Cut(eventhook.Text(strings.TrimSpace(s)), most)
}
