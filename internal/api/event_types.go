package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/schema"
)

// EventTypeStore stores the catalogues of tenants. Its errors are those of SourceStore.
// For a tenant's key, EventTypes and DeleteEventType treat entries with the visibility
// admin as missing, and PutEventType returns KindForbidden. EventType returns every entry;
// the caller must check IsHiddenFrom.
type EventTypeStore interface {
	EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error)
	EventTypes(ctx context.Context, to eventhook.Actor, tenant eventhook.TenantID, before eventhook.EventTypeID, limit int) ([]eventhook.EventType, error)
	PutEventType(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, version int64, want eventhook.EventType) (_ eventhook.EventType, created bool, err error)
	DeleteEventType(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, name string, version int64) error
}

// EventType is an entry of a tenant's catalogue.
type EventType struct {
	Name        string     `json:"name" example:"payment.succeeded"`
	Description string     `json:"description" doc:"Description for users."`
	Category    string     `json:"category" doc:"Category, for grouping."`
	Schema      jsonObject `json:"schema,omitempty" doc:"JSON Schema of the event's data."`
	Visibility  string     `json:"visibility" enum:"portal,tenant,admin" doc:"portal: visible to the tenant's keys, and offered to its customers in the portal. tenant: visible to the tenant's keys. admin: visible to the admin key only."`
	IsBuiltin   bool       `json:"is_builtin" doc:"True for the types of the gateway's own events, which cannot be changed."`
	Version     int64      `json:"version" doc:"Increases with every change and is used as the ETag; 0 for built-in types."`
	CreatedAt   *time.Time `json:"created_at" doc:"Null for built-in types."`
	UpdatedAt   *time.Time `json:"updated_at" doc:"Null for built-in types."`
}

// EventTypePut is the new content of an entry of the catalogue.
type EventTypePut struct {
	Description string     `json:"description,omitempty" maxLength:"2000" doc:"Description for users."`
	Category    string     `json:"category,omitempty" maxLength:"200" doc:"Category, for grouping."`
	Schema      jsonObject `json:"schema,omitempty" example:"{\"type\":\"object\",\"required\":[\"amount\"]}" doc:"JSON Schema of the event's data; draft 2020-12 unless $schema names another. References must stay inside the schema. Events that do not match the schema are still accepted and delivered, and counted in a metric."`
	Visibility  string     `json:"visibility,omitempty" enum:"portal,tenant,admin" doc:"portal: visible to the tenant's keys, and offered to its customers in the portal. tenant (default): visible to the tenant's keys. admin: only the admin key can see and write the entry. Events of an admin type still appear in the tenant's event list; admin types of the gateway itself are never delivered to tenants' subscriptions."`
}

func (s *server) registerEventTypes(api huma.API) {
	op := func(id, method, path, summary string, scope eventhook.Scope) operation {
		return operation{id: id, method: method, path: base + "/event-types" + path, summary: summary, scope: scope, tag: "event-types"}
	}
	all := op("list-event-types", http.MethodGet, "", "List event types", eventhook.ScopeRead)
	all.about = "Lists the tenant's catalogue, newest first, followed by the built-in types of the gateway's own events."
	put := op("put-event-type", http.MethodPut, "/{name}", "Create or update an event type", eventhook.ScopeManage)
	put.skipsShape, put.alsoStatus = true, http.StatusCreated
	put.about = "Replaces the whole entry of the catalogue. 201 if the event type is new. 409 for the built-in types of the gateway, which cannot be changed."
	remove := op("delete-event-type", http.MethodDelete, "/{name}", "Delete an event type", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "Removes the entry from the catalogue. Events of this type are not affected."
	register(s, api, all, s.listEventTypes)
	register(s, api, op("get-event-type", http.MethodGet, "/{name}", "Get an event type", eventhook.ScopeRead), s.getEventType)
	register(s, api, put, s.putEventType)
	register(s, api, remove, s.deleteEventType)
}

// EventTypePath is the part of a path that identifies an event type.
type EventTypePath struct {
	TenantPath
	Name string `path:"name" doc:"Event type, such as payment.succeeded."`
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
	ETag   string `header:"ETag" doc:"Version of the event type, for If-Match."`
	Body   EventType
}

func answerEventType(status int, t eventhook.EventType) *eventTypeAnswer {
	out := &eventTypeAnswer{Status: status, Body: viewEventType(t)}
	if !out.Body.IsBuiltin {
		out.ETag = etag(t.Version)
	}
	return out
}

func (s *server) getEventType(ctx context.Context, by caller, in *EventTypePath) (*eventTypeAnswer, error) {
	t, builtin := eventhook.FindSystemEventType(in.Name)
	if !builtin {
		if !isEventType(in.Name) {
			return nil, errNoEventType
		}
		var err error
		t, err = s.EventTypes.EventType(ctx, by.tenant, in.Name)
		if lifecycle, ok := eventhook.FindLifecycleEventType(in.Name); ok && eventhook.KindOf(err) == eventhook.KindNotFound {
			t, err = lifecycle, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if t.IsHiddenFrom(by.actor()) {
		return nil, errNoEventType
	}
	return answerEventType(http.StatusOK, t), nil
}

var errNoEventType = eventhook.NotFound("event type")

// isEventType reports whether an entry of the catalogue can have this name.
func isEventType(name string) bool {
	return len(eventhook.EventType{Name: name, Visibility: eventhook.VisibleToTenant}.Validate()) == 0
}

type putEventTypeRequest struct {
	EventTypePath
	IfMatch
	Body document[EventTypePut]
}

var errBuiltin = &eventhook.Error{Kind: eventhook.KindConflict, Message: "This event type is built in and cannot be changed."}

func (s *server) putEventType(ctx context.Context, by caller, in *putEventTypeRequest) (*eventTypeAnswer, error) {
	if _, builtin := eventhook.FindSystemEventType(in.Name); builtin {
		return nil, errBuiltin
	}
	body, shape := in.Body.read(s)
	want := eventhook.EventType{TenantID: by.tenant, Name: in.Name, Description: body.Description, Category: body.Category,
		Schema: json.RawMessage(body.Schema), Visibility: eventhook.Visibility(body.Visibility)}
	if want.Visibility == "" {
		want.Visibility = eventhook.VisibleToTenant
	}
	if err := combinedError(shape, checkEventType(want)); err != nil {
		return nil, err
	}
	if want.IsHiddenFrom(by.actor()) {
		return nil, &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The visibility admin requires the admin key."}
	}
	var t eventhook.EventType
	var created bool
	err := in.applyIfMatch(func(version int64) (err error) {
		t, created, err = s.EventTypes.PutEventType(ctx, by.actor(), by.tenant, version, want)
		return err
	})
	if err != nil {
		return nil, err
	}
	if created {
		return answerEventType(http.StatusCreated, t), nil
	}
	return answerEventType(http.StatusOK, t), nil
}

// checkEventType checks an entry of the catalogue. Faults of the name are located in
// the path.
func checkEventType(t eventhook.EventType) (rules eventhook.Faults) {
	faults := t.Validate()
	faults.Merge("schema", schema.Check(t.Schema))
	for _, f := range faults {
		prefix := "body."
		if f.Location == "name" {
			prefix = "path."
		}
		f.Location = prefix + f.Location
		rules = append(rules, f)
	}
	return rules
}

type deleteEventTypeRequest struct {
	EventTypePath
	IfMatch
}

func (s *server) deleteEventType(ctx context.Context, by caller, in *deleteEventTypeRequest) (*struct{}, error) {
	if _, builtin := eventhook.FindSystemEventType(in.Name); builtin {
		return nil, errBuiltin
	}
	if !isEventType(in.Name) {
		return nil, errNoEventType
	}
	return nil, in.applyIfMatch(func(version int64) error {
		return s.EventTypes.DeleteEventType(ctx, by.actor(), by.tenant, in.Name, version)
	})
}
