package api

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Route selects events of a source and passes them to targets.
type Route struct {
	ID               string     `json:"id" format:"uuid"`
	Name             string     `json:"name" doc:"Unique within the source."`
	Priority         int        `json:"priority" doc:"Routes with a higher priority are evaluated first; routes of equal priority by age, oldest first."`
	IsEnabled        bool       `json:"is_enabled" doc:"Whether the route receives events."`
	FilterEventTypes []string   `json:"filter_event_types" doc:"Empty if the route takes all event types."`
	Filter           jsonObject `json:"filter,omitempty" doc:"Conditions on the payload, by path; absent if none."`
	FilterExpression *string    `json:"filter_expression" doc:"CEL expression; null if none."`
	FilterFunction   *string    `json:"filter_function" doc:"JavaScript source of function filter(event); null if none."`
	Transform        *Transform `json:"transform,omitempty" doc:"Computes the input of the targets; absent if none."`
	Targets          []Target   `json:"targets" doc:"Targets of the route. Secrets are shown as [redacted]."`
	SecretsLost      bool       `json:"secrets_lost,omitempty" doc:"True if the secrets of the targets cannot be decrypted because the encryption key is missing. These targets fail until the secrets are set again or the key is restored."`
	Warnings         []string   `json:"warnings,omitempty" doc:"Settings that are allowed but not recommended; absent if none."`
	Version          int64      `json:"version" doc:"Increases with every change and is used as the ETag."`
	CreatedAt        time.Time  `json:"created_at"`
	UpdatedAt        time.Time  `json:"updated_at"`
}

// RouteCreate is a route to be created.
type RouteCreate struct {
	Name    string   `json:"name" minLength:"1" maxLength:"200" doc:"Unique within the source."`
	Targets []Target `json:"targets" minItems:"1" maxItems:"50" doc:"Targets of the route."`
	RouteConditions
}

// RoutePatch is a merge patch of a route.
type RoutePatch struct {
	Name    string   `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"Unique within the source."`
	Targets []Target `json:"targets,omitempty" minItems:"1" maxItems:"50" doc:"Targets of the route. Replaces all existing targets."`
	RouteConditions
}

// RouteConditions are the conditions and settings of a route. An event must meet all
// conditions.
type RouteConditions struct {
	Priority         int        `json:"priority,omitempty" minimum:"-1000000" maximum:"1000000" doc:"Routes with a higher priority are evaluated first; default 0."`
	IsEnabled        *bool      `json:"is_enabled,omitempty" doc:"Default true."`
	FilterEventTypes []string   `json:"filter_event_types,omitempty" maxItems:"100" example:"[\"payment_intent.*\"]" doc:"Event types: exact, prefix.* or *; default all."`
	Filter           jsonObject `json:"filter,omitempty" nullable:"true" example:"{\"body.data.object.amount\":{\"$gte\":1000}}" doc:"Object from path to a value, a list of values, or operators such as $gte. An update replaces the whole filter."`
	FilterExpression string     `json:"filter_expression,omitempty" nullable:"true" example:"body.data.object.livemode" doc:"CEL expression over headers, body, cloudevent and event."`
	FilterFunction   string     `json:"filter_function,omitempty" nullable:"true" doc:"JavaScript source of function filter(event), which returns true for events that match."`
	Transform        *Transform `json:"transform,omitempty" doc:"Computes the input of the targets."`
}

// Transform computes the input of targets from an event's body.
type Transform struct {
	Type       string `json:"type" enum:"jmespath,javascript" doc:"Language of the expression."`
	Expression string `json:"expression" doc:"JMESPath expression, or for javascript the source of function transform(event)."`
	Retry      bool   `json:"retry,omitempty" doc:"Whether an event whose transform fails is retried; default false."`
}

// jsonObject is a JSON object with arbitrary members. Its text is stored unchanged.
type jsonObject json.RawMessage

// Schema implements huma.SchemaProvider.
func (jsonObject) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// MarshalJSON implements json.Marshaler.
func (o jsonObject) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler. null sets the object to nil.
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
		Transform: (*Transform)(r.Transform), Targets: viewTargets(r.Targets), SecretsLost: r.SecretsLost,
		Version: r.Version, CreatedAt: utc(r.CreatedAt), UpdatedAt: utc(r.UpdatedAt),
	}
}

// conditionsOf returns the conditions of a stored route as they were given.
func conditionsOf(r eventhook.Route) RouteConditions {
	return RouteConditions{
		Priority: r.Priority, IsEnabled: &r.IsEnabled, FilterEventTypes: r.FilterEventTypes, Filter: jsonObject(r.Filter),
		FilterExpression: r.FilterExpression, FilterFunction: r.FilterFunction, Transform: (*Transform)(r.Transform),
	}
}

// over returns r with these conditions.
func (c RouteConditions) over(r eventhook.Route, name string) eventhook.Route {
	r.Name = name
	r.Priority, r.IsEnabled, r.FilterEventTypes = c.Priority, c.IsEnabled == nil || *c.IsEnabled, c.FilterEventTypes
	r.Filter, r.FilterExpression, r.FilterFunction = json.RawMessage(c.Filter), c.FilterExpression, c.FilterFunction
	r.Transform = (*eventhook.Transform)(c.Transform)
	return r
}
