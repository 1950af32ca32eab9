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

// decodePath decodes the percent-encoded parameters of the path. The router returns
// them encoded if the path has several encodings. A parameter that cannot be decoded
// stays as it is and is reported as a fault.
func decodePath(ctx huma.Context) (faults eventhook.Faults) {
	c := humaecho.Unwrap(ctx)
	if c.Request().URL.RawPath == "" {
		return nil
	}
	names, values := c.ParamNames(), slices.Clone(c.ParamValues())
	for i, raw := range values {
		text, err := url.PathUnescape(raw)
		if err != nil {
			faults.Add("path."+names[i], "is not valid percent-encoding")
			continue
		}
		values[i] = text
	}
	c.SetParamValues(values...)
	return faults
}

// requestFaults collects the faults of a request. With one part that cannot be
// parsed, the request is malformed (400), whatever other faults it has; else it is
// invalid (422).
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

// checkRequest returns an error with all faults of the parameters and, if there are
// any, of the body as far as checkBody can find them. It also refuses a body for
// operations without one. Without faults, a body that the handler decodes stays
// unread.
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

// checkPath reports ids that are not UUIDs. Slugs and names of the wrong form are
// not reported here: no resource has them, so that the handler returns 404.
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

// checkQuery reports unknown, repeated and invalid query parameters. The framework
// would ignore unknown parameters and further values, so that a filter with a typo
// would have no effect.
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
		case values[0] != "": // an empty value counts as absent
			s.checkParameter(at, p.Schema, values[0], f)
		}
	}
}

func hasInvalidText(s string) bool { return eventhook.SanitizeText(s) != s }

// checkParameter checks the value of a parameter against its schema. Elements of
// lists are separated by commas.
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

// parse converts the text of a parameter to the type of its schema. wrong is the
// fault, "" if the conversion succeeds.
func parse(schema *huma.Schema, text string) (value any, wrong string) {
	var err error
	switch {
	case schema.Type == huma.TypeInteger:
		value, err = strconv.ParseInt(text, 10, 64)
		wrong = "must be an integer"
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

// retryAfter documents the header Retry-After of temporary failures.
func retryAfter(answers map[string]*huma.Response) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		if r := answers[strconv.Itoa(status)]; r != nil {
			r.Headers = map[string]*huma.Header{"Retry-After": {Description: "Seconds after which to retry, if known.",
				Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}}}
		}
	}
}
