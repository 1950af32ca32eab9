package targets

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// IdempotencyKeySettings are the settings of what is made once for each key.
type IdempotencyKeySettings struct {
	IdempotencyKeyPath   string `json:"idempotency_key_path,omitempty" doc:"Where in the event the key is under which it is made, or settled, once. A promise needs one."`
	IdempotencyKeyPrefix string `json:"idempotency_key_prefix,omitempty" maxLength:"100" doc:"Stands before that key."`
}

// Check tells what is wrong with the path and the prefix.
func (k IdempotencyKeySettings) Check() (f eventhook.Faults) {
	const most = 100
	checkPath(&f, "idempotency_key_path", k.IdempotencyKeyPath)
	if p := k.IdempotencyKeyPrefix; p != "" && (k.IdempotencyKeyPath == "" || !isText(p) || len(p) > most) {
		f.Add("idempotency_key_prefix", "needs idempotency_key_path, and at most %d bytes of text", most)
	}
	return f
}

// compile makes ready to find keys.
func (k IdempotencyKeySettings) compile() (keyPath, error) {
	path, err := optionalPath(k.IdempotencyKeyPath)
	return keyPath{path, k.IdempotencyKeyPrefix}, err
}

// keyPath finds a target's idempotency key in an event.
type keyPath struct {
	path   payload.Path
	prefix string
}

// key is "" when no path is set or nothing is there.
func (k keyPath) key(v *payload.View) string {
	if k.path.IsZero() {
		return ""
	}
	text, ok := v.Text(k.path)
	if !ok {
		return ""
	}
	return eventhook.NormalizeKey(k.prefix + text)
}
