package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var typeFields = []string{"name", "description", "category", "schema", "visibility"}

// typeForm is the data of the form for an event type.
type typeForm struct {
	Form         form
	Name         string // "" for a new type
	Visibilities []string
}

func typeFormOf(r *request, f form) typeForm {
	visibilities := slices.Clone(typeVisibilities)
	if r.identity.Type != "admin" {
		visibilities = slices.DeleteFunc(visibilities, func(v string) bool { return v == "admin" })
	}
	return typeForm{f, r.PathValue("name"), visibilities}
}

func (c *Console) newType(r *request) (view, error) {
	f := r.formOf(url.Values{"name": {r.URL.Query().Get("name")}, "visibility": {"tenant"}}, typeFields...)
	return view{Title: "Describe an event type", Data: typeFormOf(r, f)}, nil
}

func (c *Console) editType(r *request) (view, error) {
	var header http.Header
	t, err := r.api.GetEventType(r.Context(), r.tenant, r.PathValue("name"), client.KeepHeader(&header))
	if err != nil {
		return view{}, err
	}
	values := url.Values{"description": {t.Description}, "category": {t.Category}, "visibility": {string(t.Visibility)}, "etag": {header.Get("ETag")}}
	if t.Schema != nil {
		values.Set("schema", web.Editable(plainJSON(t.Schema)))
	}
	return view{Title: "Edit " + t.Name, Data: typeFormOf(r, r.formOf(values, typeFields...))}, nil
}

// saveType creates a type, or replaces the one that the path names.
func (c *Console) saveType(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, typeFields...)
	name := r.PathValue("name")
	if name == "" {
		name = strings.TrimSpace(f.Get("name"))
	}
	if name == "" || name == "." || name == ".." {
		f.Faults["name"] = "is not the name of an event type"
	}
	description, category, visibility := f.Get("description"), f.Get("category"), client.EventTypeVisibility(f.Get("visibility"))
	body := client.EventTypePut{Description: &description, Category: &category, Visibility: &visibility}
	if f.text("schema") != nil {
		body.Schema = f.object("schema")
	}
	if f.isReadable() {
		_, err := r.api.PutEventType(r.detached(), r.tenant, name, client.PutEventTypeParams{IfMatch: f.text("etag")}, body)
		if err == nil {
			return redirect(r.typePath(name), "The event type is saved. Events of this type are not changed.")
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return view{Title: "Event type", Data: typeFormOf(r, f), Status: http.StatusUnprocessableEntity}, nil
}

func (c *Console) deleteType(r *request) (view, error) {
	if err := r.api.DeleteEventType(r.detached(), r.tenant, r.PathValue("name"), client.DeleteEventTypeParams{}); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/types", "The event type is no longer in the catalogue. Its events are not affected.")
}
