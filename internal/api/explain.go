package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/verify"
)

// ExplainStore reads the data with which requests to a source are checked.
type ExplainStore interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
	// FindIdempotencyKey returns the event that a source accepted with an idempotency
	// key or a hash of signed bytes. Either may be empty.
	FindIdempotencyKey(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID, key, signedHash string) (eventhook.EventID, bool, error)
}

// RouteExplainer evaluates routes. It stores nothing and executes no targets.
type RouteExplainer interface {
	// CheckRoute returns the faults of a route's filters and transform.
	CheckRoute(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (eventhook.Faults, error)
	// ExplainRoute evaluates a route, which need not be stored, for an event.
	ExplainRoute(ctx context.Context, r eventhook.Route, e *eventhook.Event) (RouteExplanation, error)
	// ExplainRoutes evaluates all routes of a source for one event, in their order.
	ExplainRoutes(ctx context.Context, source eventhook.SourceID, e *eventhook.Event) ([]RouteExplanation, error)
	// Backtest evaluates a route, which need not be stored, for the last newest events
	// of its source. Unless since is zero, it uses only events received after it.
	Backtest(ctx context.Context, r eventhook.Route, since time.Time, last, samples int) (*route.Backtest, error)
	// Search finds a tenant's events that match a filter, within a budget.
	Search(ctx context.Context, tenant eventhook.TenantID, q EventSearchQuery) (route.SearchResult, error)
}

// RouteExplanation is the evaluation of a route for an event.
type RouteExplanation struct {
	ID      eventhook.RouteID
	Name    string
	Matched bool
	Reason  string
	Actions []ActionExplanation // one for each target if the route matches
}

// ActionExplanation is the input that a target would receive. Error is empty unless the
// target would fail; it contains no internal details.
type ActionExplanation struct {
	TargetType string
	Input      json.RawMessage
	IsLeftOut  bool // Input is omitted because it is too large
	Error      string
}

// textOrTexts is a string or a list of strings.
type textOrTexts []string

// Schema implements huma.SchemaProvider.
func (textOrTexts) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{OneOf: []*huma.Schema{text, {Type: huma.TypeArray, Items: text, MaxItems: new(100)}}}
}

// UnmarshalJSON implements json.Unmarshaler. It accepts any value, because the schema
// reports values of other types, and the rest of the document must still be decoded.
func (t *textOrTexts) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = textOrTexts{one}
		return nil
	}
	_ = json.Unmarshal(raw, (*[]string)(t))
	return nil
}

type explainInput struct {
	SourcePath
	Body document[explainRequest]
}

type explainRequest struct {
	Method     string                 `json:"method,omitempty" default:"POST" doc:"HTTP method of the request."`
	URL        string                 `json:"url,omitempty" doc:"URL of the request, with the query; default the source's ingest URL."`
	Headers    map[string]textOrTexts `json:"headers,omitempty" doc:"Headers by case-insensitive name. A value is a string or a list of strings."`
	Body       *string                `json:"body,omitempty" doc:"Body as text."`
	BodyBase64 *string                `json:"body_base64,omitempty" doc:"Body as base64, instead of body."`
	At         *string                `json:"at,omitempty" format:"date-time" doc:"Time of receipt, against which signed timestamps are checked; default now."`
}

type explanationView struct {
	Verified       bool                   `json:"verified" doc:"Whether the verification succeeded."`
	Error          string                 `json:"error,omitempty" doc:"Why verification failed: the reason and its detail." example:"mismatch: no secret matched (of 1)"`
	Scheme         string                 `json:"scheme" doc:"The provider's scheme, or the verifier's type."`
	CoversBody     bool                   `json:"covers_body" doc:"Whether the signature covers the body."`
	EventType      *string                `json:"event_type" doc:"Also set if verification failed."`
	IdempotencyKey *string                `json:"idempotency_key" doc:"Also set if verification failed."`
	Duplicate      bool                   `json:"duplicate" doc:"True if the source has already accepted an event with this idempotency key or, with replay_protection, with the same signed bytes."`
	DuplicateOf    *string                `json:"duplicate_of" doc:"Id of the event accepted earlier."`
	Handshake      string                 `json:"handshake,omitempty" doc:"Name of the provider's handshake that would answer the request. No event is created then."`
	RefusedDetail  string                 `json:"refused_detail,omitempty" doc:"Details of the refusal, if there are any."`
	Refused        string                 `json:"refused,omitempty" doc:"Why the request would be refused, independent of verification." example:"method_not_allowed"`
	Routes         []routeExplanationView `json:"routes" doc:"Result of each route in the order of evaluation, even if the request is not verified or would be refused."`
}

type routeExplanationView struct {
	ID      string                  `json:"id" format:"uuid"`
	Name    string                  `json:"name"`
	Matched bool                    `json:"matched" doc:"Whether the event matches the route."`
	Reason  string                  `json:"reason" example:"event type \"push\" matches \"push\"" doc:"Why the event matches or does not match."`
	Actions []actionExplanationView `json:"actions" doc:"One entry per target if the event matches."`
}

type actionExplanationView struct {
	TargetType string          `json:"target_type"`
	Input      json.RawMessage `json:"input" doc:"Input that the target would receive. For a promise: its idempotency key, status, and value or error."`
	Error      string          `json:"error,omitempty" doc:"Why the target would fail."`
	LeftOut    bool            `json:"input_left_out,omitempty" doc:"True if the input is omitted because the response would become too large."`
}

// explainAbout also states why the operation requires the scope manage although it
// changes nothing.
const explainAbout = "Explains whether the request would be verified and how it would be routed. Nothing is stored, and the source may be disabled. " +
	"The response contains no secret. The scope manage is required because repeated calls could confirm a guessed secret, " +
	"and because a call can make the gateway fetch a provider's public keys."

func (s *server) registerExplain(api huma.API) {
	register(s, api, operation{id: "test-source", method: http.MethodPost, path: base + "/sources/{slug}/test", scope: eventhook.ScopeManage, tag: "sources",
		summary: "Test a request to a source", about: explainAbout, class: trials,
		maxBody: 4 << 20, skipsShape: true}, s.explain)
	s.registerEventTest(api)
	s.registerBacktest(api)
	s.registerExpressions(api)
}

type explanationAnswer struct{ Body explanationView }

func (s *server) explain(ctx context.Context, by caller, in *explainInput) (*explanationAnswer, error) {
	if !eventhook.IsSlug(in.Slug) {
		return nil, eventhook.NotFound("source")
	}
	source, err := s.Explain.FindSource(ctx, in.Tenant, in.Slug)
	if err != nil {
		return nil, err
	}
	request, err := s.requestOf(in.Body, source)
	if err != nil {
		return nil, err
	}
	x, err := ingest.Explain(ctx, source, s.PublicURL, s.PublicKeys, request)
	if err != nil {
		return nil, err
	}
	v := explanationView{Verified: x.Err == nil, Error: verify.RefusalText(x.Err), Scheme: x.Scheme, CoversBody: x.CoversBody,
		EventType: optional(x.Event.EventType), IdempotencyKey: optional(x.Event.IdempotencyKey), Handshake: x.Handshake, Refused: string(x.Refused), RefusedDetail: x.RefusedWhy}
	if x.Handshake != "" && x.Refused == "" { // the handshake is answered and no event is created
		v.EventType, v.IdempotencyKey, v.Routes = nil, nil, viewRoutes(nil)
		return &explanationAnswer{v}, nil
	}
	if x.Event.IdempotencyKey != "" || x.Event.SignedHash != "" {
		id, found, err := s.Explain.FindIdempotencyKey(ctx, by.tenant, source.ID, x.Event.IdempotencyKey, x.Event.SignedHash)
		if err != nil {
			return nil, err
		}
		v.Duplicate, v.DuplicateOf = found, optionalID(id)
	}
	routes, err := s.Routes.ExplainRoutes(ctx, source.ID, x.Event)
	if err != nil {
		return nil, err
	}
	v.Routes = viewRoutes(routes)
	return &explanationAnswer{v}, nil
}

// requestOf returns the request to be tested.
func (s *server) requestOf(body document[explainRequest], source eventhook.Source) (*verify.Request, error) {
	in, shape := body.read(s)
	fields := make(map[string][]string, len(in.Headers))
	for name, values := range in.Headers {
		fields[name] = values
	}
	r := &verify.Request{Method: cmp.Or(in.Method, http.MethodPost), URL: cmp.Or(in.URL, ingest.URL(s.PublicURL, source)),
		Header: ingest.NewHeader(fields), At: s.Now()}
	faults := ingest.CheckRequest(r)
	if in.At != nil {
		at, err := time.Parse(time.RFC3339, *in.At)
		if err != nil {
			faults.Add("at", "must be a time such as 2030-01-31T12:00:00Z")
		}
		r.At = at
	}
	r.Body = in.bytes(&faults)
	var rules eventhook.Faults
	rules.Merge("body", faults)
	return r, combinedError(shape, rules)
}

// bytes returns the body of the request to be tested.
func (in *explainRequest) bytes(faults *eventhook.Faults) []byte {
	switch text, encoded := in.Body, in.BodyBase64; {
	case text != nil && encoded != nil:
		faults.Add("body_base64", "must not be given together with body")
	case text != nil:
		return []byte(*text)
	case encoded != nil:
		raw, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			faults.Add("body_base64", "is not base64")
		}
		return raw
	}
	return nil
}

// viewRoutes omits inputs beyond a total size: each input can contain the whole body.
func viewRoutes(list []RouteExplanation) []routeExplanationView {
	const maxBytes = 4 << 20
	views, size := []routeExplanationView{}, 0
	for _, r := range list {
		v := routeExplanationView{ID: r.ID.String(), Name: r.Name, Matched: r.Matched, Reason: r.Reason, Actions: []actionExplanationView{}}
		for _, a := range r.Actions {
			one := actionExplanationView{TargetType: a.TargetType, Input: a.Input, LeftOut: a.IsLeftOut, Error: a.Error}
			if size += len(a.Input); size > maxBytes {
				one.Input, one.LeftOut = nil, true
			}
			v.Actions = append(v.Actions, one)
		}
		views = append(views, v)
	}
	return views
}
