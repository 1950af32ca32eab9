package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// Form has the values of a form that is shown again, and what is wrong with them.
type Form struct {
	Values url.Values
	// Faults has the messages by the name of the field, as the API locates them, for example
	// retry.max_retries.
	Faults map[string]string
	// Summary is the message that belongs to no field.
	Summary string
	// Shown are the fields of the form: faults of others go into the summary.
	Shown []string
}

// refusals are the statuses of answers of the API that are about the values of a form.
var refusals = []int{http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusConflict, http.StatusPreconditionFailed}

// Refuse adds the faults of an error of the API. It reports false for errors that are not about the
// values, which the caller returns.
func (f *Form) Refuse(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || !slices.Contains(refusals, p.Status) {
		return false
	}
	var rest []string
	for _, fault := range p.Errors {
		field := strings.TrimPrefix(strings.TrimPrefix(fault.Location, "body."), "body")
		if name := f.shows(field); name != "" && f.Faults[name] == "" {
			f.AddFault(name, fault.Message)
			continue
		}
		rest = append(rest, strings.TrimPrefix(field+": "+fault.Message, ": "))
	}
	switch {
	case len(rest) > 0:
		f.Summary = strings.Join(rest, "; ")
	case len(p.Errors) == 0:
		f.Summary = cmp.Or(p.Detail, p.Title)
	}
	return true
}

// AddFault adds what is wrong with a field.
func (f *Form) AddFault(name, message string) {
	if f.Faults == nil {
		f.Faults = map[string]string{}
	}
	f.Faults[name] = message
}

// shows returns the field that a location names: the field itself or one that contains it.
func (f *Form) shows(location string) string {
	for _, name := range f.Shown {
		if location == name || strings.HasPrefix(location, name+".") || strings.HasPrefix(location, name+"[") {
			return name
		}
	}
	return ""
}

// Get returns the first value of a field.
func (f Form) Get(name string) string { return f.Values.Get(name) }

// Has reports whether a field has a value, as the boxes of a form do that are checked.
func (f Form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Fault returns what is wrong with a field; "" if nothing is.
func (f Form) Fault(name string) string { return f.Faults[name] }
