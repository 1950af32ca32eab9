package api

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

const mustNotBeNull = "must not be null"

// nullError reports the places of nulls in a body that the framework decodes. The
// framework keeps only its text, of which newProblem makes faults again.
type nullError eventhook.Faults

// Error lists the places, a line each.
func (e nullError) Error() string {
	var b strings.Builder
	b.WriteString(nullsAt)
	for _, f := range e {
		b.WriteString("\n" + f.Location)
	}
	return b.String()
}

// nullsAt begins the text of a nullError.
const nullsAt = "must not be null:"

// checkDecoded returns a nullError if a body of an operation has null where its
// schema forbids it. v points to the type that the body is decoded into.
func (s *server) checkDecoded(data []byte, v any) error {
	schema := s.bodies[reflect.TypeOf(v)]
	if schema == nil || !bytes.Contains(data, []byte("null")) {
		return nil
	}
	if faults := s.checkNulls(schema, "body", decodeAny(data)); len(faults) > 0 {
		return nullError(faults[:min(len(faults), maxFaults)])
	}
	return nil
}

// bodyOf returns the type of a pointer to the member Body of a request, nil
// without one.
func bodyOf(request reflect.Type) reflect.Type {
	if field, ok := request.FieldByName("Body"); ok {
		return reflect.PointerTo(field.Type)
	}
	return nil
}

// checkNulls reports every null that stands where the schema wants something
// else. The framework takes null for an optional member that is absent, but the
// sender of {"is_enabled": null} may well have meant false. A merge patch is
// looked at after it was merged, so null still takes a member back to its
// default.
func (s *server) checkNulls(schema *huma.Schema, at string, value any) (faults eventhook.Faults) {
	schema = s.resolved(schema)
	switch v := value.(type) {
	case []any:
		for i := range v {
			if schema.Items != nil {
				faults = append(faults, s.checkNulls(schema.Items, at+"["+strconv.Itoa(i)+"]", v[i])...)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, isNamed := memberSchema(schema, name)
			if v[name] != nil {
				if member != nil {
					faults = append(faults, s.checkNulls(member, at+"."+name, v[name])...)
				}
				continue
			}
			// The framework reports the others itself.
			if isOptional := isNamed && !slices.Contains(schema.Required, name); isOptional && !s.allowsNull(member) {
				faults.Add(readable(at+"."+name), mustNotBeNull)
			}
		}
	}
	return faults
}

// resolved follows a reference.
func (s *server) resolved(schema *huma.Schema) *huma.Schema {
	if schema.Ref != "" {
		return s.schemas.SchemaFromRef(schema.Ref)
	}
	return schema
}

// memberSchema is the schema of an object's member, nil if there is none, and
// whether the object's schema names the member.
func memberSchema(schema *huma.Schema, name string) (member *huma.Schema, isNamed bool) {
	if member := schema.Properties[name]; member != nil {
		return member, true
	}
	member, _ = schema.AdditionalProperties.(*huma.Schema)
	return member, false
}

func (s *server) allowsNull(schema *huma.Schema) bool {
	schema = s.resolved(schema)
	isAny := schema.Type == "" && len(schema.OneOf)+len(schema.AnyOf)+len(schema.AllOf) == 0
	return schema.Nullable || isAny || slices.ContainsFunc(slices.Concat(schema.OneOf, schema.AnyOf), s.allowsNull)
}
