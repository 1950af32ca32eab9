package targets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/eventhook/eventhook"
)

// table is a list of kinds.
type table []kind

// kind is one kind of target: its name, and a function that returns empty settings.
type kind struct {
	name        string
	newSettings func() Settings
}

// member is one of a kind's settings.
type member struct {
	name      string
	index     []int  // of the struct field
	isSecret  bool   // the field is a string
	recipient string // of a secret: the member that identifies its recipient
}

// members returns a kind's settings in the order of the struct fields.
func (k kind) members() []member {
	var list []member
	for _, f := range reflect.VisibleFields(reflect.TypeOf(k.newSettings()).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() {
			continue
		}
		recipient, isSecret := f.Tag.Lookup("secret")
		list = append(list, member{name, f.Index, isSecret, recipient})
	}
	return list
}

// in returns the member's field.
func (m member) in(s Settings) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByIndex(m.index)
}

// fill decodes written members into settings of a kind and reports members that do not fit. A null
// is ignored.
func (all table) fill(k kind, s Settings, written map[string]json.RawMessage) (faults eventhook.Faults) {
	known := map[string]bool{"type": true}
	for _, m := range k.members() {
		known[m.name] = true
		field := m.in(s)
		raw, isSet := written[m.name]
		if !isSet {
			continue
		}
		wrong := unknownMembers(raw, field.Type())
		if json.Unmarshal(raw, field.Addr().Interface()) != nil {
			wrong = typeFaults(raw, field.Type())
		}
		if len(wrong) > 0 {
			field.SetZero() // drop a partly decoded value
			faults.Merge(m.name, wrong)
		}
	}
	for _, name := range sorted(written) {
		switch {
		case known[name]:
		case all.knows(name):
			faults.Add(name, "is not a setting of %s targets", k.name)
		default:
			faults.Add(eventhook.SanitizeLabel(name), "is not a setting of any target")
		}
	}
	return faults
}

// knows reports whether any kind has a member of that name.
func (all table) knows(name string) bool {
	for _, k := range all {
		for _, m := range k.members() {
			if m.name == name {
				return true
			}
		}
	}
	return false
}

// typeFaults reports why a type does not accept a JSON value. In an object it locates the members at
// fault.
func typeFaults(raw json.RawMessage, t reflect.Type) (faults eventhook.Faults) {
	var members map[string]json.RawMessage
	isObject := t.Kind() == reflect.Map || isStruct(t)
	if !isObject || json.Unmarshal(raw, &members) != nil {
		faults.Add("", "must be %s", describeType(t))
		return faults
	}
	for _, name := range sorted(members) {
		of, known := memberType(t, name)
		if known && json.Unmarshal(members[name], reflect.New(of).Interface()) != nil {
			faults.Merge(eventhook.SanitizeLabel(name), typeFaults(members[name], of))
		}
	}
	return append(faults, unknownMembers(raw, t)...)
}

// unknownMembers reports each member of a JSON object that the struct type t does not have. It
// reports nothing for other types.
func unknownMembers(raw json.RawMessage, t reflect.Type) (faults eventhook.Faults) {
	var members map[string]json.RawMessage
	if !isStruct(t) || json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for _, name := range sorted(members) {
		if _, known := memberType(t, name); !known {
			faults.Add(eventhook.SanitizeLabel(name), "is not a setting")
		}
	}
	return faults
}

// isStruct reports whether the type is a struct, or a pointer to one: JSON for it is an object with
// known members.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

// memberType is the type of a member of a map or a struct.
func memberType(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	for _, f := range reflect.VisibleFields(t) {
		if tagged, _, _ := strings.Cut(f.Tag.Get("json"), ","); tagged == name {
			return f.Type, true
		}
	}
	return nil, false
}

// describeType describes the JSON value that a type expects.
func describeType(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return "a string; put a number in quotes"
	case isStruct(t):
		return `an object, such as {"max_retries": 3}`
	case kind == reflect.Pointer:
		return describeType(t.Elem())
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Int:
		return "a whole number without quotes, point or exponent"
	case kind == reflect.Float64:
		return "a number"
	case kind == reflect.Slice:
		return "a list of whole numbers, such as [30, 120]"
	}
	return `an object of strings, such as {"X-Env": "prod"}`
}

// compile inserts the secrets into the settings and compiles them.
func (all table) compile(t eventhook.Target, d Deps) (Effector, error) {
	k, s, err := all.open(t)
	if err != nil {
		return nil, err
	}
	for _, m := range k.members() {
		if m.isSecret && m.in(s).String() == eventhook.Redacted {
			return nil, missingSecretError(m)
		}
	}
	if err := s.Check().Err("the target is invalid"); err != nil {
		return nil, err
	}
	d.route, d.index = t.RouteID, t.Index
	return s.Compile(d)
}

// open returns a target's settings with its secrets inserted.
func (all table) open(t eventhook.Target) (kind, Settings, error) {
	k, ok := all.find(t.Type)
	if !ok {
		return k, nil, fmt.Errorf("%w %q", eventhook.ErrUnknownTarget, eventhook.SanitizeLabel(t.Type))
	}
	s := k.newSettings()
	settings, secrets := object(t.Settings), object(json.RawMessage(t.Secrets.Reveal()))
	for name, secret := range secrets {
		settings[name] = secret
	}
	return k, s, all.fill(k, s, settings).Err("the target is invalid")
}

// object decodes the members of a JSON object. If raw is not an object, the map is empty.
func object(raw json.RawMessage) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return map[string]json.RawMessage{}
	}
	return members
}

// encode encodes JSON without escaping HTML, so that URLs stay readable.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
