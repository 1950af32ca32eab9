package eventhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The target types that make executions and settle promises. Package targets
// has them all.
const (
	TargetWorkflow = "workflow"
	TargetTask     = "task"
	TargetPromise  = "promise"
)

// ErrUnknownTarget answers who compiles a target whose type this version does
// not know. A later one may, and while a gateway is upgraded both run.
var ErrUnknownTarget = errors.New("unknown target type")

// Target is one thing a route does. What its settings mean depends on its type,
// and only package targets knows. Printed, logged or marshalled it shows no
// secret.
type Target struct {
	Type string
	// Settings is an object of what is public. For a secret it says Redacted.
	Settings json.RawMessage
	// Secrets is an object of the secrets that Settings has Redacted for; zero
	// without any, or when they cannot be opened.
	Secrets Secret

	// RouteID and Index say which of whose targets it is while it is compiled:
	// with an event's id they name its action. They are not stored with it.
	RouteID RouteID
	Index   int
}

// MarshalJSON writes a target flat, as people do, without its secrets: its type
// first, then its settings by their names. So equal targets are written alike.
func (t Target) MarshalJSON() ([]byte, error) {
	settings, err := inOrder(t.Settings)
	if err != nil {
		return nil, fmt.Errorf("target settings: %w", err)
	}
	head, err := json.Marshal(map[string]string{"type": t.Type})
	if err != nil || len(settings) == len("{}") {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), settings[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON has written. What people write package
// targets reads: it tells what is wrong with it, and finds the secrets in it.
func (t *Target) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	*t = Target{}
	if err := json.Unmarshal(members["type"], &t.Type); err != nil {
		return fmt.Errorf("target type: %w", err)
	}
	delete(members, "type")
	rest, err := json.Marshal(members)
	if err != nil {
		return err
	}
	t.Settings, err = inOrder(rest)
	return err
}

// inOrder writes an object with all members in it by their names, since
// PostgreSQL does not keep their order; nothing is an empty one.
func inOrder(raw json.RawMessage) (json.RawMessage, error) {
	object := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&object); err != nil && len(raw) > 0 {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // URLs hold ampersands
	err := e.Encode(object)
	return bytes.TrimSpace(b.Bytes()), err
}
