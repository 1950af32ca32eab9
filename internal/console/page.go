package console

import (
	"net/http"
	"slices"
)

// page is a page or an act of the console.
type page struct {
	// pattern is the method and the path, as http.ServeMux takes them. Paths of a tenant begin
	// with /console/t/{tenant}.
	pattern string
	// template is the name of the file in pages/, without .html; "" for acts that always redirect.
	template string
	// needs is the scope that the API demands for the act of the page, or needsAdmin. A person
	// without it gets the page of a problem. "" is for pages to read.
	needs string
	// reads are the scopes of which one opens a page of a tenant to read; nil is the scope read. An
	// admin reads each page.
	reads  []string
	handle func(*Console, *request) (view, error)
	// serve writes the response itself, for example a file, in place of handle.
	serve func(*Console, *request, http.ResponseWriter) error
	// isLive is true for pages whose parts with the attribute data-live-part are refreshed when
	// something happens to an event of the tenant.
	isLive bool
	// section is the entry of the navigation that the page belongs to; "" derives it from the path.
	section string
}

// scopes returns the scopes of which a person needs one to open the page of a tenant.
func (p page) scopes() []string {
	switch {
	case p.needs != "":
		return []string{p.needs}
	case p.reads != nil:
		return p.reads
	}
	return []string{"read"}
}

// needsAdmin is the member needs of a page whose act only the admin key may do.
const needsAdmin = "admin"

// pages lists all pages and acts.
func pages() []page {
	return slices.Concat(overviewPages, searchPages, eventPages, sourcePages, routePages, workPages, promisePages, subscriptionPages,
		deliveryPages, agentPages, typePages, keyPages, auditPages, tenantPages, systemPages)
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
	// IsStill is true for a page whose content no longer changes: it opens no stream.
	IsStill bool
}

// redirect returns a redirect to a path, on which the notice is shown once.
func redirect(to, notice string) (view, error) { return view{To: to, Notice: notice}, nil }
