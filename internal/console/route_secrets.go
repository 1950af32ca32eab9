package console

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/internal/web"
)

// targetSecrets are the secrets of targets, as paths in them. The editor has a field for each, except for
// those of auth: they are typed in the JSON of a target, and one that must be typed again has a field of
// its own.
var targetSecrets = []string{"auth_header", "auth.password", "auth.client_secret", "auth.private_key", "auth.secret_access_key",
	"password", "token", "credentials", "secret_access_key", "session_token", "api_key", "private_key"}

// askedField is the hidden field of a form with the names of the secrets that must be typed again.
const askedField = "asked"

// hideSecrets deletes the secrets that were typed from the values of the form, so that no page shows
// them. Their names, and the ones that still have to be typed again, are e.Asked.
func (e *routeEditor) hideSecrets() {
	asked := e.Asked
	for _, t := range e.Targets {
		asked = append(asked, t.hide(&e.Form)...)
	}
	e.Asked = nil
	for i := range e.Targets {
		t := &e.Targets[i]
		for _, member := range targetSecrets {
			name := t.Name(member)
			if slices.Contains(asked, name) && e.Form.Get(name) == "" {
				e.Asked = append(e.Asked, name)
				e.Form.Faults[name] = cmp.Or(e.Form.Fault(name), typeAgain)
			}
			if e.Form.Fault(name) != "" {
				t.addField(member)
			}
		}
	}
}

// addField adds a field for a secret, unless the target has one.
func (t *targetForm) addField(member string) {
	if !slices.ContainsFunc(t.Fields, func(f settingField) bool { return f.Member == member }) {
		t.Fields = append(slices.Clone(t.Fields),
			settingField{Member: member, Label: "Secret " + member, IsLong: isLong(member)})
	}
}

// hide deletes the typed secrets of a target: from their fields and from its JSON.
func (t targetForm) hide(f *form) (typed []string) {
	for _, member := range targetSecrets {
		typed = append(typed, f.hide(t.Name(member))...)
	}
	text := f.Get(t.Rest)
	if text == "" {
		return typed
	}
	object, err := decodeObject(text)
	if err != nil {
		f.Values.Set(t.Rest, withoutSecrets(text)) // a person must mend it first
		return typed
	}
	found := false
	for _, member := range targetSecrets {
		if isTyped(object, member) {
			removeMember(object, member)
			typed, found = append(typed, t.Name(member)), true
		}
	}
	if found {
		f.Values.Set(t.Rest, web.Editable(plainJSON(object)))
	}
	return typed
}

// withoutSecrets returns a text that is not valid JSON with empty strings in place of the secrets that
// follow their names.
func withoutSecrets(text string) string {
	for _, member := range targetSecrets {
		text = withoutSecret(text, strconv.Quote(member[strings.LastIndexByte(member, '.')+1:]))
	}
	return text
}

func withoutSecret(text, name string) string {
	var kept strings.Builder
	for {
		before, after, found := strings.Cut(text, name)
		kept.WriteString(before)
		if !found {
			return kept.String()
		}
		text = strings.TrimLeft(after, " \t\r\n:")
		kept.WriteString(name + after[:len(after)-len(text)])
		if strings.HasPrefix(text, `"`) {
			kept.WriteString(`""`)
			text = text[web.StringSize(text):]
		}
	}
}

// memberOf returns the object that contains a member, and the member's name in it. The object is nil
// if it does not exist.
func memberOf(object map[string]any, path string) (map[string]any, string) {
	if outer, name, ok := strings.Cut(path, "."); ok {
		inner, _ := object[outer].(map[string]any)
		return inner, name
	}
	return object, path
}

// isTyped reports whether an object has a secret that is not redacted.
func isTyped(object map[string]any, path string) bool {
	in, name := memberOf(object, path)
	value, ok := in[name]
	return ok && value != "" && value != redacted && value != nil
}

func removeMember(object map[string]any, path string) {
	in, name := memberOf(object, path)
	delete(in, name)
}

// addSecrets adds the secrets that were typed again to a target.
func (t targetForm) addSecrets(f *form, object map[string]any) {
	if t.Type != "http" {
		return
	}
	for _, member := range targetSecrets {
		if value := strings.TrimSpace(unixText(f.Get(t.Name(member)))); value != "" {
			members{object: object}.set(member, value)
		}
	}
}

// checkAsked adds a fault for each secret that had to be typed again and is missing. It asks once, so
// that a person can save without the secret.
func (e *routeEditor) checkAsked() {
	for _, t := range e.Targets {
		for _, member := range targetSecrets {
			if name := t.Name(member); slices.Contains(e.Asked, name) && e.Form.Get(name) == "" {
				e.Form.Faults[name] = "was typed before and is missing. Type it again, or save once more to send none."
			}
		}
	}
	e.Asked = nil
}

// masked returns a copy of a route of the form in which text stands for the secrets that were typed,
// and whether there are any.
func masked(route json.RawMessage, text string) (json.RawMessage, bool) {
	object, err := decodeObject(string(route))
	if err != nil {
		return route, false
	}
	hasSecrets := false
	targets, _ := object["targets"].([]any)
	for _, t := range targets {
		target, _ := t.(map[string]any)
		for _, member := range targetSecrets {
			if isTyped(target, member) {
				in, name := memberOf(target, member)
				in[name], hasSecrets = text, true
			}
		}
	}
	return plainJSON(object), hasSecrets
}

// decodeObject decodes a JSON object without loss of digits.
func decodeObject(text string) (object map[string]any, err error) {
	if len(text) > maxDocument {
		return nil, errLongDocument
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err = d.Decode(&object)
	return object, err
}

// renumberAsked changes the names of asked secrets after a target was removed.
func renumberAsked(v url.Values, removed int) {
	var kept []string
	for _, name := range v[askedField] {
		switch at, rest := targetOf(name); {
		case at < 0 || at == removed:
		case at > removed:
			kept = append(kept, targetName(at-1)+rest)
		default:
			kept = append(kept, name)
		}
	}
	v[askedField] = kept
}
