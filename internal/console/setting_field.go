package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// settingField is a member of the settings of a target, or of the broker whose messages a source consumes,
// that a form shows as a field of its own. The template setting shows it.
type settingField struct {
	Member, Label, Help, Placeholder             string
	Required, IsNumber, IsBool, IsLong, IsSecret bool
	Options                                      []string
}

const onceSaved = "Shown as [redacted] once it is saved."

// sealedField returns the field of a secret.
func sealedField(member, label string) settingField {
	return settingField{Member: member, Label: label, Help: onceSaved, IsLong: isLong(member), IsSecret: true}
}

// isLong reports whether a secret has several lines.
func isLong(member string) bool {
	return member == "auth.private_key" || member == "private_key" || member == "credentials"
}

// required returns a field that must have a value.
func required(x settingField) settingField {
	x.Required = true
	return x
}

// value returns the value that a form has for the field, under a name. It is nil if the form has none, or,
// with a fault in the form, if it cannot be read.
func (x settingField) value(f *form, name string) any {
	switch text := strings.TrimSpace(f.Get(name)); {
	case text == "":
		return nil
	case x.IsBool:
		return text == "true"
	case x.IsLong:
		return unixText(f.Get(name))
	case x.IsNumber:
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			f.Faults[name] = "is not a whole number"
			return nil
		}
		return json.Number(text)
	default:
		return text
	}
}

// putSettings moves the members that have fields from an object of the API into the values of a form. The names of
// the fields are those of the members after the prefix and a dot.
func putSettings(v url.Values, prefix string, fields []settingField, object map[string]any) {
	for _, x := range fields {
		if value, ok := object[x.Member]; ok {
			v.Set(prefix+"."+x.Member, fmt.Sprint(value))
			delete(object, x.Member)
		}
	}
}
