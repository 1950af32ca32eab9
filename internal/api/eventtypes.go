package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/schema"
)

// EventTypeStore keeps the catalogues of tenants, with the errors of
// SourceStore. An entry that is the admin's is not there for tenants' keys.
type EventTypeStore interface {
	EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error)
	EventTypes(ctx context.Context, to eventhook.Actor, tenant eventhook.TenantID, before eventhook.EventTypeID, limit int) ([]eventhook.EventType, error)
	PutEventType(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, version int64, want eventhook.EventType) (_ eventhook.EventType, made bool, err error)
	DeleteEventType(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, name string, version int64) error
}

// EventType is an entry of a tenant's catalogue.
type EventType struct {
	Name        string     `json:"name" example:"payment.succeeded"`
	Description string     `json:"description"`
	Category    string     `json:"category"`
	Schema      jsonObject `json:"schema,omitempty" doc:"JSON Schema of the data."`
	Visibility  string     `json:"visibility" enum:"tenant,admin"`
	IsBuiltin   bool       `json:"is_builtin" doc:"It is the gateway's own, and cannot be changed."`
	Version     int64      `json:"version" doc:"Grows with every change; the ETag. 0 of what is built in."`
	CreatedAt   *time.Time `json:"created_at" doc:"null of what is built in."`
	UpdatedAt   *time.Time `json:"updated_at"`
}

// EventTypePut is what an entry of the catalogue shall be.
type EventTypePut struct {
	Description string     `json:"description,omitempty" maxLength:"2000"`
	Category    string     `json:"category,omitempty" maxLength:"200"`
	Schema      jsonObject `json:"schema,omitempty" example:"{\"type\":\"object\",\"required\":[\"amount\"]}" doc:"JSON Schema of the data, 2020-12 by default, in which every reference stays. What does not fit it is accepted and delivered all the same, and counted."`
	Visibility  string     `json:"visibility,omitempty" enum:"tenant,admin" doc:"tenant by default. Only the admin sees, and makes, an entry that is the admin's. Events of such a type are in the tenant's lists all the same; of the gateway's own no subscription gets them."`
}

func (s *server) registerEventTypes(api huma.API) {
	op := func(id, method, path, summary string, scope eventhook.Scope) operation {
		return operation{id: id, method: method, path: base + "/event-types" + path, summary: summary, scope: scope, tag: "event-types"}
	}
	all := op("list-event-types", http.MethodGet, "", "List the catalogue of event types, newest first", eventhook.ScopeRead)
	all.about = "Those of the gateway's own events come last."
	put := op("put-event-type", http.MethodPut, "/{name}", "Put an event type into the catalogue, or replace what it says", eventhook.ScopeManage)
	put.skipsShape, put.about = true, "201 if it is new there. The gateway's own types stay as they are: 409."
	remove := op("delete-event-type", http.MethodDelete, "/{name}", "Take an event type out of the catalogue", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "Events of that type stay."
	register(s, api, all, s.listEventTypes)
	register(s, api, op("get-event-type", http.MethodGet, "/{name}", "Read what the catalogue says about an event type", eventhook.ScopeRead), s.readEventType)
	register(s, api, put, s.putEventType)
	register(s, api, remove, s.deleteEventType)
	described := api.OpenAPI().Paths[base+"/event-types/{name}"].Put.Responses
	described[strconv.Itoa(http.StatusCreated)] = described[strconv.Itoa(http.StatusOK)]
}

// EventTypePath is the part of a path that names an event type.
type EventTypePath struct {
	TenantPath
	Name string `path:"name" doc:"The event type, such as payment.succeeded."`
}

func viewEventType(t eventhook.EventType) EventType {
	v := EventType{Name: t.Name, Description: t.Description, Category: t.Category, Schema: jsonObject(t.Schema), Visibility: string(t.Visibility), IsBuiltin: t.Version == 0, Version: t.Version}
	if !v.IsBuiltin {
		v.CreatedAt, v.UpdatedAt = new(utc(t.CreatedAt)), new(utc(t.UpdatedAt))
	}
	return v
}

type eventTypeAnswer struct {
	Status int
	ETag   string `header:"ETag" doc:"Its version, for If-Match."`
	Body   EventType
}

func showEventType(status int, t eventhook.EventType) *eventTypeAnswer {
	out := &eventTypeAnswer{Status: status, Body: viewEventType(t)}
	if !out.Body.IsBuiltin {
		out.ETag = etag(t.Version)
	}
	return out
}

func (s *server) readEventType(ctx context.Context, who caller, in *EventTypePath) (*eventTypeAnswer, error) {
	t, builtin := eventhook.FindSystemEventType(in.Name)
	if !builtin {
		if !isEventType(in.Name) {
			return nil, errNoEventType
		}
		var err error
		if t, err = s.EventTypes.EventType(ctx, who.tenant, in.Name); err != nil {
			return nil, err
		}
	}
	if t.IsHiddenFrom(who.actor()) {
		return nil, errNoEventType
	}
	return showEventType(http.StatusOK, t), nil
}

var errNoEventType = eventhook.NotFound("event type")

// isEventType reports whether the catalogue can have an entry of that name.
func isEventType(name string) bool {
	return len(eventhook.EventType{Name: name, Visibility: eventhook.VisibleToTenant}.Validate()) == 0
}

type putEventTypeRequest struct {
	EventTypePath
	IfMatch
	Body document[EventTypePut]
}

var errBuiltin = &eventhook.Error{Kind: eventhook.KindConflict, Message: "This type is the gateway's own, and stays as it is."}

func (s *server) putEventType(ctx context.Context, who caller, in *putEventTypeRequest) (*eventTypeAnswer, error) {
	if _, builtin := eventhook.FindSystemEventType(in.Name); builtin {
		return nil, errBuiltin
	}
	body, shape := in.Body.read(s)
	want := eventhook.EventType{TenantID: who.tenant, Name: in.Name, Description: body.Description, Category: body.Category,
		Schema: json.RawMessage(body.Schema), Visibility: eventhook.Visibility(body.Visibility)}
	if want.Visibility == "" {
		want.Visibility = eventhook.VisibleToTenant
	}
	if err := together(shape, checkEventType(want)); err != nil {
		return nil, err
	}
	if want.IsHiddenFrom(who.actor()) {
		return nil, &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The visibility admin is for the admin key."}
	}
	var t eventhook.EventType
	var made bool
	err := in.held(func(version int64) (err error) {
		t, made, err = s.EventTypes.PutEventType(ctx, who.actor(), who.tenant, version, want)
		return err
	})
	if err != nil {
		return nil, err
	}
	if made {
		return showEventType(http.StatusCreated, t), nil
	}
	return showEventType(http.StatusOK, t), nil
}

// checkEventType tells of the name where it is: in the path.
func checkEventType(t eventhook.EventType) (rules eventhook.Faults) {
	faults := t.Validate()
	faults.Merge("schema", schema.Check(t.Schema))
	for _, f := range faults {
		place := "body."
		if f.Location == "name" {
			place = "path."
		}
		f.Location = place + f.Location
		rules = append(rules, f)
	}
	return rules
}

type deleteEventTypeRequest struct {
	EventTypePath
	IfMatch
}

func (s *server) deleteEventType(ctx context.Context, who caller, in *deleteEventTypeRequest) (*struct{}, error) {
	if _, builtin := eventhook.FindSystemEventType(in.Name); builtin {
		return nil, errBuiltin
	}
	if !isEventType(in.Name) {
		return nil, errNoEventType
	}
	return nil, in.held(func(version int64) error {
		return s.EventTypes.DeleteEventType(ctx, who.actor(), who.tenant, in.Name, version)
	})
}
