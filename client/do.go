package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
)

// Request is a call of an operation that a program names by its method and path, for example
// because it reads the OpenAPI document of the API.
type Request struct {
	Method string
	Path   string            // as in the document, such as /api/admin/tenants/{tenant}
	Names  map[string]string // the value of each name in braces
	Query  url.Values
	Body   json.RawMessage // nil: no body; valid JSON is sent unchanged
}

// Do calls an operation and returns the body of the response. The methods of Client, which have
// types for requests and responses, are easier to use.
func (c *Client) Do(ctx context.Context, r Request, options ...CallOption) ([]byte, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	format, names := r.format()
	call := request{method: r.Method, path: path(format, names...), query: r.Query}
	if r.Body != nil {
		call.body = r.Body
	}
	return c.read(ctx, call, options)
}

// format returns the path with %s instead of each name in braces, and the values of these names.
func (r Request) format() (format string, values []any) {
	for rest := r.Path; ; {
		before, after, _ := strings.Cut(rest, "{")
		name, next, isName := strings.Cut(after, "}")
		if !isName {
			return format + rest, values
		}
		format, values, rest = format+before+"%s", append(values, r.Names[name]), next
	}
}
