package targets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// httpRequest sends the event to a URL.
type httpRequest struct {
	URL            string            `json:"url" maxLength:"2048" example:"https://internal.example/hook" doc:"Where it is sent, http or https. No user, no password: they belong in auth_header."`
	Method         string            `json:"method,omitempty" enum:"POST,PUT,PATCH" doc:"POST by default."`
	Headers        map[string]string `json:"headers,omitempty" maxProperties:"50" doc:"More headers; none that the gateway sets, and no credentials: they are shown to whoever may read the route."`
	AuthHeader     string            `json:"auth_header,omitempty" secret:"url" maxLength:"4096" example:"Bearer t0k" doc:"The value of Authorization. It is never shown; [redacted], which is shown instead, keeps the one that is stored as long as scheme, host and port of the url stay the same."`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"60" doc:"How long an answer may take; 0: the default, 10."`
	Retry          *TargetRetry      `json:"retry,omitempty" doc:"When a request that failed is made again; the retry of the source by default."`
	Body           string            `json:"body,omitempty" enum:"input,raw" doc:"What is sent: input, which is the default, the event as JSON or what the transform made of it; raw, the exact bytes with the headers they came with, so that the receiver can verify the provider's signature."`
}

// The bounds of what is configured.
const (
	longestURL     = 2048
	mostHeaders    = 50
	longestTimeout = 60 // seconds
	defaultTimeout = 10
)

const (
	bodyInput = "input"
	bodyRaw   = "raw"
)

func (s *httpRequest) Check() (f eventhook.Faults) {
	if wrong := checkURL(s.URL); wrong != "" {
		f.Add("url", "%s", wrong)
	}
	checkOneOf(&f, "method", s.Method, http.MethodPost, http.MethodPut, http.MethodPatch)
	if len(s.Headers) > mostHeaders {
		f.Add("headers", "%d, at most %d are allowed", len(s.Headers), mostHeaders)
	}
	seen := map[string]bool{}
	for _, name := range sorted(s.Headers) {
		at := "headers." + eventhook.SanitizeLabel(name)
		if wrong := eventhook.CheckHeader(name, s.Headers[name], ours...); wrong != "" {
			f.Add(at, "%s", wrong)
		}
		if canonical := http.CanonicalHeaderKey(name); seen[canonical] {
			f.Add(at, "is given twice: upper and lower case mean the same")
		} else {
			seen[canonical] = true
		}
	}
	if !eventhook.IsHeaderValue(s.AuthHeader) {
		f.Add("auth_header", "must be a line of at most %d bytes of text, with no space around it", eventhook.MaxHeaderValue)
	}
	checkRange(&f, "timeout_seconds", s.TimeoutSeconds, 0, longestTimeout)
	f.Merge("retry", s.Retry.Policy().Validate())
	checkOneOf(&f, "body", s.Body, bodyInput, bodyRaw)
	return f
}

// checkURL says what is wrong with a URL, "" if nothing; without it, since it
// may hold a password.
func checkURL(text string) string {
	const want = "must be a URL such as https://internal.example/hook"
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "is required: where the event is sent"
	case len(text) > longestURL:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), longestURL)
	case err != nil || !isText(text) || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return want
	case u.User != nil:
		return "must hold no user and no password: say them in auth_header"
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "must have no fragment: nothing behind # is sent"
	}
	return ""
}

func (s *httpRequest) Compile(d Deps) (Effector, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %s", checkURL(s.URL))
	}
	if d.CheckHost != nil {
		if err := d.CheckHost(u); err != nil {
			return nil, err
		}
	}
	r := &HTTP{
		url: u, method: cmp.Or(s.Method, http.MethodPost), header: http.Header{}, raw: s.Body == bodyRaw, retry: s.Retry,
		timeout: time.Duration(cmp.Or(s.TimeoutSeconds, defaultTimeout)) * time.Second, place: fmt.Sprintf("%s/%d", d.route, d.index),
	}
	for name, value := range s.Headers {
		r.header.Set(name, value)
	}
	if s.AuthHeader != "" {
		r.authorization = eventhook.NewSecret(s.AuthHeader)
	}
	return r, nil
}

// Effect asks for a request. Its body is stored only if it cannot be composed of the
// event again: if a transform made it.
func (r *HTTP) Effect(e *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	q := &effects.Request{}
	if made := v.Transformed(); made != nil && !r.raw {
		q.Body = made
	}
	q.Preview = func() json.RawMessage { return r.preview(e, q.Body) }
	return effects.Effect{Request: q}, nil
}
