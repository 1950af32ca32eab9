package console

import (
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/client"
)

var auditPages = []page{
	{pattern: "GET /console/t/{tenant}/audit", reads: []string{"manage"}, template: "audit", handle: (*Console).audit},
	{pattern: "GET /console/audit", template: "audit", handle: (*Console).auditOfAll},
}

// auditRow is an entry of the audit log in a page.
type auditRow struct {
	client.AuditEntry
	Resource auditResource
	Changes  []auditChange
}

// auditResource is the resource of an entry with the address of its page; "" if it has none.
type auditResource struct{ Type, Name, Href string }

// auditChange is a changed field in a page. From and To are JSON; "" for an absent value.
type auditChange struct{ Field, From, To string }

// auditList is the data of the audit log.
type auditList struct {
	Entries    []auditRow
	Filter     form
	Pager      pager
	IsFiltered bool
	OfAll      bool // entries of all tenants
	Path       string
}

func (c *Console) audit(r *request) (view, error) {
	cursor, limit := r.cursor()
	found, err := r.api.ListTenantAudit(r.Context(), r.tenant, client.ListTenantAuditParams{Cursor: cursor, Limit: limit, Action: r.filter("action"),
		TraceID: r.filter("trace_id"), RequestID: r.filter("request_id"), CorrelationID: r.filter("correlation_id")})
	return r.auditView(found, "Audit", false), err
}

func (c *Console) auditOfAll(r *request) (view, error) {
	cursor, limit := r.cursor()
	found, err := r.api.ListAudit(r.Context(), client.ListAuditParams{Cursor: cursor, Limit: limit, Tenant: r.filter("tenant"), Action: r.filter("action"),
		TraceID: r.filter("trace_id"), RequestID: r.filter("request_id"), CorrelationID: r.filter("correlation_id")})
	return r.auditView(found, "Audit of all tenants", true), err
}

func (r *request) auditView(found client.AuditEntryPage, title string, ofAll bool) view {
	list := auditList{Filter: form{Values: r.URL.Query()}, Pager: r.pager(found.NextCursor), OfAll: ofAll, Path: r.URL.Path}
	for _, e := range found.Items {
		list.Entries = append(list.Entries, auditRowOf(e))
	}
	for _, name := range []string{"tenant", "action", "trace_id", "request_id", "correlation_id"} {
		list.IsFiltered = list.IsFiltered || r.filter(name) != nil
	}
	return view{Title: title, Data: list}
}

func auditRowOf(e client.AuditEntry) auditRow {
	row := auditRow{AuditEntry: e, Resource: auditResource{Type: e.Resource.Type, Name: e.Resource.Name}}
	if e.Tenant != nil && !strings.HasSuffix(e.Action, ".deleted") {
		row.Resource.Href = resourceHref(*e.Tenant, e.Resource)
	}
	for _, c := range e.Changes {
		row.Changes = append(row.Changes, auditChange{c.Field, jsonText(c.From), jsonText(c.To)})
	}
	return row
}

// resourceHref returns the address of a resource's page; "" if the type has no page of its own.
func resourceHref(tenant string, of client.AuditResource) string {
	id, base := "", tenantBase(tenant)
	if of.ID != nil {
		id = url.PathEscape(*of.ID)
	}
	switch of.Type {
	case "source":
		return base + "/sources/" + url.PathEscape(of.Name)
	case "event_type":
		return base + "/types/" + url.PathEscape(of.Name)
	case "api_key":
		return base + "/keys"
	case "tenant":
		return Root + "/tenants/" + url.PathEscape(tenant)
	case "route":
		source, _, _ := strings.Cut(of.Name, "/")
		return base + "/sources/" + url.PathEscape(source) + "/routes/" + id
	}
	if section := resourceSections[of.Type]; section != "" && id != "" {
		return base + section + id
	}
	return ""
}

// resourceSections are the pages of resources that are found by their id.
var resourceSections = map[string]string{"subscription": "/subscriptions/", "agent": "/agents/", "event": "/events/", "delivery": "/deliveries/",
	"execution": "/work/", "promise": "/promises/"}

// jsonText returns a value as JSON of one line, at most 300 bytes; "" for null.
func jsonText(value any) string {
	const size = 300
	if value == nil {
		return ""
	}
	if text, ok := value.(string); ok && !strings.ContainsAny(text, "\"\\\n") {
		return cutText(text, size)
	}
	return cutText(string(plainJSON(value)), size)
}

// cutText shortens a long text at a rune's boundary.
func cutText(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return strings.ToValidUTF8(s[:size], "") + "…"
}
