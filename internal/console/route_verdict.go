package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// verdict is the result of the editor's route for the chosen event.
type verdict struct {
	Checks    []check
	IsMatched bool
	// Inputs has the input of each target; empty if a condition fails.
	Inputs  []client.ActionExplanation
	Payload string // of the chosen event, indented
	Type    string // of the chosen event
	Fault   string // why there is no verdict
}

// check is the verdict of one condition.
type check struct {
	Name   string
	Kind   string // ok, failed, warning or muted, as in web.StatusAs
	Word   string
	Reason string
}

// subject is the event for which a route is evaluated.
type subject struct {
	id, eventType string
	headers       map[string]string
	body          json.RawMessage
}

// judge evaluates every condition of the editor's route separately, for the chosen event.
func (r *request) judge(e *routeEditor) (verdict, error) {
	s, v, err := r.subject(e)
	if err != nil || v.Fault != "" {
		return v, err
	}
	v.Payload, v.Type, v.IsMatched = web.Pretty(s.body), s.eventType, true
	route := e.members(false).object
	v.Checks = append(v.Checks, checkTypes(lines(e.Form.Get("filter_event_types")), s.eventType))
	for _, part := range []struct{ member, name string }{{"filter", "Pattern filter"}, {"filter_expression", "CEL"}, {"filter_function", "JavaScript"}} {
		if expression, ok := route[part.member]; ok && e.Form.Fault(part.member) == "" {
			result, err := r.test(s, part.member, expression)
			if err != nil {
				return v, err
			}
			v.Checks = append(v.Checks, checkOf(part.name, result))
		}
	}
	for _, c := range v.Checks {
		v.IsMatched = v.IsMatched && c.Kind == "ok"
	}
	if v.IsMatched {
		err = r.inputs(e, s, route, &v)
	}
	return v, err
}

// subject returns the chosen event, or the pasted payload.
func (r *request) subject(e *routeEditor) (subject, verdict, error) {
	if id := e.Form.Get("event"); id != "" {
		return r.storedSubject(id)
	}
	text := strings.TrimSpace(e.Form.Get("payload"))
	if text == "" {
		return subject{}, verdict{Fault: "Choose an event, or paste a payload, to see what this route would do with it."}, nil
	}
	if len(text) > maxSubject {
		fault := "The pasted payload is too large: at most " + web.Bytes(maxSubject) + " are tried."
		return subject{}, verdict{Fault: fault}, nil
	}
	if !json.Valid([]byte(text)) {
		return subject{}, verdict{Fault: "The pasted payload is not JSON."}, nil
	}
	return subject{eventType: strings.TrimSpace(e.Form.Get("payload_type")), headers: map[string]string{}, body: json.RawMessage(text)}, verdict{}, nil
}

// maxSubject limits the payload with which the editor evaluates a route, in bytes.
const maxSubject = 256 << 10

// storedSubject returns a stored event.
func (r *request) storedSubject(id string) (subject, verdict, error) {
	most := int64(maxSubject)
	event, err := r.api.GetEvent(r.Context(), r.tenant, id, client.GetEventParams{MaxBodyBytes: &most})
	if err != nil {
		fault := "This event cannot be read: " + cmp.Or(faultText(err), "it does not exist.")
		return subject{}, verdict{Fault: fault}, nil
	}
	if event.BodyLeftOut != nil && *event.BodyLeftOut {
		return subject{}, verdict{Fault: "The body of this event has " + web.Bytes(event.BodySize) +
			", which is too large to be tried here. The backtest below reads it."}, nil
	}
	headers := event.Headers
	if headers == nil {
		headers = map[string]string{}
	}
	if event.ContentType != "" {
		headers["Content-Type"] = event.ContentType
	}
	return subject{id, event.EventType, headers, event.Body}, verdict{}, nil
}

// result is the outcome of one expression.
type result struct {
	client.ExpressionResult
	fault string // the API refused the expression
}

// test evaluates one expression for an event.
func (r *request) test(s subject, member string, expression any) (result, error) {
	raw, err := json.Marshal(map[string]any{member: expression, "body": s.body, "headers": s.headers, "event_type": s.eventType})
	if err != nil {
		return result{}, err
	}
	got, err := r.api.TestExpressionFrom(r.Context(), r.tenant, raw)
	if err != nil {
		if fault := faultText(err); fault != "" {
			return result{fault: fault}, nil
		}
		return result{}, err
	}
	return result{ExpressionResult: got}, nil
}

// everyType is the API's reason for one condition without event types: it says nothing about the condition.
const everyType = "the route takes events of every type, and its filters hold"

func checkOf(name string, r result) check {
	switch {
	case r.fault != "":
		return check{name, "failed", "invalid", r.fault}
	case r.Error != nil:
		return check{name, "warning", "fails", *r.Error}
	case r.Matched != nil && *r.Matched:
		return check{name, "ok", "holds", strings.TrimPrefix(r.Reason, everyType)}
	}
	return check{name, "failed", "does not hold", r.Reason}
}

// checkTypes checks the event type with the rule of the API: exact, prefix.* or *.
func checkTypes(patterns []string, eventType string) check {
	if len(patterns) == 0 {
		return check{"Event type", "ok", "holds", "The route takes every event type."}
	}
	for _, p := range patterns {
		prefix, isPrefix := strings.CutSuffix(p, "*")
		if p == eventType || p == "*" || isPrefix && strings.HasSuffix(prefix, ".") && strings.HasPrefix(eventType, prefix) {
			return check{"Event type", "ok", "holds", eventType + " matches " + p}
		}
	}
	return check{"Event type", "failed", "does not hold", eventType + " matches none of " + strings.Join(patterns, ", ")}
}

// inputs adds the input of each target. A stored event is evaluated by a backtest of the newest
// events, which contains the inputs exactly; a pasted payload shows the output of the transform.
func (r *request) inputs(e *routeEditor, s subject, route map[string]any, v *verdict) error {
	const newest, samples = 20, 20
	if s.id != "" && len(e.Targets) > 0 {
		if found, err := r.tryBacktest(e, newest, samples); err == nil {
			for _, x := range append(found.MatchedSamples, found.FailedSamples...) {
				if x.EventID == s.id {
					v.Inputs = x.Actions
					boundInputs(v.Inputs, maxInputs)
					return nil
				}
			}
		}
	}
	transform, ok := route["transform"]
	if !ok {
		return nil
	}
	got, err := r.test(s, "transform", transform)
	if err != nil {
		return err
	}
	if got.fault != "" || got.Error != nil {
		v.Checks = append(v.Checks, checkOf("Transform", got))
		return nil
	}
	output, err := json.Marshal(got.Output)
	for _, t := range e.Targets {
		v.Inputs = append(v.Inputs, client.ActionExplanation{TargetType: t.Type, Input: output})
	}
	boundInputs(v.Inputs, maxInputs)
	return err
}

// faultText returns the text of a refusal that is about the values or about limits; "" for any
// other error.
func faultText(err error) string {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		return ""
	}
	var texts []string
	for _, f := range p.Errors {
		texts = append(texts, strings.TrimPrefix(strings.TrimPrefix(f.Location, "body.route."), "body.")+": "+f.Message)
	}
	return cmp.Or(strings.Join(texts, "; "), p.Detail, p.Title)
}
