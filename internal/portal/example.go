package portal

import (
	"maps"
	"slices"
)

// Limits of an example, so that a schema of any size makes a short one.
const (
	exampleDepth   = 6
	exampleMembers = 30
)

// formats are example texts by the format of a JSON Schema.
var formats = map[string]string{"date-time": "2026-01-31T14:02:11Z", "date": "2026-01-31", "time": "14:02:11Z", "email": "ada@example.com",
	"uri": "https://example.com/", "uuid": "01a2c84f-0000-7000-8000-000000000001", "hostname": "example.com", "ipv4": "192.0.2.1"}

// exampleOf returns a value that a JSON Schema describes: the example of the schema if it has one,
// else one that is built from types, formats and the first of several choices.
func exampleOf(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > exampleDepth {
		return nil
	}
	for _, list := range []string{"examples", "enum"} {
		if values, ok := s[list].([]any); ok && len(values) > 0 {
			return values[0]
		}
	}
	for _, name := range []string{"example", "const", "default"} {
		if value, ok := s[name]; ok {
			return value
		}
	}
	for _, choice := range []string{"oneOf", "anyOf", "allOf"} {
		if list, ok := s[choice].([]any); ok && len(list) > 0 && s["properties"] == nil {
			return exampleOf(list[0], depth+1)
		}
	}
	return exampleOfType(s, depth)
}

func exampleOfType(s map[string]any, depth int) any {
	switch typeName(s) {
	case "object":
		return exampleObject(s, depth)
	case "array":
		if item := exampleOf(s["items"], depth+1); item != nil {
			return []any{item}
		}
		return []any{}
	case "string":
		if format, ok := s["format"].(string); ok && formats[format] != "" {
			return formats[format]
		}
		return "text"
	case "integer", "number":
		if low, ok := s["minimum"].(float64); ok {
			return low
		}
		return 1
	case "boolean":
		return true
	}
	return nil
}

// typeName returns the type of a schema; the first that is not null of several.
func typeName(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok && name != "null" {
				return name
			}
		}
	}
	if s["properties"] != nil {
		return "object"
	}
	return ""
}

func exampleObject(s map[string]any, depth int) map[string]any {
	example := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties))[:min(len(properties), exampleMembers)] {
		example[name] = exampleOf(properties[name], depth+1)
	}
	return example
}
