package api

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
)

// ExpressionTest is a filter or a transform, and the payload for which it is evaluated.
type ExpressionTest struct {
	Filter           jsonObject        `json:"filter,omitempty" example:"{\"body.amount\":{\"$gte\":10}}" doc:"Pattern filter, as in a route."`
	FilterExpression string            `json:"filter_expression,omitempty" maxLength:"16384" example:"body.amount > 10" doc:"CEL expression, as in a route."`
	FilterFunction   string            `json:"filter_function,omitempty" maxLength:"65536" doc:"JavaScript with a function filter(event), as in a route."`
	Transform        *Transform        `json:"transform,omitempty" doc:"Transform, as in a route. The transform of a subscription gets the event as receivers get it: give that as the body."`
	Headers          map[string]string `json:"headers,omitempty" example:"{\"X-Env\":\"prod\"}" doc:"Headers of the payload. Content-Type says how a body that is a string is read."`
	Body             json.RawMessage   `json:"body,omitempty" doc:"Any JSON value. With a Content-Type other than JSON, a string is the text of the body."`
	EventType        string            `json:"event_type,omitempty" maxLength:"255" doc:"Event type that the expression reads."`
}

// expressionResult is the result of an expression.
type expressionResult struct {
	Matched *bool   `json:"matched" doc:"Whether the filters hold; null without a filter, or if they could not be evaluated."`
	Reason  string  `json:"reason" example:"body.amount is 7, wanted $gte 10" doc:"Why the filters hold or not."`
	Output  any     `json:"output" doc:"Result of the transform; null without a transform, or if the filters do not hold."`
	Error   *string `json:"error" doc:"Why a filter or the transform could not be evaluated; null if it could."`
}

func (s *server) registerExpressions(api huma.API) {
	register(s, api, operation{id: "test-expression", method: http.MethodPost, path: base + "/expressions/test",
		scope: eventhook.ScopeRead, tag: "routes",
		summary: "Test a filter or a transform",
		about: "Evaluates a filter, a transform, or both, for a payload that the request has. Nothing is stored. The evaluation has the limits of a route's test, " +
			"and is charged to the tenant's share of time: 429 if it is used up. A broken expression is answered 422.",
		class: ownLimits, maxBody: configBody, skipsShape: true}, s.testExpression)
}

type expressionRequest struct {
	TenantPath
	Body document[ExpressionTest]
}

type expressionAnswer struct{ Body expressionResult }

func (s *server) testExpression(ctx context.Context, by caller, in *expressionRequest) (*expressionAnswer, error) {
	body, rules := in.Body.read(s)
	if !body.hasFilter() && body.Transform == nil {
		rules.Add("body", "has no expression: give filter, filter_expression, filter_function or transform")
	}
	r := eventhook.Route{
		TenantID: by.tenant, Name: "test", IsEnabled: true, Filter: json.RawMessage(body.Filter), FilterExpression: body.FilterExpression,
		FilterFunction: body.FilterFunction, Transform: (*eventhook.Transform)(body.Transform),
		Targets: []eventhook.Target{{Type: eventhook.TargetTask, Settings: json.RawMessage(`{"task_kind":"test"}`)}},
	}
	if len(rules) == 0 {
		conditions, err := s.Routes.CheckRoute(ctx, by.tenant, r)
		if err != nil {
			return nil, err
		}
		rules.Merge("body", conditions)
	}
	if err := rules.Err(notValid); err != nil {
		return nil, err
	}
	explained, err := s.Routes.ExplainRoute(ctx, r, s.adHocEvent(by, body))
	if err != nil {
		return nil, err
	}
	return &expressionAnswer{body.result(explained)}, nil
}

func (x ExpressionTest) hasFilter() bool {
	return len(x.Filter) > 0 || x.FilterExpression != "" || x.FilterFunction != ""
}

// adHocEvent returns an event with the payload of a request.
func (s *server) adHocEvent(by caller, x ExpressionTest) *eventhook.Event {
	headers := http.Header{}
	for name, value := range x.Headers {
		headers.Set(name, value)
	}
	contentType := headers.Get("Content-Type")
	if contentType == "" {
		contentType = "application/json"
	}
	body := []byte(x.Body)
	var text string
	if media, _, _ := mime.ParseMediaType(contentType); !payload.IsJSON(media) && json.Unmarshal(x.Body, &text) == nil {
		body = []byte(text)
	}
	var block strings.Builder
	_ = headers.Write(&block) // a strings.Builder never fails
	return &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](s.Now()), TenantID: by.tenant, Origin: eventhook.OriginSource, EventType: x.EventType,
		ContentType: contentType, BodySize: len(body), Payload: eventhook.Payload{Headers: []byte(block.String()), Body: body},
	}
}

// result returns the answer to a test.
func (x ExpressionTest) result(e RouteExplanation) (r expressionResult) {
	if cause, isUndecided := strings.CutPrefix(e.Reason, route.UndecidedPrefix); isUndecided {
		r.Error = &cause
		return r
	}
	if x.hasFilter() {
		r.Matched, r.Reason = &e.Matched, e.Reason
	}
	for _, a := range e.Actions {
		if a.Error != "" {
			r.Error = &a.Error
		} else if x.Transform != nil {
			r.Output = a.Input
		}
	}
	return r
}
