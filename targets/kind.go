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

// kind is one kind of target: its name, and its settings before anything is
// said.
type kind struct {
	name  string
	blank func() Settings
}

// member is one of a kind's settings.
type member struct {
	name     string
	index    []int  // of its field
	isSecret bool   // then the field is a text
	givenTo  string // of a secret, the member that says to whom
}

// members are a kind's settings, in their order.
func (k kind) members() []member {
	var list []member
	for _, f := range reflect.VisibleFields(reflect.TypeOf(k.blank()).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() {
			continue
		}
		givenTo, isSecret := f.Tag.Lookup("secret")
		list = append(list, member{name, f.Index, isSecret, givenTo})
	}
	return list
}

// in is the member's field in settings of its kind.
func (m member) in(s Settings) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByIndex(m.index)
}

// fill puts what is written into settings of a kind, and tells what does not
// fit. A null says nothing.
func (all table) fill(k kind, s Settings, written map[string]json.RawMessage) (faults eventhook.Faults) {
	known := map[string]bool{"type": true}
	for _, m := range k.members() {
		known[m.name] = true
		field := m.in(s)
		raw, given := written[m.name]
		if !given {
			continue
		}
		wrong := unknownMembers(raw, field.Type())
		if json.Unmarshal(raw, field.Addr().Interface()) != nil {
			wrong = misfits(raw, field.Type())
		}
		if len(wrong) > 0 {
			field.SetZero() // what of it was read is not what was meant
			faults.Merge(m.name, wrong)
		}
	}
	for _, name := range sorted(written) {
		switch {
		case known[name]:
		case all.knows(name):
			faults.Add(name, "is not for %s targets", k.name)
		default:
			faults.Add(eventhook.SanitizeLabel(name), "there is no such setting of a target")
		}
	}
	return faults
}

// knows reports whether some kind has a member of that name.
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

// misfits returns what is wrong with JSON that a type does not take. Of an object
// whose members have types, it names the members.
func misfits(raw json.RawMessage, t reflect.Type) (faults eventhook.Faults) {
	var members map[string]json.RawMessage
	isObject := t.Kind() == reflect.Map || isStruct(t)
	if !isObject || json.Unmarshal(raw, &members) != nil {
		faults.Add("", "must be %s", wordFor(t))
		return faults
	}
	for _, name := range sorted(members) {
		of, known := memberType(t, name)
		if known && json.Unmarshal(members[name], reflect.New(of).Interface()) != nil {
			faults.Merge(eventhook.SanitizeLabel(name), misfits(members[name], of))
		}
	}
	return append(faults, unknownMembers(raw, t)...)
}

// unknownMembers returns a fault for each member of an object that its type, a struct,
// does not have; nothing for other types.
func unknownMembers(raw json.RawMessage, t reflect.Type) (faults eventhook.Faults) {
	var members map[string]json.RawMessage
	if !isStruct(t) || json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for _, name := range sorted(members) {
		if _, known := memberType(t, name); !known {
			faults.Add(eventhook.SanitizeLabel(name), "there is no such setting")
		}
	}
	return faults
}

// isStruct reports whether JSON for the type is an object with known members.
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

// wordFor names the value that a type wants.
func wordFor(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return "a text; a number needs quotes"
	case isStruct(t):
		return `an object, such as {"max_retries": 3}`
	case kind == reflect.Pointer:
		return wordFor(t.Elem())
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Int:
		return "a whole number, and written as one"
	case kind == reflect.Float64:
		return "a number"
	case kind == reflect.Slice:
		return "a list of whole numbers, such as [30, 120]"
	}
	return `names with texts, such as {"X-Env": "prod"}`
}

// compile fills the secrets in before it makes the effector.
func (all table) compile(t eventhook.Target, d Deps) (Effector, error) {
	k, s, err := all.open(t)
	if err != nil {
		return nil, err
	}
	for _, m := range k.members() {
		if m.isSecret && m.in(s).String() == eventhook.Redacted {
			return nil, missing(m)
		}
	}
	if err := s.Check().Err("the target is invalid"); err != nil {
		return nil, err
	}
	d.route, d.index = t.RouteID, t.Index
	return s.Compile(d)
}

// open is a target's settings, with its secrets in them.
func (all table) open(t eventhook.Target) (kind, Settings, error) {
	k, ok := all.find(t.Type)
	if !ok {
		return k, nil, fmt.Errorf("%w %q", eventhook.ErrUnknownTarget, eventhook.SanitizeLabel(t.Type))
	}
	s := k.blank()
	settings, secrets := object(t.Settings), object(json.RawMessage(t.Secrets.Reveal()))
	for name, secret := range secrets {
		settings[name] = secret
	}
	return k, s, all.fill(k, s, settings).Err("the target is invalid")
}

// object reads the members of an object; what is none has none.
func object(raw json.RawMessage) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return map[string]json.RawMessage{}
	}
	return members
}

// encode writes JSON as people like to read it, with the signs of URLs as they
// are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
