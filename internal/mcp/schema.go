package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// pageSize is the default number of items of a page. Pages of the API are larger by default, and
// would fill the context of a model.
const pageSize = 20

// input describes the arguments of a tool.
type input struct {
	properties schema
	required   []string
	defs       schema // schemas to which the properties refer
	doc        *document
}

// newInput returns the arguments of an operation: its parameters and the members of its request
// body. The server itself sets the tenant. Headers are no arguments.
func newInput(doc *document, op operation, t tool) input {
	in := input{properties: schema{}, defs: schema{}, doc: doc}
	for _, p := range op.Parameters {
		if p.Name == tenantName || p.In == "header" {
			continue
		}
		in.properties[p.Name] = in.shorten(p.Schema)
		if p.Required {
			in.required = append(in.required, p.Name)
		}
	}
	body := doc.body(op)
	members, _ := body["properties"].(schema)
	for name, member := range members {
		in.properties[name] = in.shorten(member)
	}
	required, _ := body["required"].([]any)
	for _, name := range required {
		in.required = append(in.required, name.(string)) //nolint:forcetypeassert // JSON Schema, section 6.5.3 of the validation vocabulary
	}
	if t.counts && !slices.Contains(in.required, countName) {
		in.required = append(in.required, countName)
	}
	if limit, ok := in.properties["limit"].(schema); ok && limit["default"] != nil {
		limit["default"] = pageSize
	}
	return in
}

// MarshalJSON returns the JSON Schema of the arguments.
func (in input) MarshalJSON() ([]byte, error) {
	s := schema{"type": "object", "properties": in.properties, "additionalProperties": false}
	if len(in.required) > 0 {
		s["required"] = in.required
	}
	if len(in.defs) > 0 {
		s["$defs"] = in.defs
	}
	return json.Marshal(s)
}

// names returns the names of the arguments in alphabetical order.
func (in input) names() []string { return slices.Sorted(maps.Keys(in.properties)) }

// shorten returns a copy of a part of a schema without examples, which would fill the context of
// a model. References lead to in.defs.
func (in input) shorten(part any) any {
	switch v := part.(type) {
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = in.shorten(item)
		}
		return list
	case schema:
		out := schema{}
		for name, value := range v {
			if ref, ok := value.(string); ok && name == "$ref" {
				out[name] = in.define(strings.TrimPrefix(ref, refPrefix))
			} else if _, isList := value.([]any); name != "examples" || !isList {
				out[name] = in.shorten(value)
			}
		}
		return out
	}
	return part
}

// define adds a schema of the document to in.defs, and returns a reference to it.
func (in input) define(name string) string {
	if _, defined := in.defs[name]; !defined {
		in.defs[name] = schema{} // ends the recursion of a schema that refers to itself
		in.defs[name] = in.shorten(in.doc.Components.Schemas[name])
	}
	return "#/$defs/" + name
}
