package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/eventhook/eventhook/client"
)

// tenantPage is the data of the page of a tenant.
type tenantPage struct {
	client.Tenant
	Usage  *client.Usage // nil if it cannot be read
	Quotas []quota
	Edit   form
	Close  form // typing the slug confirms that the tenant is closed or purged
}

// quota is a limit of a tenant and what is used of it.
type quota struct {
	Name        string
	Used        int64
	Max         *int64
	IsBytes     bool
	IsAlmostOut bool // at least nine tenths are used
	IsUsedUp    bool
	High        int64 // from here on it is almost used up
}

func newQuota(name string, used int64, most *int64, isBytes bool) quota {
	const tenth = 10
	q := quota{Name: name, Used: used, Max: most, IsBytes: isBytes}
	if most != nil {
		q.High = *most - *most/tenth
		q.IsUsedUp, q.IsAlmostOut = used >= *most, used >= q.High
	}
	return q
}

func (c *Console) tenantSettings(r *request) (view, error) {
	return c.showTenant(r, nil, form{Values: url.Values{}}, http.StatusOK)
}

// showTenant returns the page of a tenant. Without edit, the form has the stored values.
func (c *Console) showTenant(r *request, edit *form, confirm form, status int) (view, error) {
	var header http.Header
	t, err := r.api.GetTenant(r.Context(), r.tenant, client.KeepHeader(&header))
	if err != nil {
		return view{}, err
	}
	p := tenantPage{Tenant: t, Close: confirm}
	if usage, err := r.api.GetUsage(r.Context(), r.tenant); err == nil {
		p.Usage = &usage
		t.Usage.EventsToday, t.Usage.StorageBytes = usage.EventsToday, usage.StorageBytes
	}
	p.Quotas = []quota{newQuota("Events today", t.Usage.EventsToday, t.MaxEventsPerDay, false), newQuota("Storage", t.Usage.StorageBytes, t.MaxStorageBytes, true)}
	if edit == nil {
		edit = &form{Values: url.Values{"name": {t.Name}, "max_events_per_day": {optional(t.MaxEventsPerDay)}, "max_storage_bytes": {optional(t.MaxStorageBytes)}, "etag": {header.Get("ETag")}}}
	}
	p.Edit = *edit
	return view{Title: "Tenant " + t.Slug, Data: p, Status: status}, nil
}

func optional(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// updateTenant changes the name and the quotas. An empty quota is no limit, which the API takes as
// null.
func (c *Console) updateTenant(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, tenantFields...)
	body, err := jsonOf(map[string]any{"name": f.Get("name"), "max_events_per_day": f.integer("max_events_per_day"), "max_storage_bytes": f.integer("max_storage_bytes")})
	if err != nil {
		return view{}, err
	}
	if f.isReadable() {
		_, err := r.api.UpdateTenantFrom(r.detached(), r.tenant, client.UpdateTenantParams{IfMatch: f.text("etag")}, body)
		if err == nil {
			return redirect(tenantPath(r.tenant), "The tenant is updated.")
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return c.showTenant(r, &f, form{Values: url.Values{}}, http.StatusUnprocessableEntity)
}

func (c *Console) suspendTenant(r *request) (view, error) {
	return r.setTenantStatus(client.TenantStatusSuspended, "The tenant is suspended: its sources refuse webhooks, and its keys cannot change anything.")
}

func (c *Console) activateTenant(r *request) (view, error) {
	return r.setTenantStatus(client.TenantStatusActive, "The tenant is active.")
}

func (r *request) setTenantStatus(status client.TenantStatus, notice string) (view, error) {
	if _, err := r.api.UpdateTenant(r.detached(), r.tenant, client.UpdateTenantParams{}, client.TenantPatch{Status: &status}); err != nil {
		return view{}, err
	}
	return redirect(tenantPath(r.tenant), notice)
}
