package targets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Table is a list of kinds, each with settings that are a pointer to a struct, as Checked says.
type Table[S Checked] []Kind[S]

// Kind is one kind of settings: its name, and a function that returns empty settings.
type Kind[S Checked] struct {
	Name string
	New  func() S
}

// Checked is the part of Settings that all tables share, also tables of settings that are not compiled.
type Checked interface {
	// Check reports every fault by its member. It quotes no value that may be a secret and modifies
	// nothing.
	Check() eventhook.Faults
}

// member is one of a kind's settings.
type member struct {
	name      string
	index     []int  // of the struct field
	isSecret  bool   // the field is a string, or an Auth, which has secret members
	recipient string // of a secret: the member that identifies its recipient
}

// secret is a text of a kind's settings that is sealed.
type secret struct {
	name      string // such as auth_header or auth.password
	field     member
	recipient member
	hasLabels bool // the settings have target_labels, which change the recipient, too
	guards    []member
}

// secrets returns the secrets of a kind.
func (k Kind[S]) secrets() (list []secret) {
	all := k.members()
	hasLabels := slices.ContainsFunc(all, func(one member) bool { return one.name == "target_labels" })
	guards := slices.DeleteFunc(slices.Clone(all), func(one member) bool { return !isGuard(one.name) })
	for _, m := range all {
		if !m.isSecret {
			continue
		}
		to := all[slices.IndexFunc(all, func(one member) bool { return one.name == m.recipient })]
		if m.in(k.New()).Kind() == reflect.String {
			list = append(list, secret{m.name, m, to, hasLabels, guards})
			continue
		}
		for _, part := range new(eventhook.Auth).Members() {
			if part.IsSecret {
				list = append(list, secret{m.name + "." + part.Name, m, to, hasLabels, guards})
			}
		}
	}
	return list
}

// auth returns the Auth to which the secret belongs, nil without one.
func (x secret) auth(s Checked) *eventhook.Auth {
	a, _ := x.field.in(s).Interface().(*eventhook.Auth)
	return a
}

// text returns the secret in settings, "" without one.
func (x secret) text(s Checked) string {
	if text := x.in(s); text != nil {
		return *text
	}
	return ""
}

// set replaces the secret in settings that have one.
func (x secret) set(s Checked, text string) {
	if to := x.in(s); to != nil {
		*to = text
	}
}

// in returns the text of the secret in settings, nil if its object is absent.
func (x secret) in(s Checked) *string {
	if field := x.field.in(s); field.Kind() == reflect.String {
		return field.Addr().Interface().(*string) //nolint:forcetypeassert // a field of the kind string
	}
	if a := x.auth(s); a != nil {
		for _, part := range a.Members() {
			if x.name == x.field.name+"."+part.Name {
				return part.Text
			}
		}
	}
	return nil
}

// recipients names the members that identify the recipient of the secret.
func (x secret) recipients() string {
	switch {
	case x.name == x.field.name+".client_secret":
		return x.recipient.name + ", the target_labels or the " + x.field.name + ".token_url"
	case x.hasLabels:
		return x.recipient.name + " or the target_labels"
	}
	names := x.recipient.name
	for i, guard := range x.guards {
		if i == len(x.guards)-1 {
			names += " or " + guard.name
		} else {
			names += ", " + guard.name
		}
	}
	return names
}

// keepsRecipient reports whether updated settings send the secret to the same destination as the
// stored settings. A label that is added is another destination: the secret would go to an agent. So
// is a weaker protection: somebody on the way could read the secret.
func (x secret) keepsRecipient(stored, updated Checked) bool {
	to, other := x.recipient.in(stored).String(), x.recipient.in(updated).String()
	isWeaker := func(guard member) bool { return guard.isWeaker(stored, updated) }
	isSame := to == other || eventhook.SameOrigin(to, other) || sendsToSame(to, other)
	if !isSame || addsLabel(stored, updated) || slices.ContainsFunc(x.guards, isWeaker) {
		return false
	}
	return x.auth(stored) == nil || x.auth(updated) == nil || x.auth(stored).KeepsSecretsOf(*x.auth(updated))
}

func addsLabel(stored, updated Checked) bool {
	had, isHTTP := stored.(*httpRequest)
	has, areHTTP := updated.(*httpRequest)
	return isHTTP && areHTTP && eventhook.AddsLabel(had.TargetLabels, has.TargetLabels)
}

// members returns a kind's settings in the order of the struct fields.
func (k Kind[S]) members() []member {
	var list []member
	for _, f := range reflect.VisibleFields(reflect.TypeOf(k.New()).Elem()) {
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
func (m member) in(s Checked) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByIndex(m.index)
}

// fill decodes written members into settings of a kind and reports members that do not fit. A null
// is ignored.
func (all Table[S]) fill(k Kind[S], s Checked, written map[string]json.RawMessage) (faults eventhook.Faults) {
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
			faults.Add(name, "is not a setting of the type %s", k.Name)
		default:
			faults.Add(eventhook.SanitizeLabel(name), "is not a setting of any type")
		}
	}
	return faults
}

// knows reports whether any kind has a member of that name.
func (all Table[S]) knows(name string) bool {
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
	case kind == reflect.Slice && t.Elem().Kind() == reflect.String:
		return `a list of strings, such as ["env:prod"]`
	case kind == reflect.Slice:
		return "a list of whole numbers, such as [30, 120]"
	}
	return `an object of strings, such as {"X-Env": "prod"}`
}

// Open returns a target's settings with its secrets inserted. The error wraps
// eventhook.ErrUnknownTarget if the table has no such type. Open also returns an error if Parse would
// report a fault, or if a secret is missing because the key that sealed it is not configured.
func (all Table[S]) Open(t eventhook.Target) (S, error) {
	k, s, err := all.open(t)
	if err == nil {
		err = k.missingSecret(s)
	}
	if err == nil {
		err = s.Check().Err("the settings are invalid")
	}
	return s, err
}

// open returns a target's settings with its secrets inserted.
func (all Table[S]) open(t eventhook.Target) (k Kind[S], s S, err error) {
	k, ok := all.find(t.Type)
	if !ok {
		return k, s, fmt.Errorf("%w %q", eventhook.ErrUnknownTarget, eventhook.SanitizeLabel(t.Type))
	}
	s = k.New()
	faults := all.fill(k, s, object(t.Settings))
	texts := sealedTexts(t)
	for _, x := range k.secrets() {
		if text, isSealed := texts[x.name]; isSealed {
			x.set(s, text)
		}
	}
	return k, s, faults.Err("the settings are invalid")
}

// missingSecret returns an error if a secret of open settings is missing.
func (k Kind[S]) missingSecret(s S) error {
	for _, x := range k.secrets() {
		if x.text(s) == eventhook.Redacted {
			return fmt.Errorf("%s cannot be decrypted: the key that sealed it is not configured; set the secret again", x.name)
		}
	}
	return nil
}

// sealedTexts returns the secrets of a target by their names.
func sealedTexts(t eventhook.Target) map[string]string {
	texts := map[string]string{}
	_ = json.Unmarshal([]byte(t.Secrets.Reveal()), &texts) // a target without secrets has none
	return texts
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
