package api

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Route says which of a source's events go where.
type Route struct {
	ID               string     `json:"id" format:"uuid"`
	Name             string     `json:"name"`
	Priority         int        `json:"priority" doc:"Higher first, then the older route."`
	IsEnabled        bool       `json:"is_enabled"`
	FilterEventTypes []string   `json:"filter_event_types" doc:"Empty: all."`
	Filter           jsonObject `json:"filter,omitempty"`
	FilterExpression *string    `json:"filter_expression"`
	FilterFunction   *string    `json:"filter_function"`
	Transform        *Transform `json:"transform,omitempty"`
	Targets          []Target   `json:"targets"`
	Version          int64      `json:"version" doc:"Grows with every change; the ETag."`
	CreatedAt        time.Time  `json:"created_at"`
	UpdatedAt        time.Time  `json:"updated_at"`
}

// RouteCreate is a route to be made.
type RouteCreate struct {
	Name    string   `json:"name" minLength:"1" maxLength:"200" doc:"Unique in the source."`
	Targets []Target `json:"targets" minItems:"1" maxItems:"50" doc:"Where its events go."`
	RouteConditions
}

// RoutePatch is what shall change of a route.
type RoutePatch struct {
	Name    string   `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"Unique in the source."`
	Targets []Target `json:"targets,omitempty" minItems:"1" maxItems:"50" doc:"Where its events go: all of them, in place of those it has."`
	RouteConditions
}

// RouteConditions say which events a route takes, and when. All must hold.
type RouteConditions struct {
	Priority         int        `json:"priority,omitempty" minimum:"-1000000" maximum:"1000000" doc:"Higher first; 0 by default."`
	IsEnabled        *bool      `json:"is_enabled,omitempty" doc:"true by default."`
	FilterEventTypes []string   `json:"filter_event_types,omitempty" maxItems:"100" example:"[\"payment_intent.*\"]" doc:"Exact, or prefix.*, or *; all by default."`
	Filter           jsonObject `json:"filter,omitempty" example:"{\"body.data.object.amount\":{\"$gte\":1000}}" doc:"From paths to a value, a list of values, or operators. It is replaced whole."`
	FilterExpression string     `json:"filter_expression,omitempty" example:"body.data.object.livemode" doc:"CEL over headers, body and event."`
	FilterFunction   string     `json:"filter_function,omitempty" doc:"JavaScript: function filter(event), true for events that match."`
	Transform        *Transform `json:"transform,omitempty" doc:"Makes what targets get."`
}

// Transform makes what targets get of an event's body.
type Transform struct {
	Type       string `json:"type" enum:"jmespath,javascript"`
	Expression string `json:"expression" doc:"Of javascript the source of function transform(event)."`
}

// Target is one thing that a route does.
type Target struct {
	Type                 string `json:"type" enum:"workflow,task,promise"`
	WorkflowKind         string `json:"workflow_kind,omitempty" maxLength:"100" doc:"Of workflow."`
	TaskKind             string `json:"task_kind,omitempty" maxLength:"100" doc:"Of task."`
	Queue                string `json:"queue,omitempty" maxLength:"100" doc:"Of workflow and task; default by default."`
	MaxAttempts          int    `json:"max_attempts,omitempty" minimum:"0" maximum:"100" doc:"Of workflow and task: how often it is tried; 4 by default."`
	IdempotencyKeyPath   string `json:"idempotency_key_path,omitempty" doc:"The key under which it is made, or found, once. A promise needs one."`
	IdempotencyKeyPrefix string `json:"idempotency_key_prefix,omitempty" maxLength:"100" doc:"Stands before that key."`
	Resolve              *bool  `json:"resolve,omitempty" doc:"Of promise: resolve it, which is the default, or reject it."`
	ValuePath            string `json:"value_path,omitempty" doc:"Of promise: what in the event is its value; the body by default."`
	ErrorPath            string `json:"error_path,omitempty" doc:"Of promise: where this exists, it is rejected with what is there."`
	OnMissing            string `json:"on_missing,omitempty" enum:"hold,fail" doc:"Of promise, when nobody has made it yet: keep the outcome, which is the default, or fail."`
}

// jsonObject is an object whose members are nobody's business here; it is kept
// as it is written.
type jsonObject json.RawMessage

// Schema implements huma.SchemaProvider.
func (jsonObject) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// MarshalJSON implements json.Marshaler.
func (o jsonObject) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler; null is none.
func (o *jsonObject) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*o = nil
		return nil
	}
	return (*json.RawMessage)(o).UnmarshalJSON(raw)
}

func viewRoute(r eventhook.Route) Route {
	return Route{
		ID: r.ID.String(), Name: r.Name, Priority: r.Priority, IsEnabled: r.IsEnabled, FilterEventTypes: list(r.FilterEventTypes),
		Filter: jsonObject(r.Filter), FilterExpression: optional(r.FilterExpression), FilterFunction: optional(r.FilterFunction),
		Transform: (*Transform)(r.Transform), Targets: viewTargets(r.Targets),
		Version: r.Version, CreatedAt: utc(r.CreatedAt), UpdatedAt: utc(r.UpdatedAt),
	}
}

func viewTargets(list []eventhook.Target) []Target {
	views := make([]Target, len(list))
	for i, t := range list {
		views[i] = Target(t)
	}
	return views
}

// conditionsOf are a stored route's, as they were given.
func conditionsOf(r eventhook.Route) RouteConditions {
	return RouteConditions{
		Priority: r.Priority, IsEnabled: &r.IsEnabled, FilterEventTypes: r.FilterEventTypes, Filter: jsonObject(r.Filter),
		FilterExpression: r.FilterExpression, FilterFunction: r.FilterFunction, Transform: (*Transform)(r.Transform),
	}
}

// over is a route with what these are instead of its own.
func (c RouteConditions) over(r eventhook.Route, name string, targets []Target) eventhook.Route {
	r.Name, r.Targets = name, nil
	for _, t := range targets {
		r.Targets = append(r.Targets, eventhook.Target(t))
	}
	r.Priority, r.IsEnabled, r.FilterEventTypes = c.Priority, c.IsEnabled == nil || *c.IsEnabled, c.FilterEventTypes
	r.Filter, r.FilterExpression, r.FilterFunction = json.RawMessage(c.Filter), c.FilterExpression, c.FilterFunction
	r.Transform = (*eventhook.Transform)(c.Transform)
	return r
}
