package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// trial is the data of the page that tests a request to a source.
type trial struct {
	Source client.Source
	Tab    string
	Form   form
	Result *client.Explanation // nil before the first test
	Remedy remedy              // of a request that would be refused
}

// trySource explains whether a pasted request would be verified and how it would be routed.
func (c *Console) trySource(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	data := trial{Source: source, Tab: "test"}
	data.Form = r.formOf(url.Values{"method": {http.MethodPost}, "headers": {"Content-Type: application/json"}, "body": {"{}"}},
		"method", "headers", "body", "at")
	shown := view{Title: "Test " + source.Name, Data: &data}
	if r.Method != http.MethodPost {
		return shown, nil
	}
	result, err := r.api.TestSource(r.Context(), r.tenant, source.Slug, explainRequest(&data.Form))
	switch {
	case err == nil:
		data.Result = &result
		boundInputsOf(result.Routes)
		if result.Error != nil {
			reason, _, _ := strings.Cut(*result.Error, ":")
			data.Remedy = remedyOf(reason)
		} else if result.Refused != nil {
			data.Remedy = remedyOf(*result.Refused)
		}
	case data.Form.refuse(err):
		shown.Status = http.StatusUnprocessableEntity
	default:
		return view{}, err
	}
	return shown, nil
}

// explainRequest returns the request of the form. Line ends of the body are those of the browser's
// form, normalized to \n, because senders sign these.
func explainRequest(f *form) client.ExplainRequest {
	method, body := f.Get("method"), strings.ReplaceAll(f.Get("body"), "\r\n", "\n")
	in := client.ExplainRequest{Method: &method, Body: &body, Headers: map[string]any{}}
	for _, line := range lines(f.Get("headers")) {
		name, value, _ := strings.Cut(line, ":")
		in.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if at, ok := parseTime(f.Get("at")); ok {
		in.At = at
	}
	return in
}
