package portal

import (
	"net/http"
	"slices"
	"strings"
)

// page is a page or an act of the portal.
type page struct {
	// pattern is the method and the path, as http.ServeMux takes them. An id in the path is named
	// {endpoint}, {delivery} or {replay}: the gate loads or checks it before handle is called.
	pattern string
	// template is the name of the file in pages/, without .html; "" for acts that always redirect.
	template string
	handle   func(*Portal, *request) (view, error)
	// isOwn is true for acts that concern the browser only, which a session for reading has, too.
	isOwn bool
	// isTest is true for acts that may wait for the response of an endpoint.
	isTest bool
}

// changes reports whether the page changes something of the tenant.
func (p page) changes() bool {
	return !p.isOwn && !strings.HasPrefix(p.pattern, http.MethodGet+" ")
}

// has reports whether the path of the page has an id of a kind.
func (p page) has(id string) bool { return strings.Contains(p.pattern, "{"+id+"}") }

// pages lists all pages and acts.
func pages() []page {
	return slices.Concat(endpointPages, editPages, actPages, replayPages, deliveryPages, typePages, browserPages)
}

// view is the response of a handler: a page, or a redirect to one.
type view struct {
	Title string
	Data  any    // of the template
	To    string // path of a redirect (303); "" for a page
	// Notice tells what happened. It is shown once, on the page or after the redirect.
	Notice string
	Status int    // of the response; 0: 200
	Page   string // template in place of the one of the page; "" for that
}

// redirect returns a redirect to a path, on which the notice is shown once.
func redirect(to, notice string) (view, error) { return view{To: to, Notice: notice}, nil }
