package api

import (
	"bytes"
	_ "embed" // the page
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

//go:embed docs.html
var docsHTML string

var docsPage = template.Must(template.New("docs").Parse(docsHTML))

// docsPolicy lets the page load nothing: it is all there is.
const docsPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// registerDocs serves the OpenAPI document, and pages made of it that need
// nothing from elsewhere. Both are made when they are first asked for.
func registerDocs(e *echo.Echo, doc *huma.OpenAPI) {
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(doc) })
	e.GET("/openapi.json", func(c echo.Context) error {
		raw, err := document()
		if err != nil {
			return err
		}
		return c.Blob(http.StatusOK, "application/openapi+json", raw)
	})
	page := sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := docsPage.Execute(&b, describe(doc))
		return b.Bytes(), err
	})
	e.GET("/docs", func(c echo.Context) error {
		raw, err := page()
		if err != nil {
			return err
		}
		c.Response().Header().Set("Content-Security-Policy", docsPolicy)
		return c.Blob(http.StatusOK, echo.MIMETextHTMLCharsetUTF8, raw)
	})
}

// docs is what the page shows.
type docs struct {
	Title, Version string
	Groups         []docsGroup
}

type docsGroup struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Needs string
	Parameters, Body                 []docsField
	Answers                          []docsAnswer
}

type docsAnswer struct {
	Status, Meaning string
	Fields          []docsField
}

// docsField is a parameter, or a member of a body; Depth is how far it is nested.
type docsField struct {
	Name, In, Type, Doc string
	Required            bool
	Depth               int
}

func describe(doc *huma.OpenAPI) docs {
	d := docs{Title: doc.Info.Title, Version: doc.Info.Version}
	groups := map[string][]docsOperation{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		item := doc.Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				groups[op.Tags[0]] = append(groups[op.Tags[0]], describeOperation(doc, op))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		d.Groups = append(d.Groups, docsGroup{name, groups[name]})
	}
	return d
}

func describeOperation(doc *huma.OpenAPI, op *huma.Operation) docsOperation {
	o := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Needs: op.Description}
	for _, p := range op.Parameters {
		f := docsField{Name: p.Name, In: p.In, Doc: p.Description, Required: p.Required, Type: typeOf(doc, p.Schema)}
		o.Parameters = append(o.Parameters, f)
	}
	if op.RequestBody != nil {
		o.Body = fieldsOf(doc, op.RequestBody.Content, nil)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		a := docsAnswer{Status: status, Meaning: r.Description}
		if strings.HasPrefix(status, "2") {
			a.Fields = fieldsOf(doc, r.Content, nil)
		}
		o.Answers = append(o.Answers, a)
	}
	return o
}

func fieldsOf(doc *huma.OpenAPI, content map[string]*huma.MediaType, fields []docsField) []docsField {
	if json := content["application/json"]; json != nil {
		return members(doc, json.Schema, 0, fields)
	}
	return fields
}

// members lists a schema's members, each followed by its own.
func members(doc *huma.OpenAPI, s *huma.Schema, depth int, fields []docsField) []docsField {
	const deepest = 5
	s = resolve(doc, s)
	if s != nil && s.Items != nil {
		s = resolve(doc, s.Items)
	}
	if s == nil || depth > deepest {
		return fields
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name]
		fields = append(fields, docsField{Name: name, Type: typeOf(doc, member), Doc: member.Description,
			Required: slices.Contains(s.Required, name), Depth: depth})
		fields = members(doc, member, depth+1, fields)
	}
	return fields
}

func resolve(doc *huma.OpenAPI, s *huma.Schema) *huma.Schema {
	if s != nil && s.Ref != "" {
		return doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// typeOf is a schema in a few words.
func typeOf(doc *huma.OpenAPI, s *huma.Schema) string {
	s = resolve(doc, s)
	switch {
	case s == nil || s.Type == "":
		return "any JSON"
	case s.Items != nil:
		return "list of " + typeOf(doc, s.Items)
	}
	words := s.Type
	if s.Format != "" && s.Format != "int64" {
		words += " " + s.Format
	}
	var values []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			values = append(values, text)
		}
	}
	if len(values) > 0 {
		words += ": " + strings.Join(values, ", ")
	}
	if s.Nullable {
		words += " or null"
	}
	return words
}

// schemaName is what clients call a type of ours: without the words that say
// where in a request or an answer it stands.
func schemaName(t reflect.Type, hint string) string {
	name := strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "Body")
	if item, isPage := strings.CutPrefix(name, "Page"); isPage {
		return strings.TrimSuffix(item, "View") + "Page"
	}
	return strings.TrimSuffix(name, "View")
}

// Document is the OpenAPI document of a version, as a gateway of it serves it.
func Document(version string) *huma.OpenAPI {
	return Register(echo.New(), Deps{Version: version, Now: time.Now, Keys: noKeys{}}).OpenAPI()
}

// noKeys is never asked.
type noKeys struct{ KeyStore }
