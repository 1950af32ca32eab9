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

// document is a JSON body of the shape of T that a handler checks itself, so
// that what breaks the shape and what breaks a rule are told together. The
// operation must say skipsShape.
type document[T any] struct{ raw json.RawMessage }

// Schema implements huma.SchemaProvider: the document is described as a T.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *document[T]) UnmarshalJSON(raw []byte) error {
	d.raw = bytes.Clone(raw)
	return nil
}

// read returns the document, as far as it can be read, and what is wrong with
// its shape, each under body.
func (d document[T]) read(s *server) (v T, faults eventhook.Faults) {
	if faults = checkValues(d.raw); faults != nil {
		return v, faults
	}
	texts := checkTexts(d.raw)
	v, faults = d.readShape(s)
	return v, join(texts, faults)
}

// shaped is read without a look at the texts.
func (d document[T]) readShape(s *server) (v T, faults eventhook.Faults) {
	faults = s.checkShape(reflect.TypeFor[T](), d.raw)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(d.raw, &v)); ok && len(faults) == 0 {
		faults.Add(fieldLocation(wrong.Field), "must be a whole number, and written as one")
	}
	return v, faults
}

// fieldLocation is where a field is in a body: its path without the parts of ours
// that are embedded, which are named as Go does. A schema takes 1e3 for a whole
// number, and Go does not.
func fieldLocation(path string) string {
	at := "body"
	for step := range strings.SplitSeq(path, ".") {
		if step != "" && (step[0] < 'A' || step[0] > 'Z') {
			at += "." + step
		}
	}
	return at
}

// patched is what a thing becomes by the document, a JSON merge patch (RFC
// 7396): what it names changes, members of objects each for themselves, and
// null takes a member back to its default. Members named in whole are
// replaced as they are, nulls in them included. The faults are those of the
// whole thing as it would be.
func (d document[T]) mergePatched(s *server, thing T, whole ...string) (v T, faults eventhook.Faults, err error) {
	if faults = checkValues(d.raw); faults != nil {
		return thing, faults, nil
	}
	var patch map[string]json.RawMessage
	_ = json.Unmarshal(d.raw, &patch)
	if patch == nil { // it is no object
		return thing, s.checkShape(reflect.TypeFor[T](), d.raw), nil
	}
	raw, err := json.Marshal(thing)
	if err != nil {
		return thing, nil, err
	}
	have, _ := decodeAny(raw).(map[string]any)
	changes, _ := decodeAny(d.raw).(map[string]any)
	merged := mergePatch(have, changes)
	for _, name := range whole {
		if as, named := patch[name]; named && string(as) != "null" {
			merged[name] = as
		}
	}
	if raw, err = json.Marshal(merged); err != nil {
		return thing, nil, err
	}
	v, faults = document[T]{raw}.readShape(s)
	faults = join(checkTexts(d.raw), faults)
	known := s.schemas.Schema(reflect.TypeFor[T](), false, "").Properties
	for name, change := range changes {
		if change == nil && known[name] == nil { // which the merge has dropped
			faults.Add("body."+readable(name), "unexpected property")
		}
	}
	return v, faults, nil
}

// mergePatch changes an object by another, which may be nil.
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

// decodeAny reads JSON with its numbers as they are written; nil if it is none.
func decodeAny(raw []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&v) // the body has been read as JSON
	return v
}

// maxFaults bounds an answer: a list can hold a fault in each of its elements.
const maxFaults = 100

// checkShape holds a body against the schema of a type.
func (s *server) checkShape(t reflect.Type, raw json.RawMessage) eventhook.Faults {
	return s.checkJSON(s.schemas.Schema(t, false, ""), raw)
}

// checkJSON holds a body against a schema.
func (s *server) checkJSON(schema *huma.Schema, raw json.RawMessage) (faults eventhook.Faults) {
	value, tooLarge := toFloats(decodeAny(raw))
	if tooLarge != nil {
		slices.Reverse(tooLarge)
		faults.Add(readable("body"+strings.Join(tooLarge, "")), "is too large a number")
	}
	faults = append(faults, s.checkNulls(schema, "body", value)...)
	return append(faults, s.checkValue(schema, "body", value)...)
}

// checkValue holds a value against a schema, and tells one fault of a place:
// what has a wrong length seldom fits a pattern either.
func (s *server) checkValue(schema *huma.Schema, at string, value any) (faults eventhook.Faults) {
	seen := map[string]bool{}
	var found huma.ValidateResult
	huma.Validate(s.schemas, schema, huma.NewPathBuffer([]byte(at), len(at)), huma.ModeWriteToServer, value, &found)
	for _, err := range found.Errors[:min(len(found.Errors), maxFaults)] {
		var detailer huma.ErrorDetailer
		if !errors.As(err, &detailer) {
			continue
		}
		f := eventhook.Fault{Location: readable(detailer.ErrorDetail().Location), Message: readable(rewordedMessage(detailer.ErrorDetail()))}
		if name, missing := missingProperty(f.Message); missing {
			f = eventhook.Fault{Location: f.Location + "." + name, Message: "is required"}
		}
		if !seen[f.Location] {
			faults = append(faults, f)
		}
		seen[f.Location] = true
	}
	return faults
}

// toFloats makes the numbers in a value float64, as schemas want them. The
// steps lead from the inside to a number that is too large, if there is one.
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

// missingProperty reads the framework's words for one.
func missingProperty(message string) (name string, missing bool) {
	rest, ok := strings.CutPrefix(message, "expected required property ")
	return strings.TrimSuffix(rest, " to be present"), ok
}

// together is the error that tells what is wrong with a body's shape and what
// breaks a rule; nil if nothing is.
func combinedError(shape, rules eventhook.Faults) error {
	all := join(shape, rules)
	return all[:min(len(all), maxFaults)].Err(notValid)
}

// join leaves out the rules about a place whose shape is wrong, or within it:
// they say nothing new.
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
