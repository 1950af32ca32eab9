package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// AuditStore reads the audit log, newest entry first.
type AuditStore interface {
	AuditEntries(ctx context.Context, f eventhook.AuditFilter) ([]eventhook.AuditEntry, error)
}

type auditEntryView struct {
	ID            string          `json:"id" format:"uuid"`
	At            time.Time       `json:"at" doc:"Time of the change."`
	Tenant        *string         `json:"tenant" doc:"Slug of the affected tenant."`
	Actor         auditActor      `json:"actor" doc:"Who or what made the change."`
	Action        string          `json:"action" example:"source.updated" doc:"Type of the change."`
	Resource      auditResource   `json:"resource" doc:"The changed resource."`
	Changes       []auditedChange `json:"changes" doc:"Changed fields."`
	Via           *string         `json:"via" doc:"Program in which the actor made the change: console or portal; null for the API and for commands."`
	SourceIP      *string         `json:"source_ip" doc:"Client address of the request."`
	RequestID     *string         `json:"request_id" doc:"X-Request-Id of the request."`
	TraceID       *string         `json:"trace_id" doc:"W3C trace id of the change, which its system events have, too; null for entries of earlier versions."`
	CorrelationID *string         `json:"correlation_id" doc:"Shared by all entries and events of one action, such as closing a tenant."`
}

type auditActor struct {
	Type string  `json:"type" enum:"admin,admin_on_behalf_of,api_key,session,operator,system" doc:"admin: the admin key. admin_on_behalf_of: the admin key, acting on a tenant's resources. api_key: a key of the tenant. session: a person who signed in without a key. operator: a command with direct access to the database. system: the gateway itself."`
	ID   *string `json:"id" doc:"Id of the API key; null for every other type of actor."`
	Name string  `json:"name" doc:"Name of the API key or the person, or a name for another actor."`
}

type auditResource struct {
	Type string  `json:"type" example:"source"`
	ID   *string `json:"id" doc:"Null if the resource has no id."`
	Name string  `json:"name" doc:"Name of the resource when it changed."`
}

// auditedChange is the change of one field. From and To are JSON values.
type auditedChange struct {
	Field string          `json:"field" example:"rate_limit.burst_size" doc:"Path of the field."`
	From  json.RawMessage `json:"from" doc:"Value before the change; null if the field did not exist. Secrets are never shown, only that they changed."`
	To    json.RawMessage `json:"to" doc:"Value after the change; null if the field was removed."`
}

// tenantOfEntry returns the slug of an entry's tenant, "" for changes of the operator's own
// resources.
func tenantOfEntry(e eventhook.AuditEntry) string {
	if e.TenantID == eventhook.OperatorTenant {
		return ""
	}
	return e.TenantSlug
}

func viewAuditEntry(e eventhook.AuditEntry) auditEntryView {
	v := auditEntryView{
		ID: e.ID.String(), At: utc(e.ID.Time()), Tenant: optional(tenantOfEntry(e)), Action: e.Action,
		Actor:    auditActor{string(e.Actor.Type), optionalID(e.Actor.KeyID), e.Actor.Name},
		Resource: auditResource{e.ResourceType, optional(e.ResourceID), e.ResourceName}, Changes: []auditedChange{},
		Via: optional(e.Actor.Via), SourceIP: optional(e.Actor.SourceIP), RequestID: optional(e.Actor.RequestID), CorrelationID: optional(e.CorrelationID),
		TraceID: optional(e.TraceID),
	}
	for _, c := range e.Changes {
		v.Changes = append(v.Changes, auditedChange(c))
	}
	return v
}

func (s *server) registerAudit(api huma.API) {
	register(s, api, operation{id: "list-audit", method: http.MethodGet, path: "/api/admin/audit", tag: "admin",
		summary: "List audit entries of all tenants", about: "Newest first. 404 if the tenant does not exist. The list is empty for an unknown action."}, s.listAudit)
	register(s, api, operation{id: "list-tenant-audit", method: http.MethodGet, path: base + "/audit", scope: eventhook.ScopeManage, tag: "audit",
		summary: "List audit entries of a tenant", about: "Newest first."}, s.listTenantAudit)
}

// AuditQuery filters a list of audit entries.
type AuditQuery struct {
	Action string `query:"action" maxLength:"100" doc:"Return only entries with this action, such as source.updated."`

	TraceID       string `query:"trace_id" pattern:"^[0-9a-fA-F]{32}$" patternDescription:"a W3C trace id of 32 hexadecimal digits" doc:"Return only entries of this trace."`
	RequestID     string `query:"request_id" maxLength:"255" doc:"Return only entries of the request with this X-Request-Id."`
	CorrelationID string `query:"correlation_id" maxLength:"255" doc:"Return only entries with this correlation id."`
	PageQuery
}

type auditRequest struct {
	Tenant string `query:"tenant" doc:"Slug of the affected tenant."`
	AuditQuery
}

func (s *server) listAudit(ctx context.Context, _ caller, in *auditRequest) (*page[auditEntryView], error) {
	tenant, err := s.tenantNamed(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return s.auditPage(ctx, s.pager("audit", tenant), tenant, in.AuditQuery)
}

// tenantNamed returns the id of the tenant with a slug; zero for an empty slug.
func (s *server) tenantNamed(ctx context.Context, slug string) (id eventhook.TenantID, err error) {
	if slug == "" {
		return id, nil
	}
	if !eventhook.IsSlug(slug) {
		return id, eventhook.NotFound("tenant")
	}
	t, err := s.Admin.Tenant(ctx, slug)
	return t.ID, err
}

type tenantAuditRequest struct {
	TenantPath
	AuditQuery
}

func (s *server) listTenantAudit(ctx context.Context, by caller, in *tenantAuditRequest) (*page[auditEntryView], error) {
	return s.auditPage(ctx, s.pager("tenant audit", by.tenant), by.tenant, in.AuditQuery)
}

func (s *server) auditPage(ctx context.Context, pages pager, tenant eventhook.TenantID, q AuditQuery) (*page[auditEntryView], error) {
	before, err := cursorOf[eventhook.AuditEntry](pages, q.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Admin.AuditEntries(ctx, eventhook.AuditFilter{Tenant: tenant, Action: q.Action, TraceID: strings.ToLower(q.TraceID),
		RequestID: eventhook.NormalizeKey(q.RequestID), CorrelationID: eventhook.NormalizeKey(q.CorrelationID), Before: before,
		Limit: q.Limit + 1})
	if err != nil {
		return nil, err
	}
	return newPage(pages, list, q.Limit, viewAuditEntry, func(e eventhook.AuditEntry) eventhook.AuditID { return e.ID }), nil
}
