package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
)

// document is the part of an OpenAPI document that describes the tools.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

// schema is a JSON Schema.
type schema = map[string]any

// operation is an operation of the document.
type operation struct {
	ID          string `json:"operationId"`
	Summary     string
	Description string
	Parameters  []parameter
	RequestBody *struct {
		Content map[string]struct{ Schema schema }
	}

	method, path string
}

// parameter is a parameter of an operation.
type parameter struct {
	Name, In    string
	Description string
	Required    bool
	Schema      schema
}

// readDocument returns the document and its operations by their ids.
func readDocument(raw []byte) (*document, map[string]operation, error) {
	doc := &document{}
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	all := map[string]operation{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			op.method, op.path = strings.ToUpper(method), path
			all[op.ID] = op
		}
	}
	return doc, all, nil
}

// body returns the schema of the request body, or nil if the operation has none.
func (d *document) body(op operation) schema {
	if op.RequestBody == nil {
		return nil
	}
	return d.resolve(op.RequestBody.Content["application/json"].Schema)
}

const refPrefix = "#/components/schemas/"

// resolve follows the reference of a schema.
func (d *document) resolve(s schema) schema {
	if ref, ok := s["$ref"].(string); ok {
		return d.Components.Schemas[strings.TrimPrefix(ref, refPrefix)]
	}
	return s
}
