package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// form has the values of a form that is shown again, and what is wrong with them.
type form struct {
	Values url.Values
	// Faults has the messages by the name of the field, as the API locates them, for example
	// retry.max_retries.
	Faults map[string]string
	// Summary is the message that belongs to no field.
	Summary string
	// Shown are the fields of the form: faults of others go into the summary.
	Shown []string
}

// formOf returns a form with the values of the request, or with the defaults for a request that has
// not sent the form. fields are the names that the form shows.
func (r *request) formOf(defaults url.Values, fields ...string) form {
	f := form{Values: defaults, Faults: map[string]string{}, Shown: fields}
	if r.Method == http.MethodPost {
		f.Values = r.PostForm
	}
	if f.Values == nil {
		f.Values = url.Values{}
	}
	return f
}

// refuse adds the faults of an error of the API. It reports false for errors that are not about the
// values, which the caller returns.
func (f *form) refuse(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusBadRequest && p.Status != http.StatusConflict &&
		p.Status != http.StatusPreconditionFailed {
		return false
	}
	var rest []string
	for _, fault := range p.Errors {
		field := strings.TrimPrefix(strings.TrimPrefix(fault.Location, "body."), "body")
		if name := f.shows(field); name != "" && f.Faults[name] == "" {
			f.Faults[name] = fault.Message
			continue
		}
		rest = append(rest, strings.TrimPrefix(field+": "+fault.Message, ": "))
	}
	switch {
	case len(rest) > 0:
		f.Summary = strings.Join(rest, "; ")
	case len(p.Errors) == 0:
		f.Summary = p.Detail
	}
	return true
}

// shows returns the field that a location names: the field itself or one that contains it.
func (f *form) shows(location string) string {
	for _, name := range f.Shown {
		if location == name || strings.HasPrefix(location, name+".") || strings.HasPrefix(location, name+"[") {
			return name
		}
	}
	return ""
}

// Get returns the first value of a field.
func (f form) Get(name string) string { return f.Values.Get(name) }

// Has reports whether a field has a value, as the boxes of a form do that are checked.
func (f form) Has(name, value string) bool {
	for _, v := range f.Values[name] {
		if v == value {
			return true
		}
	}
	return false
}

// Fault returns what is wrong with a field; "" if nothing is.
func (f form) Fault(name string) string { return f.Faults[name] }
