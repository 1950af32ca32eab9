package verify

import (
	"bytes"
	"encoding/json"
	neturl "net/url"
	"slices"
	"strings"
)

// setFields sets the fields at a path in a JSON or form body. # in the path stands
// for all elements of an array: the values are assigned in the order of the
// elements, and the last value repeats.
func setFields(r *Request, path []string, values ...any) error {
	if isForm(r) {
		return setFormField(r, path, values[0])
	}
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.UseNumber()
	var body any
	if d.Decode(&body) != nil || d.More() {
		return errNoView
	}
	s := fieldSetter{values: values}
	s.set(body, path)
	if s.count == 0 {
		return refusef(ReasonMissingField, "the body has no object for %s", strings.Join(path, "."))
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	r.Body = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	return err
}

// setFormField sets a field of a form. Other fields keep their order.
func setFormField(r *Request, path []string, value any) error {
	text, _ := value.(string)
	name := strings.Join(path, ".")
	fields := slices.DeleteFunc(strings.Split(string(r.Body), "&"), func(field string) bool {
		return field == "" || strings.HasPrefix(field, neturl.QueryEscape(name)+"=")
	})
	r.Body = []byte(strings.Join(append(fields, neturl.Values{name: {text}}.Encode()), "&"))
	return nil
}

// fieldSetter assigns values to the fields of a decoded JSON value.
type fieldSetter struct {
	values []any
	count  int // of assigned fields
}

func (s *fieldSetter) set(at any, path []string) {
	switch value := at.(type) {
	case []any:
		if path[0] == "#" && len(path) > 1 {
			for _, element := range value {
				s.set(element, path[1:])
			}
		}
	case map[string]any:
		switch {
		case path[0] == "#":
			return
		case len(path) == 1:
			value[path[0]] = s.values[min(s.count, len(s.values)-1)]
			s.count++
			return
		case value[path[0]] == nil && path[1] != "#":
			value[path[0]] = map[string]any{}
		}
		s.set(value[path[0]], path[1:])
	}
}
