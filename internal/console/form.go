package console

import (
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/internal/web"
)

// form has the values of a form that is shown again, and what is wrong with them.
type form web.Form

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

// typeAgain is the note at the field of a secret that was typed before.
const typeAgain = "Type it again: a page never shows a secret."

// hide deletes the values of fields for secrets, because a page never shows a secret again. A field
// whose value was typed gets a note. hide returns the names of these fields.
func (f *form) hide(secrets ...string) (typed []string) {
	for _, name := range secrets {
		if value := f.Get(name); value == "" || value == redacted {
			continue
		}
		typed = append(typed, name)
		f.Values.Del(name)
		if f.Fault(name) == "" {
			(*web.Form)(f).AddFault(name, typeAgain)
		}
	}
	return typed
}

// refuse adds the faults of an error of the API. It reports false for errors that are not about the
// values, which the caller returns.
func (f *form) refuse(err error) bool { return (*web.Form)(f).Refuse(err) }

// Get returns the first value of a field.
func (f form) Get(name string) string { return web.Form(f).Get(name) }

// Has reports whether a field has a value, as the boxes of a form do that are checked.
func (f form) Has(name, value string) bool { return web.Form(f).Has(name, value) }

// Fault returns what is wrong with a field; "" if nothing is.
func (f form) Fault(name string) string { return web.Form(f).Fault(name) }
