package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
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

// The page is one document. Its style and script are separate files, so that they can
// be edited and hashed.
var (
	//go:embed docs.html
	docsHTML string
	//go:embed docs.css
	docsStyle string
	//go:embed docs.js
	docsScript string
)

var docsPage = template.Must(template.New("docs").Parse(docsHTML))

// docsPolicy allows the style and the script of the page by their hashes, and loads
// nothing else.
var docsPolicy = "default-src 'none'; style-src '" + cspHash(docsStyle) + "'; script-src '" + cspHash(docsScript) +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// cspHash returns the source expression for an inline element in a Content-Security-Policy.
func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// registerDocs serves the OpenAPI document and a page that is generated from it. Both are built on
// the first request. publicURL is the server of the curl commands.
func registerDocs(e *echo.Echo, doc *huma.OpenAPI, publicURL string) {
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
		err := docsPage.Execute(&b, newDocs(doc, publicURL))
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

// docs is the content of the page.
type docs struct {
	Title, Version string
	About          []string // paragraphs
	Style          template.CSS
	Script         template.JS
	Groups         []docsGroup
}

type docsGroup struct {
	Name, About string
	Operations  []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, About string
	Curl                             string
	Parameters, Body                 []docsField
	Answers, Errors                  []docsAnswer
}

type docsAnswer struct {
	Status, Meaning, Example string
	Fields                   []docsField
}

// docsField is a parameter, or a member of a body. Depth counts the members around it.
type docsField struct {
	Name, In, Type, Doc string
	Required            bool
	Depth               int
}

func newDocs(doc *huma.OpenAPI, publicURL string) docs {
	d := docs{Title: doc.Info.Title, Version: doc.Info.Version, About: strings.Split(doc.Info.Description, "\n\n"),
		Style: template.CSS(docsStyle), Script: template.JS(docsScript)} //nolint:gosec // constants of this package
	server := cmp.Or(strings.TrimRight(publicURL, "/"), "http://localhost:8080")
	groups, all := map[string][]docsOperation{}, examples()
	for op := range operationsOf(doc) {
		o := newDocsOperation(doc, op)
		o.Curl = curl(server, op, all[op.OperationID])
		groups[op.Tags[0]] = append(groups[op.Tags[0]], o)
	}
	for _, tag := range doc.Tags {
		d.Groups = append(d.Groups, docsGroup{tag.Name, tag.Description, groups[tag.Name]})
	}
	return d
}

func newDocsOperation(doc *huma.OpenAPI, op *huma.Operation) docsOperation {
	o := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, About: op.Description}
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
		if !strings.HasPrefix(status, "2") {
			o.Errors = append(o.Errors, a)
			continue
		}
		a.Fields, a.Example = fieldsOf(doc, r.Content, nil), exampleText(r.Content)
		o.Answers = append(o.Answers, a)
	}
	return o
}

// exampleText returns the first example of a response, indented; "" without one.
func exampleText(content map[string]*huma.MediaType) string {
	for _, contentType := range slices.Sorted(maps.Keys(content)) {
		media := content[contentType]
		value := media.Example
		if value == nil && media.Examples["event"] != nil {
			value = media.Examples["event"].Value
		}
		if text, ok := value.(string); ok {
			return text
		}
		if value != nil {
			return indented(value)
		}
	}
	return ""
}

// indented returns a value as indented JSON without escaping <, > and &.
func indented(value any) string {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	_ = out.Encode(value) // examples can be encoded, see the tests
	return strings.TrimSpace(b.String())
}

// curl returns the command that sends the example of an operation. Examples must not
// contain a single quote.
func curl(server string, op *huma.Operation, x example) string {
	url := server + op.Path
	for _, p := range op.Parameters {
		if p.In == "path" {
			url = strings.ReplaceAll(url, "{"+p.Name+"}", examplePath(op.Path, p.Name))
		}
	}
	if x.query != "" {
		url += "?" + x.query
	}
	command := "curl"
	if op.OperationID == "stream-events" {
		command += " --no-buffer"
	}
	if op.Method != http.MethodGet {
		command += " -X " + op.Method
	}
	lines := []string{command + " '" + url + "'", `  -H "Authorization: Bearer $KEY"`}
	if x.request != "" {
		lines = append(lines, "  -H 'Content-Type: application/json'", "  -d '"+indented(json.RawMessage(x.request))+"'")
	}
	return strings.Join(lines, " \\\n")
}

func fieldsOf(doc *huma.OpenAPI, content map[string]*huma.MediaType, fields []docsField) []docsField {
	if json := content["application/json"]; json != nil {
		return members(doc, json.Schema, 0, fields)
	}
	return fields
}

// members lists the members of a schema, each followed by its own members.
func members(doc *huma.OpenAPI, s *huma.Schema, depth int, fields []docsField) []docsField {
	const maxDepth = 5
	s = resolve(doc, s)
	if s != nil && s.Items != nil {
		s = resolve(doc, s.Items)
	}
	if s == nil || depth > maxDepth {
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

// typeOf describes the type of a schema in a few words.
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

// schemaName returns the name of a type in the document: without the suffixes View and
// Body, which say whether a type belongs to a request or a response.
func schemaName(t reflect.Type, hint string) string {
	name := strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "Body")
	if item, isPage := strings.CutPrefix(name, "Page"); isPage {
		return strings.TrimSuffix(item, "View") + "Page"
	}
	return strings.TrimSuffix(name, "View")
}

// Document returns the OpenAPI document that a gateway of this version serves.
func Document(version string) *huma.OpenAPI {
	return Register(echo.New(), Deps{Version: version, Now: time.Now, Keys: noKeys{}}).OpenAPI()
}

// noKeys is the KeyStore of a document that serves no requests.
type noKeys struct{ KeyStore }
