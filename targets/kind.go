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
		if raw, given := written[m.name]; given && json.Unmarshal(raw, field.Addr().Interface()) != nil {
			field.SetZero() // what of it was read is not what was meant
			faults.Merge(m.name, misfits(raw, field.Type()))
		}
	}
	for _, name := range sorted(written) {
		switch {
		case known[name]:
		case all.knows(name):
			faults.Add(name, "is not for %s targets", k.name)
		default:
			faults.Add(eventhook.Label(name), "there is no such setting of a target")
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

// misfits says what is wrong with what a type does not take: of a map that is
// written as one, with its members.
func misfits(raw json.RawMessage, t reflect.Type) (faults eventhook.Faults) {
	var members map[string]json.RawMessage
	if t.Kind() == reflect.Map && json.Unmarshal(raw, &members) == nil {
		for _, name := range sorted(members) {
			if json.Unmarshal(members[name], reflect.New(t.Elem()).Interface()) != nil {
				faults.Merge(eventhook.Label(name), misfits(members[name], t.Elem()))
			}
		}
		return faults
	}
	faults.Add("", "must be %s", wordFor(t))
	return faults
}

// wordFor says what is wanted where a type is.
func wordFor(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return "a text; a number needs quotes"
	case kind == reflect.Pointer:
		return wordFor(t.Elem())
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Int:
		return "a whole number, and written as one"
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
		return k, nil, fmt.Errorf("%w %q", eventhook.ErrUnknownTarget, eventhook.Label(t.Type))
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
