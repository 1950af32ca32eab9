package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// AdminStore stores tenants, their keys and the audit log.
type AdminStore interface {
	TenantStore
	TenantCleanupStore
	TenantKeyStore
	AuditStore
}

// TenantStore stores tenants. KindConflict: the slug exists already, or the tenant is
// closed. KindStale: the version is neither 0 nor the current one.
type TenantStore interface {
	Tenants(ctx context.Context, before eventhook.TenantID, limit int) ([]eventhook.Tenant, error)
	Tenant(ctx context.Context, slug string) (eventhook.Tenant, error)
	// TenantSlugs returns the slugs of tenants. Tenants that do not exist are missing.
	TenantSlugs(ctx context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error)
	// UnknownTenants returns the slugs that no tenant has.
	UnknownTenants(ctx context.Context, slugs []string) ([]string, error)
	CreateTenant(ctx context.Context, by eventhook.Actor, t eventhook.Tenant) (eventhook.Tenant, error)
	UpdateTenant(ctx context.Context, by eventhook.Actor, slug string, version int64, change func(eventhook.Tenant) (eventhook.Tenant, error)) (eventhook.Tenant, error)
	CloseTenant(ctx context.Context, by eventhook.Actor, slug string) (eventhook.Tenant, error)
	// TenantUsage returns the usage of tenants. Tenants without stored events are
	// missing.
	TenantUsage(ctx context.Context, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantUsage, error)
}

type tenantView struct {
	ID              string         `json:"id" format:"uuid"`
	Slug            string         `json:"slug" doc:"Identifies the tenant in URLs."`
	Name            string         `json:"name" doc:"Display name."`
	Status          string         `json:"status" enum:"active,suspended,closed" doc:"active: receives webhooks. suspended: receives no webhooks, and its keys cannot change anything. closed: permanently disabled."`
	MaxEventsPerDay *int64         `json:"max_events_per_day" doc:"Null: no limit."`
	MaxStorageBytes *int64         `json:"max_storage_bytes" doc:"Null: no limit."`
	Usage           tenantUsage    `json:"usage" doc:"Used part of the quota."`
	Closing         *tenantClosing `json:"closing,omitempty" doc:"Progress of the closing, for a closed tenant. Lists of tenants leave it out."`
	Purge           *tenantPurge   `json:"purge,omitempty" doc:"Progress of the deletion of the tenant's data, if it was requested. Lists of tenants leave it out."`
	Version         int64          `json:"version" doc:"Increases with every change and is used as the ETag."`
	CreatedAt       time.Time      `json:"created_at"`
	UpdatedAt       time.Time      `json:"updated_at"`
}

type tenantUsage struct {
	EventsToday  int64 `json:"events_today" doc:"Events stored since midnight UTC, including duplicates. Events of the last second may be missing."`
	StorageBytes int64 `json:"storage_bytes" doc:"Size of stored bodies and headers."`
}

func viewTenant(t eventhook.Tenant, used eventhook.TenantUsage) tenantView {
	return tenantView{
		ID: t.ID.String(), Slug: t.Slug, Name: t.Name, Status: string(t.Status), Version: t.Version,
		MaxEventsPerDay: t.Quota.MaxEventsPerDay, MaxStorageBytes: t.Quota.MaxStorageBytes,
		Usage: tenantUsage{used.EventsToday, used.StorageBytes}, CreatedAt: utc(t.CreatedAt), UpdatedAt: utc(t.UpdatedAt),
	}
}

const tenantsPath = "/api/admin/tenants"

func (s *server) registerTenants(api huma.API) {
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: tenantsPath + path, summary: summary, tag: "admin"}
	}
	create := op("create-tenant", http.MethodPost, "", "Create a tenant")
	create.status, create.skipsShape = http.StatusCreated, true
	update := op("update-tenant", http.MethodPatch, "/{tenant}", "Update a tenant")
	update.skipsShape = true
	update.about = "Changes name, status or quotas. A suspended tenant receives no webhooks and its keys cannot change anything; events accepted before are still processed. A quota of null means no limit."
	end := op("close-tenant", http.MethodPost, "/{tenant}/close", "Close a tenant")
	end.about = "Disables the tenant's sources and subscriptions and expires its keys at once. In the background, open executions are cancelled, open promises rejected, and open deliveries and events end as dead; " +
		"the member closing shows the progress. Events with the suffix _via_tenant_cascade and audit entries report the changes. They share one correlation_id. " +
		"Stored data stays until the end of its retention period, or until it is purged. Closing cannot be undone."
	register(s, api, op("list-tenants", http.MethodGet, "", "List tenants"), s.listTenants)
	register(s, api, create, s.createTenant)
	register(s, api, op("get-tenant", http.MethodGet, "/{tenant}", "Get a tenant"), s.getTenant)
	register(s, api, update, s.updateTenant)
	register(s, api, end, s.closeTenant)
	s.registerTenantPurge(api)
}

func (s *server) listTenants(ctx context.Context, _ caller, in *PageQuery) (*page[tenantView], error) {
	pages := s.pager("tenants", eventhook.TenantID{})
	before, err := cursorOf[eventhook.Tenant](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Admin.Tenants(ctx, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	ids := make([]eventhook.TenantID, len(list))
	for i, t := range list {
		ids[i] = t.ID
	}
	used, err := s.Admin.TenantUsage(ctx, ids)
	if err != nil {
		return nil, err
	}
	show := func(t eventhook.Tenant) tenantView { return viewTenant(t, used[t.ID]) }
	return newPage(pages, list, in.Limit, show, func(t eventhook.Tenant) eventhook.TenantID { return t.ID }), nil
}

type tenantAnswer struct {
	ETag string `header:"ETag"`
	Body tenantView
}

// answerTenant returns the response with a tenant and its usage.
func (s *server) answerTenant(ctx context.Context, t eventhook.Tenant) (*tenantAnswer, error) {
	used, err := s.Admin.TenantUsage(ctx, []eventhook.TenantID{t.ID})
	if err != nil {
		return nil, err
	}
	answer := &tenantAnswer{etag(t.Version), viewTenant(t, used[t.ID])}
	if t.Status == eventhook.TenantClosed {
		progress, err := s.Admin.TenantCleanup(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		answer.Body.addCleanup(progress)
	}
	return answer, nil
}

type tenantCreate struct {
	Slug            string `json:"slug" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"1 to 63 lower-case letters, digits and inner hyphens" doc:"1 to 63 lower-case letters, digits and inner hyphens. It cannot be changed."`
	Name            string `json:"name" doc:"Display name."`
	MaxEventsPerDay *int64 `json:"max_events_per_day,omitempty" nullable:"true" doc:"Maximum events per UTC day, including duplicates. If omitted, there is no limit."`
	MaxStorageBytes *int64 `json:"max_storage_bytes,omitempty" nullable:"true" doc:"Maximum size of stored bodies and headers. If omitted, there is no limit."`
}

type createTenantRequest struct{ Body document[tenantCreate] }

type createdTenant struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     tenantView
}

func (s *server) createTenant(ctx context.Context, by caller, in *createTenantRequest) (*createdTenant, error) {
	b, shape := in.Body.read(s)
	t := eventhook.Tenant{Slug: b.Slug, Name: b.Name, Quota: eventhook.Quota{MaxEventsPerDay: b.MaxEventsPerDay, MaxStorageBytes: b.MaxStorageBytes}}
	var rules eventhook.Faults
	rules.Merge("body", t.Validate())
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	t, err := s.Admin.CreateTenant(ctx, by.actor(), t)
	if err != nil {
		return nil, err
	}
	s.keys.invalidate(t.Slug) // its absence may be cached
	return &createdTenant{etag(t.Version), tenantsPath + "/" + t.Slug, viewTenant(t, eventhook.TenantUsage{})}, nil
}

func (s *server) getTenant(ctx context.Context, _ caller, in *TenantPath) (*tenantAnswer, error) {
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return s.answerTenant(ctx, t)
}

type tenantPatch struct {
	Name            *string `json:"name,omitempty" doc:"Display name."`
	Status          *string `json:"status,omitempty" enum:"active,suspended" doc:"active or suspended. Use Close a tenant to close it."`
	MaxEventsPerDay *int64  `json:"max_events_per_day,omitempty" nullable:"true" doc:"Null: no limit."`
	MaxStorageBytes *int64  `json:"max_storage_bytes,omitempty" nullable:"true" doc:"Null: no limit."`
}

type updateTenantRequest struct {
	TenantPath
	IfMatch
	Body document[tenantPatch]
}

func (s *server) updateTenant(ctx context.Context, by caller, in *updateTenantRequest) (*tenantAnswer, error) {
	var t eventhook.Tenant
	err := in.applyIfMatch(func(version int64) (err error) {
		t, err = s.Admin.UpdateTenant(ctx, by.actor(), in.Tenant, version, func(have eventhook.Tenant) (eventhook.Tenant, error) {
			return s.patchTenant(have, in.Body)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.keys.invalidate(t.Slug)
	return s.answerTenant(ctx, t)
}

// patchTenant returns the tenant after a patch.
func (s *server) patchTenant(have eventhook.Tenant, patch document[tenantPatch]) (eventhook.Tenant, error) {
	q := have.Quota
	b, shape, err := patch.mergePatched(s, tenantPatch{&have.Name, new(string(have.Status)), q.MaxEventsPerDay, q.MaxStorageBytes})
	if err != nil {
		return have, err
	}
	want := have
	var rules eventhook.Faults
	if want.Name = ""; b.Name != nil {
		want.Name = *b.Name
	}
	if b.Status == nil {
		rules.Add("status", "must be active or suspended")
	} else {
		want.Status = eventhook.TenantStatus(*b.Status)
	}
	want.Quota = eventhook.Quota{MaxEventsPerDay: b.MaxEventsPerDay, MaxStorageBytes: b.MaxStorageBytes}
	var all eventhook.Faults
	all.Merge("body", append(rules, want.Validate()...))
	return want, combinedError(shape, all)
}

func (s *server) closeTenant(ctx context.Context, by caller, in *TenantPath) (*tenantAnswer, error) {
	t, err := s.Admin.CloseTenant(ctx, by.actor(), in.Tenant)
	if err != nil {
		return nil, err
	}
	s.keys.invalidate(t.Slug)
	return s.answerTenant(ctx, t)
}
