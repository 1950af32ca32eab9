package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// Target is a target of a route: its type and the settings of that type. Package
// targets defines the settings.
type Target struct{ raw json.RawMessage }

// MarshalJSON implements json.Marshaler.
func (t Target) MarshalJSON() ([]byte, error) { return t.raw.MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Target) UnmarshalJSON(raw []byte) error {
	t.raw = bytes.Clone(raw)
	return nil
}

// Schema implements huma.SchemaProvider. It describes one object with the settings of
// all types, so that clients have one type. Which settings a type has is checked when
// the target is parsed.
func (Target) Schema(r huma.Registry) *huma.Schema {
	return schemaOfKinds(r, "Target", targets.Types(), func(kind string) reflect.Type { return reflect.TypeOf(targets.NewSettings(kind)) })
}

// schemaOfKinds returns a reference to the schema name of one object with the settings of all kinds.
func schemaOfKinds(r huma.Registry, name string, kinds []string, settings func(kind string) reflect.Type) *huma.Schema {
	if r.Map()[name] == nil {
		r.Map()[name] = kindsSchema(r, kinds, settings)
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

func kindsSchema(r huma.Registry, kinds []string, settingsOf func(kind string) reflect.Type) *huma.Schema {
	types := &huma.Schema{Type: huma.TypeString}
	s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"type"}, Properties: map[string]*huma.Schema{"type": types}}
	byProperty := map[string]*descriptions{}
	for _, kind := range kinds {
		types.Enum = append(types.Enum, kind)
		settings := huma.SchemaFromType(r, settingsOf(kind))
		for property, one := range settings.Properties {
			if byProperty[property] == nil {
				byProperty[property] = &descriptions{}
			}
			byProperty[property].add(kind, one.Description)
			if s.Properties[property] == nil { // with the example of the first type
				s.Properties[property] = one
			}
		}
	}
	for property, about := range byProperty {
		s.Properties[property].Description = about.String()
	}
	s.PrecomputeMessages()
	return s
}

// descriptions collects the descriptions of a property for the types of targets.
type descriptions struct {
	texts []string
	kinds map[string][]string // by text
}

func (d *descriptions) add(kind, text string) {
	if d.kinds == nil {
		d.kinds = map[string][]string{}
	}
	if d.kinds[text] == nil {
		d.texts = append(d.texts, text)
	}
	d.kinds[text] = append(d.kinds[text], kind)
}

func (d *descriptions) String() string {
	var all []string
	for _, text := range d.texts {
		kinds := d.kinds[text]
		last := kinds[len(kinds)-1]
		of := strings.Join(kinds[:len(kinds)-1], ", ")
		if of != "" {
			of += " and "
		}
		all = append(all, "For "+of+last+": "+text)
	}
	return strings.Join(all, " ")
}

func viewTargets(list []eventhook.Target) []Target {
	views := make([]Target, len(list))
	for i, t := range list {
		views[i].raw, _ = t.MarshalJSON() // a stored target is valid JSON
	}
	return views
}

// mergeTargets parses the targets of a request. Where a secret is eventhook.Redacted,
// it keeps the secret of the stored target. It also returns the faults.
func mergeTargets(written []Target, have []eventhook.Target) ([]eventhook.Target, eventhook.Faults) {
	want, faults := parseTargets(written, nil)
	kept, wrong := targets.KeepSecrets(want, have)
	faults.Merge("targets", wrong)
	return kept, faults
}

// targetsForTest parses targets that are only tested. No request is sent, so that any
// text can stand for a redacted secret.
func targetsForTest(written []Target) ([]eventhook.Target, eventhook.Faults) {
	for i := range written {
		written[i].raw = withoutKeptKey(written[i].raw)
	}
	return parseTargets(written, func(_, text string) string {
		if text == eventhook.Redacted {
			return "withheld"
		}
		return text
	})
}

// withoutKeptKey returns a target without its certificate, or its auth, if the private key of it is
// redacted. No text can stand for that key, which must match the certificate, and a test shows neither.
func withoutKeptKey(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`"private_key"`)) { // most targets: decode nothing
		return raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	var auth eventhook.Auth
	if json.Unmarshal(members["auth"], &auth) == nil && auth.PrivateKey == eventhook.Redacted {
		delete(members, "auth")
	}
	var key string
	if json.Unmarshal(members["private_key"], &key) == nil && key == eventhook.Redacted {
		delete(members, "private_key")
		delete(members, "certificate")
	}
	changed, err := json.Marshal(members)
	if err != nil {
		return raw // cannot happen: the members were decoded from JSON
	}
	return changed
}

// parseTargets parses targets. Those beyond the maximum number, which is a fault of the route, are not parsed.
func parseTargets(written []Target, secret func(member, text string) string) (list []eventhook.Target, faults eventhook.Faults) {
	for i, w := range written {
		if i >= eventhook.MaxTargets {
			return slices.Grow(list, len(written)-i)[:len(written)], faults
		}
		t, wrong := targets.Parse(w.raw, secret)
		faults.Merge(fmt.Sprintf("targets[%d]", i), wrong)
		list = append(list, t)
	}
	return list, faults
}
