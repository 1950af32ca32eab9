package eventhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The types of targets that other packages than targets know. Package targets defines all
// types.
const (
	TargetWorkflow = "workflow"
	TargetTask     = "task"
	TargetPromise  = "promise"
	TargetPublish  = "publish"
	TargetHTTP     = "http"
)

// ErrUnknownTarget means that this version does not know the type of a target.
// During an upgrade, a newer instance may have stored it.
var ErrUnknownTarget = errors.New("unknown target type")

// Target is one effect that a route has on each event. The type determines the
// meaning of the settings; only package targets interprets them. A Target prints,
// logs and marshals without secrets.
type Target struct {
	Type string
	// Settings is a JSON object of the public settings, with Redacted in place of
	// each secret.
	Settings json.RawMessage
	// Secrets is a JSON object of the secrets that are Redacted in Settings. It is
	// empty if there are none or if they cannot be opened.
	Secrets Secret

	// RouteID and Index identify the target while it is compiled: together with an
	// event's id they determine the id of the action. They are not stored with the
	// target.
	RouteID RouteID
	Index   int
}

// MarshalJSON writes the type and the public settings as one flat object: the type
// first, then the settings sorted by name, so that equal targets have equal JSON.
func (t Target) MarshalJSON() ([]byte, error) {
	settings, err := sortMembers(t.Settings)
	if err != nil {
		return nil, fmt.Errorf("target settings: %w", err)
	}
	head, err := json.Marshal(map[string]string{"type": t.Type})
	if err != nil || len(settings) == len("{}") {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), settings[1:]...), nil
}

// UnmarshalJSON reads the output of MarshalJSON. Use targets.Read for the input of
// users: it reports faults and separates the secrets.
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
	t.Settings, err = sortMembers(rest)
	return err
}

// sortMembers returns a JSON object with all members sorted by name, because PostgreSQL
// does not keep their order. Empty input becomes an empty object.
func sortMembers(raw json.RawMessage) (json.RawMessage, error) {
	object := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&object); err != nil && len(raw) > 0 {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // URLs contain ampersands
	err := e.Encode(object)
	return bytes.TrimSpace(b.Bytes()), err
}
