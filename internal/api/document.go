package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// document is a JSON body in the shape of T that its handler checks, so that one
// response contains the faults of the shape and of the rules. The operation must set
// skipsShape.
type document[T any] struct{ raw json.RawMessage }

// Schema implements huma.SchemaProvider. The schema is that of T.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *document[T]) UnmarshalJSON(raw []byte) error {
	d.raw = bytes.Clone(raw)
	return nil
}

// read decodes the document as far as possible and returns the faults of its shape,
// with locations under body.
func (d document[T]) read(s *server) (v T, faults eventhook.Faults) {
	if faults = checkValues(d.raw); faults != nil {
		return v, faults
	}
	texts := checkTexts(d.raw)
	v, faults = d.readShape(s)
	return v, join(texts, faults)
}

// readShape is read without the checks of checkValues and checkTexts.
func (d document[T]) readShape(s *server) (v T, faults eventhook.Faults) {
	faults = s.checkShape(reflect.TypeFor[T](), d.raw)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(d.raw, &v)); ok && len(faults) == 0 {
		faults.Add(fieldLocation(wrong.Field), "must be an integer without fraction or exponent")
	}
	return v, faults
}

// fieldLocation returns the location of a field in a body. It omits the names of
// embedded Go structs from the path. It is needed for numbers such as 1e3, which a
// schema accepts as an integer and encoding/json does not.
func fieldLocation(path string) string {
	at := "body"
	for step := range strings.SplitSeq(path, ".") {
		if step != "" && (step[0] < 'A' || step[0] > 'Z') {
			at += "." + step
		}
	}
	return at
}

// mergePatched applies the document as a JSON merge patch (RFC 7396) to the current
// state of a resource and returns the new state. The patch replaces the members that
// it names and merges objects; null resets a member to its default. Members listed
// in whole are replaced by their value in the patch unchanged, including nulls in
// it. The faults are those of the whole new state.
func (d document[T]) mergePatched(s *server, current T, whole ...string) (v T, faults eventhook.Faults, err error) {
	if faults = checkValues(d.raw); faults != nil {
		return current, faults, nil
	}
	var patch map[string]json.RawMessage
	_ = json.Unmarshal(d.raw, &patch)
	if patch == nil { // not an object
		return current, s.checkShape(reflect.TypeFor[T](), d.raw), nil
	}
	raw, err := json.Marshal(current)
	if err != nil {
		return current, nil, err
	}
	before, _ := decodeAny(raw).(map[string]any)
	changes, _ := decodeAny(d.raw).(map[string]any)
	merged := mergePatch(before, changes)
	for _, name := range whole {
		if value, isNamed := patch[name]; isNamed && string(value) != "null" {
			merged[name] = value
		}
	}
	if raw, err = json.Marshal(merged); err != nil {
		return current, nil, err
	}
	v, faults = document[T]{raw}.readShape(s)
	faults = join(checkTexts(d.raw), faults)
	known := s.schemas.Schema(reflect.TypeFor[T](), false, "").Properties
	for name, change := range changes {
		if change == nil && known[name] == nil { // the merge has removed the member
			faults.Add("body."+readable(name), "unexpected property")
		}
	}
	return v, faults, nil
}

// mergePatch applies a merge patch to an object, which may be nil, and returns the
// object.
func mergePatch(have, changes map[string]any) map[string]any {
	if have == nil {
		have = map[string]any{}
	}
	for name, change := range changes {
		switch c := change.(type) {
		case nil:
			delete(have, name)
		case map[string]any:
			inner, _ := have[name].(map[string]any)
			have[name] = mergePatch(inner, c)
		default:
			have[name] = c
		}
	}
	return have
}

// decodeAny decodes JSON with numbers as json.Number; nil if raw is not JSON.
func decodeAny(raw []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&v) // raw was checked before
	return v
}

// maxFaults bounds the faults in a response. A list may have a fault in each
// element.
const maxFaults = 100

// checkShape checks a body against the schema of a Go type.
func (s *server) checkShape(t reflect.Type, raw json.RawMessage) eventhook.Faults {
	return s.checkJSON(s.schemas.Schema(t, false, ""), raw)
}

// checkJSON checks a body against a schema.
func (s *server) checkJSON(schema *huma.Schema, raw json.RawMessage) (faults eventhook.Faults) {
	value, tooLarge := toFloats(decodeAny(raw))
	if tooLarge != nil {
		slices.Reverse(tooLarge)
		faults.Add(readable("body"+strings.Join(tooLarge, "")), "is a number that is too large")
	}
	faults = append(faults, s.checkNulls(schema, "body", value)...)
	return append(faults, s.checkValue(schema, "body", value)...)
}

// checkValue checks a value against a schema. It returns at most one fault per
// location: a value of a wrong length, for example, rarely matches the pattern.
func (s *server) checkValue(schema *huma.Schema, at string, value any) (faults eventhook.Faults) {
	seen := map[string]bool{}
	var found huma.ValidateResult
	huma.Validate(s.schemas, schema, huma.NewPathBuffer([]byte(at), len(at)), huma.ModeWriteToServer, value, &found)
	for _, err := range found.Errors[:min(len(found.Errors), maxFaults)] {
		var detailer huma.ErrorDetailer
		if !errors.As(err, &detailer) {
			continue
		}
		f := shapeFault(detailer.ErrorDetail())
		if !seen[f.Location] {
			faults = append(faults, f)
		}
		seen[f.Location] = true
	}
	return faults
}

// toFloats converts the numbers of a value to float64, as the validation of schemas
// requires. If a number is outside the range of float64, tooLarge is its path,
// innermost step first.
func toFloats(value any) (plain any, tooLarge []string) {
	at := func(inner any, step func() string) any {
		p, steps := toFloats(inner)
		if steps != nil && tooLarge == nil {
			tooLarge = append(steps, step())
		}
		return p
	}
	switch v := value.(type) {
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			tooLarge = []string{""}
		}
		return n, tooLarge
	case []any:
		for i := range v {
			v[i] = at(v[i], func() string { return "[" + strconv.Itoa(i) + "]" })
		}
	case map[string]any:
		for name := range v {
			v[name] = at(v[name], func() string { return "." + name })
		}
	}
	return value, tooLarge
}

// shapeFault returns a fault that the framework reports. A missing property is a fault at
// the property, not at its object.
func shapeFault(d *huma.ErrorDetail) eventhook.Fault {
	f := eventhook.Fault{Location: readable(d.Location), Message: readable(rewordedMessage(d))}
	if name, missing := missingProperty(f.Message); missing {
		return eventhook.Fault{Location: f.Location + "." + name, Message: "is required"}
	}
	return f
}

// missingProperty returns the property that a message of the framework reports as
// missing.
func missingProperty(message string) (name string, missing bool) {
	rest, ok := strings.CutPrefix(message, "expected required property ")
	return strings.TrimSuffix(rest, " to be present"), ok
}

// combinedError returns the error for the faults of the shape and of the rules of a
// body; nil without faults.
func combinedError(shape, rules eventhook.Faults) error {
	all := join(shape, rules)
	return all[:min(len(all), maxFaults)].Err(notValid)
}

// join returns the faults of the shape and of the rules. It omits faults of rules at
// or within a location whose shape is wrong.
func join(shape, rules eventhook.Faults) eventhook.Faults {
	all := slices.Clone(shape)
	for _, r := range rules {
		seen := slices.ContainsFunc(shape, func(f eventhook.Fault) bool {
			return f.Location == "body" || r.Location == f.Location ||
				strings.HasPrefix(r.Location, f.Location+".") || strings.HasPrefix(r.Location, f.Location+"[")
		})
		if !seen {
			all = append(all, r)
		}
	}
	return all
}
