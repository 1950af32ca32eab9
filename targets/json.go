package targets

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Parse decodes a target of one of the types of the table; see the function Parse.
func (all Table[S]) Parse(raw json.RawMessage, secret func(member, text string) string) (eventhook.Target, eventhook.Faults) {
	var faults eventhook.Faults
	var written map[string]json.RawMessage
	if err := json.Unmarshal(raw, &written); err != nil || written == nil {
		faults.Add("", `must be an object, such as {"type":"task","task_kind":"build"}`)
		return eventhook.Target{}, faults
	}
	maps.DeleteFunc(written, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	var name string
	_ = json.Unmarshal(written["type"], &name) // a type that is not a string is reported below
	k, ok := all.find(name)
	if !ok {
		faults.Add("type", "%q is not one of %s", eventhook.SanitizeLabel(name), strings.Join(all.Names(), ", "))
		return eventhook.Target{Type: name}, faults
	}
	s := k.New()
	unfit := all.fill(k, s, written)
	if secret != nil {
		for _, x := range k.secrets() {
			if text := x.text(s); text != "" {
				x.set(s, secret(x.name, text))
			}
		}
	}
	unfit = append(unfit, k.checkTexts(s)...)
	for _, fault := range s.Check() { // a member that is unfit is reported once
		if !slices.ContainsFunc(unfit, func(f eventhook.Fault) bool { return f.Location == fault.Location }) {
			faults = append(faults, fault)
		}
	}
	t, err := k.close(s)
	if err != nil {
		faults.Add("", "cannot be stored")
	}
	return t, append(faults, unfit...)
}

// close encodes settings as a target and moves the secrets into Target.Secrets.
func (k Kind[S]) close(s S) (t eventhook.Target, err error) {
	secrets := map[string]string{}
	for _, x := range k.secrets() {
		if text := x.text(s); text != "" && text != eventhook.Redacted {
			secrets[x.name] = text
			x.set(s, eventhook.Redacted)
		}
	}
	flat, err := k.flat(s)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(flat, &t); err != nil || len(secrets) == 0 {
		return t, err
	}
	hidden, err := encode(secrets)
	t.Secrets = eventhook.NewSecret(string(hidden))
	return t, err
}

// flat encodes one JSON object with the type, followed by the settings in their order.
func (k Kind[S]) flat(s S) (json.RawMessage, error) {
	head, err := encode(map[string]string{"type": k.Name})
	if err != nil {
		return nil, err
	}
	settings, err := encode(s)
	if err != nil || len(settings) == len("{}") {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), settings[1:]...), nil
}

// Format encodes a target of one of the types of the table; see the function Format.
func (all Table[S]) Format(t eventhook.Target, secret func(member, text string) string) (json.RawMessage, error) {
	k, s, err := all.open(t)
	if err != nil {
		return nil, err
	}
	if err := k.missingSecret(s); err != nil {
		return nil, err
	}
	for _, x := range k.secrets() {
		if text := x.text(s); text != "" {
			x.set(s, secret(x.name, text))
		}
	}
	return k.flat(s)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
