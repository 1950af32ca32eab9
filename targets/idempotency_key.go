package targets

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// IdempotencyKeySettings locate the idempotency key of an effect in the event.
type IdempotencyKeySettings struct {
	IdempotencyKeyPath   string `json:"idempotency_key_path,omitempty" doc:"The path in the event to the idempotency key. A second effect with the same key is skipped. Required for a promise, where it names the promise."`
	IdempotencyKeyPrefix string `json:"idempotency_key_prefix,omitempty" maxLength:"100" doc:"A text that is prepended to the key."`
}

// Check reports every fault by its member.
func (k IdempotencyKeySettings) Check() (f eventhook.Faults) {
	const maxPrefix = 100
	checkPath(&f, "idempotency_key_path", k.IdempotencyKeyPath)
	if p := k.IdempotencyKeyPrefix; p != "" && (k.IdempotencyKeyPath == "" || !isText(p) || len(p) > maxPrefix) {
		f.Add("idempotency_key_prefix", "must be at most %d bytes of text, and needs idempotency_key_path", maxPrefix)
	}
	return f
}

func (k IdempotencyKeySettings) compile() (keyPath, error) {
	path, err := optionalPath(k.IdempotencyKeyPath)
	return keyPath{path, k.IdempotencyKeyPrefix}, err
}

// keyPath reads a target's idempotency key from an event.
type keyPath struct {
	path   payload.Path
	prefix string
}

// ownKeyOf returns the idempotency key of an effect of e: that of keyOf, with the id of e at
// its end if e processes the payload of an earlier event again. So the effect is created
// again, and is still unique for e.
func (k keyPath) ownKeyOf(e *eventhook.Event, v *payload.View) string {
	key := k.keyOf(v)
	if key == "" || e.ReprocessedFrom.IsZero() {
		return key
	}
	return eventhook.NormalizeKey(key + ":" + e.ID.String())
}

// keyOf returns the idempotency key of an event, "" if no path is set or the path has no value.
func (k keyPath) keyOf(v *payload.View) string {
	if k.path.IsZero() {
		return ""
	}
	text, ok := v.Text(k.path)
	if !ok {
		return ""
	}
	return eventhook.NormalizeKey(k.prefix + text)
}
