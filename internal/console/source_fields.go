package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// members builds the JSON body of a request from the fields of a form, which are named by the path
// of the member, for example rate_limit.burst_size. With keepsEmpty, empty fields become null, which
// resets a member in a merge patch; otherwise they are omitted.
type members struct {
	form       *form
	object     map[string]any
	keepsEmpty bool
}

func membersOf(f *form, keepsEmpty bool) members {
	return members{form: f, object: map[string]any{}, keepsEmpty: keepsEmpty}
}

// set stores a value at a path.
func (m members) set(path string, v any) {
	steps := strings.Split(path, ".")
	at := m.object
	for _, step := range steps[:len(steps)-1] {
		inner, ok := at[step].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[step] = inner
		}
		at = inner
	}
	at[steps[len(steps)-1]] = v
}

// setUnlessEmpty stores a value, or what an empty field means.
func (m members) setUnlessEmpty(path string, isEmpty bool, v any) {
	switch {
	case !isEmpty:
		m.set(path, v)
	case m.keepsEmpty:
		m.set(path, nil)
	}
}

// texts stores fields with one text each.
func (m members) texts(paths ...string) {
	for _, path := range paths {
		v := strings.TrimSpace(m.form.Get(path))
		m.setUnlessEmpty(path, v == "", v)
	}
}

// numbers stores fields with a number each. A field that is no number becomes a fault.
func (m members) numbers(paths ...string) {
	for _, path := range paths {
		v := strings.TrimSpace(m.form.Get(path))
		if _, err := strconv.ParseFloat(v, 64); err != nil && v != "" {
			m.form.Faults[path] = "is not a number"
			continue
		}
		m.setUnlessEmpty(path, v == "", json.Number(v))
	}
}

// lists stores fields with one text per line.
func (m members) lists(paths ...string) {
	for _, path := range paths {
		v := lines(m.form.Get(path))
		m.setUnlessEmpty(path, len(v) == 0, v)
	}
}

// boxes stores fields that are checked or not.
func (m members) boxes(paths ...string) {
	for _, path := range paths {
		m.set(path, m.form.Get(path) != "")
	}
}

// documents stores fields that are JSON objects.
func (m members) documents(paths ...string) {
	for _, path := range paths {
		v := strings.TrimSpace(m.form.Get(path))
		if len(v) > maxDocument {
			m.form.Faults[path] = errLongDocument.Error()
			continue
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(v), &object); err != nil && v != "" {
			m.form.Faults[path] = "is not a JSON object: " + jsonFault(err)
			continue
		}
		m.setUnlessEmpty(path, v == "", json.RawMessage(v))
	}
}

// body returns the request. It fails only for a defect, because all values can be encoded.
func (m members) body() (json.RawMessage, error) {
	raw, err := json.Marshal(m.object)
	if err != nil {
		return nil, fmt.Errorf("encode a form: %w", err)
	}
	return raw, nil
}

// jsonFault returns the cause without the names of Go.
func jsonFault(err error) string {
	text := err.Error()
	if strings.HasPrefix(text, "json: cannot unmarshal") {
		return "it must begin with { and end with }"
	}
	return text
}

// lines returns the lines of a text without spaces around them and without empty ones.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// put sets a field to the text of a value; a nil pointer leaves it empty.
func put[T any](v url.Values, name string, value *T) {
	if value != nil {
		v.Set(name, fmt.Sprint(*value))
	}
}

// sortedNames returns the names of a map in their order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
