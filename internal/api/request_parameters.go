package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/eventhook/eventhook"
)

// decodePath gives the path's parameters the text that they stand for, once.
// The router leaves them as they are written, but for paths of which there is
// one way to write them. What cannot be decoded stays, and is a fault.
func decodePath(ctx huma.Context) (faults eventhook.Faults) {
	c := humaecho.Unwrap(ctx)
	if c.Request().URL.RawPath == "" {
		return nil
	}
	names, values := c.ParamNames(), slices.Clone(c.ParamValues())
	for i, raw := range values {
		text, err := url.PathUnescape(raw)
		if err != nil {
			faults.Add("path."+names[i], "is not percent-encoded as it must be")
			continue
		}
		values[i] = text
	}
	c.SetParamValues(values...)
	return faults
}

// findings are what is wrong with a request: with one thing that cannot be
// parsed it is malformed, whatever else is wrong with it.
type requestFaults struct {
	faults   eventhook.Faults
	unparsed bool
}

func (f *requestFaults) addUnparsable(at, why string) {
	f.faults.Add(readable(at), "%s", why)
	f.unparsed = true
}

func (f *requestFaults) err() error {
	all := f.faults[:min(len(f.faults), maxFaults)]
	if f.unparsed {
		return malformed(all)
	}
	return all.Err(notValid)
}

// checkRequest tells all that is wrong with a request's parameters at once,
// with the shape of its body as far as that can be told; and refuses a body
// where none is taken. It reads no body that a handler shall have.
func (s *server) checkRequest(ctx huma.Context, undecoded eventhook.Faults) error {
	f := requestFaults{undecoded, len(undecoded) > 0}
	s.checkPath(ctx, &f)
	s.checkQuery(ctx, &f)
	switch {
	case ctx.Operation().RequestBody == nil:
		if err := checkNoBody(ctx, &f); err != nil {
			return err
		}
	case len(f.faults) > 0:
		s.checkBody(ctx, &f)
	}
	return f.err()
}

// checkPath refuses ids that are none. Slugs and names that are none are those
// of nothing that is there.
func (s *server) checkPath(ctx huma.Context, f *requestFaults) {
	for _, p := range ctx.Operation().Parameters {
		if p.In != "path" || p.Schema.Format != "uuid" {
			continue
		}
		before := len(f.faults)
		idAt[struct{}](&f.faults, "path."+p.Name, ctx.Param(p.Name))
		f.unparsed = f.unparsed || len(f.faults) > before
	}
}

// checkQuery looks at what is named in the query. What cannot be read would
// else filter nothing, and a second value would be left out.
func (s *server) checkQuery(ctx huma.Context, f *requestFaults) {
	known := map[string]*huma.Param{}
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" {
			known[p.Name] = p
		}
	}
	u := ctx.URL()
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		f.addUnparsable("query", "cannot be parsed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		at, values := "query."+name, query[name]
		switch p := known[name]; {
		case slices.ContainsFunc(append(slices.Clone(values), name), hasInvalidText):
			f.addUnparsable(at, "must be UTF-8 without NUL")
		case p == nil:
			f.faults.Add(readable(at), "unknown query parameter")
		case len(values) > 1:
			f.addUnparsable(at, "is given more than once")
		case values[0] != "": // what is empty is not there
			s.checkParameter(at, p.Schema, values[0], f)
		}
	}
}

func hasInvalidText(s string) bool { return eventhook.SanitizeText(s) != s }

// checkParameter holds what a parameter says against its schema. The elements
// of lists have commas between them.
func (s *server) checkParameter(at string, schema *huma.Schema, text string, f *requestFaults) {
	if schema.Type == huma.TypeArray {
		var list []any
		for element := range strings.SplitSeq(text, ",") {
			list = append(list, element)
		}
		f.faults = append(f.faults, s.checkValue(schema, at, list)...)
		return
	}
	value, wrong := parse(schema, text)
	if wrong != "" {
		f.addUnparsable(at, wrong)
		return
	}
	f.faults = append(f.faults, s.checkValue(schema, at, value)...)
}

// parse reads a text as what a schema describes.
func parse(schema *huma.Schema, text string) (value any, wrong string) {
	var err error
	switch {
	case schema.Type == huma.TypeInteger:
		value, err = strconv.ParseInt(text, 10, 64)
		wrong = "must be a whole number"
	case schema.Type == huma.TypeBoolean:
		value, err = strconv.ParseBool(text)
		wrong = "must be true or false"
	case schema.Format == "date-time":
		_, err = time.Parse(time.RFC3339, text)
		value, wrong = text, "must be a time such as 2030-01-31T12:00:00Z"
	case schema.Format == "uuid":
		_, err = eventhook.ParseID[struct{}](text)
		value, wrong = text, "is not a UUID"
	default:
		value = text
	}
	if err != nil {
		return nil, wrong
	}
	return value, ""
}

// retryAfter documents the header of an answer that is not for ever.
func retryAfter(answers map[string]*huma.Response) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		if r := answers[strconv.Itoa(status)]; r != nil {
			r.Headers = map[string]*huma.Header{"Retry-After": {Description: "Seconds after which to retry, if known.",
				Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}}}
		}
	}
}
