package configs

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// settings maps keys such as "ingest.writers" to pointers to the fields of a Config.
type settings map[string]any

// settingsOf returns the settings of c. The tag `config` of a field is the last part
// of its key; "-" leaves the field out.
func settingsOf(c *Config) settings {
	s := settings{}
	s.add("", reflect.ValueOf(c).Elem())
	return s
}

func (s settings) add(prefix string, section reflect.Value) {
	for field, value := range section.Fields() {
		switch name := field.Tag.Get("config"); {
		case name == "-":
		case field.Type.Kind() == reflect.Struct:
			s.add(prefix+name+".", value)
		default:
			s[prefix+name] = value.Addr().Interface()
		}
	}
}

// hasSection reports whether key is a section that contains settings.
func (s settings) hasSection(key string) bool {
	for setting := range s {
		if strings.HasPrefix(setting, key+".") {
			return true
		}
	}
	return false
}

// assign stores value in the setting that field points to. value comes from YAML, or
// is the text of a variable or flag; a text is parsed in the type of the setting. If
// value does not fit, assign stores nothing and says which values do.
func assign(field, value any) (want string) {
	switch field := field.(type) {
	case *string:
		return store(field, value, "a text; put it in quotes", func(s string) (string, error) { return s, nil })
	case *bool:
		return store(field, value, "true or false", trimmed(strconv.ParseBool))
	case *time.Duration:
		return store(field, value, "a duration such as 30s or 5m", trimmed(time.ParseDuration))
	case *[]string:
		return assignList(field, value)
	case *float64:
		return assignNumber(field, value)
	case *int:
		return store(field, value, "a whole number", trimmed(strconv.Atoi))
	case *int64:
		if n, isInt := value.(int); isInt {
			value = int64(n)
		}
		return store(field, value, "a whole number", trimmed(func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }))
	}
	panic("no setting has the type " + reflect.TypeOf(field).String())
}

// assignNumber stores a finite number. NaN is smaller than no limit, so it would pass every
// comparison.
func assignNumber(field *float64, value any) (want string) {
	const number = "a number"
	if n, isInt := value.(int); isInt {
		value = float64(n)
	}
	var n float64
	want = store(&n, value, number, trimmed(func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }))
	switch {
	case want != "":
		return want
	case math.IsNaN(n) || math.IsInf(n, 0):
		return number
	}
	*field = n
	return ""
}

// store stores value if it is a T, or a text that parse accepts; otherwise it returns
// want.
func store[T any](field *T, value any, want string, parse func(string) (T, error)) string {
	if text, isText := value.(string); isText {
		parsed, err := parse(text)
		if err != nil {
			return want
		}
		*field = parsed
		return ""
	}
	typed, ok := value.(T)
	if !ok {
		return want
	}
	*field = typed
	return ""
}

func trimmed[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) { return parse(strings.TrimSpace(text)) }
}

// assignList stores a list of texts, or the parts of one text with commas. Empty parts
// are left out.
func assignList(field *[]string, value any) (want string) {
	var parts []any
	switch value := value.(type) {
	case []any:
		parts = value
	case string:
		for part := range strings.SplitSeq(value, ",") {
			parts = append(parts, strings.TrimSpace(part))
		}
	default:
		return "a list of texts"
	}
	list := []string{}
	for _, part := range parts {
		text, isText := part.(string)
		if !isText {
			return "a list of texts"
		}
		if text != "" {
			list = append(list, text)
		}
	}
	*field = list
	return ""
}
