package targets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// httpRequest sends the event to a URL.
type httpRequest struct {
	URL            string            `json:"url" maxLength:"2048" example:"https://internal.example/hook" doc:"The http or https URL to which the event is sent. It must not contain a user or a password; use auth or auth_header."`
	Method         string            `json:"method,omitempty" enum:"POST,PUT,PATCH" doc:"The HTTP method. The default is POST."`
	Headers        map[string]string `json:"headers,omitempty" maxProperties:"50" doc:"Additional headers. They must not be headers that the gateway sets, and must not hold credentials, because everyone who can read the route sees them."`
	AuthHeader     string            `json:"auth_header,omitempty" secret:"url" maxLength:"4096" example:"Bearer t0k" doc:"The value of the Authorization header. Responses show [redacted] instead. Writing [redacted] keeps the stored value as long as the scheme, host and port of the url stay the same and target_labels gains no label."`
	Auth           *eventhook.Auth   `json:"auth,omitempty" secret:"url" doc:"How the gateway authenticates to the receiver, instead of auth_header. Responses show [redacted] for its secrets. Writing [redacted] keeps the stored value as long as the scheme, host and port of the url and of token_url stay the same and target_labels gains no label."`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"60" doc:"How long to wait for the response, in seconds. 0 means the default, 10."`
	Retry          *TargetRetry      `json:"retry,omitempty" doc:"When a failed request is retried. The default is the retry policy of the source."`
	TargetLabels   []string          `json:"target_labels,omitzero" maxItems:"20" example:"[\"env:prod\"]" doc:"Labels of the agent that sends the requests: an agent must have all of them. Empty (default): the gateway sends."`
	Body           string            `json:"body,omitempty" enum:"input,raw" doc:"What is sent. input, the default, sends the event as JSON or the output of the transform. raw sends the received bytes and headers unchanged, so that the receiver can verify the provider's signature."`
}

// Limits of the settings.
const (
	maxURL         = 2048
	maxHeaders     = 50
	maxTimeout     = 60 // seconds
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
	eventhook.CheckLabels(&f, "target_labels", s.TargetLabels)
	if len(s.Headers) > maxHeaders {
		f.Add("headers", "%d, at most %d are allowed", len(s.Headers), maxHeaders)
	}
	seen := map[string]bool{}
	for _, name := range sorted(s.Headers) {
		at := "headers." + eventhook.SanitizeLabel(name)
		if wrong := eventhook.CheckHeader(name, s.Headers[name], gatewayHeaders...); wrong != "" {
			f.Add(at, "%s", wrong)
		}
		if canonical := http.CanonicalHeaderKey(name); seen[canonical] {
			f.Add(at, "is given twice: header names are case-insensitive")
		} else {
			seen[canonical] = true
		}
	}
	if !eventhook.IsHeaderValue(s.AuthHeader) {
		f.Add("auth_header", "must be one line of at most %d bytes of text without leading or trailing space", eventhook.MaxHeaderValue)
	}
	f.Merge("auth", s.checkAuth())
	checkRange(&f, "timeout_seconds", s.TimeoutSeconds, 0, maxTimeout)
	f.Merge("retry", s.Retry.Policy().Validate())
	checkOneOf(&f, "body", s.Body, bodyInput, bodyRaw)
	return f
}

func (s *httpRequest) checkAuth() (f eventhook.Faults) {
	if s.Auth == nil {
		return nil
	}
	f = s.Auth.Validate()
	f = slices.DeleteFunc(f, func(one eventhook.Fault) bool { return s.Auth.IsRedacted(one.Location) }) // KeepSecrets replaces or reports these
	f.Merge("", s.Auth.CheckDestination(s.URL, len(s.TargetLabels) > 0))
	if s.AuthHeader != "" {
		f.Add("", "cannot be combined with auth_header: set one of them")
	}
	return f
}

// checkURL describes the fault of a URL, or returns "" if the URL is valid. The text does not quote
// the URL, which may hold a password.
func checkURL(text string) string {
	const wantURL = "must be a URL such as https://internal.example/hook"
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "is required: the URL to which the event is sent"
	case len(text) > maxURL:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), maxURL)
	case err != nil || !isText(text) || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" || !eventhook.IsPort(u.Port()):
		return wantURL
	case u.User != nil:
		return "must not contain a user or a password: use auth or auth_header"
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "must not have a fragment: the part after # is never sent"
	}
	return ""
}

func (s *httpRequest) Compile(d Deps) (Effector, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %s", checkURL(s.URL))
	}
	if d.CheckHost != nil {
		if err := s.checkHosts(u, d.CheckHost); err != nil {
			return nil, err
		}
	}
	r := &HTTP{
		url: u, method: cmp.Or(s.Method, http.MethodPost), header: http.Header{}, raw: s.Body == bodyRaw, retry: s.Retry, auth: s.Auth, labels: s.TargetLabels,
		timeout: time.Duration(cmp.Or(s.TimeoutSeconds, defaultTimeout)) * time.Second, idempotencyPrefix: fmt.Sprintf("%s/%d", d.route, d.index),
	}
	for name, value := range s.Headers {
		r.header.Set(name, value)
	}
	if s.AuthHeader != "" {
		r.authorization = eventhook.NewSecret(s.AuthHeader)
	}
	return r, nil
}

// checkHosts checks the hosts to which the gateway sends requests. An agent checks the host of the
// URL itself.
func (s *httpRequest) checkHosts(to *url.URL, check func(*url.URL) error) error {
	if len(s.TargetLabels) == 0 {
		if err := check(to); err != nil {
			return err
		}
	}
	if s.Auth == nil || s.Auth.TokenURL == "" {
		return nil
	}
	endpoint, err := url.Parse(s.Auth.TokenURL)
	if err != nil {
		return errors.New("auth.token_url is not a valid URL") //nolint:err113 // the cause may quote a secret
	}
	return check(endpoint)
}

// Effect returns a request. Its body is stored only if a transform produced it; otherwise the body
// is composed from the event at each attempt.
func (r *HTTP) Effect(e *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	q := &effects.Request{}
	if output := v.Transformed(); output != nil && !r.raw {
		q.Body = output
	}
	q.Preview = func() json.RawMessage { return r.preview(e, q.Body) }
	return effects.Effect{Request: q}, nil
}
