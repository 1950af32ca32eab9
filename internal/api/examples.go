package api

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// example is the example of an operation in the OpenAPI document and on /docs. The
// request is the text that a user would write; the response is built from the types
// of the handlers, so that its members cannot differ.
type example struct {
	request  string // JSON; "" without a body
	response any    // nil without a body
	query    string // of the curl command, such as status=failed
}

// Ids and times of all examples.
const (
	exampleTenantID       = "0195d3a0-1c00-7a10-8f3e-2b6c4d5e6f70"
	exampleKeyID          = "0195d3a1-2d00-7b21-9a4f-3c7d5e6f7081"
	exampleSourceID       = "0195d3a2-3e00-7c32-ab50-4d8e6f708192"
	exampleRouteID        = "0195d3a3-4f00-7d43-bc61-5e9f708192a3"
	exampleEventID        = "0195d3a4-6000-7e54-8d72-6fa08192a3b4"
	examplePublishedID    = "0195d3a5-7100-7f65-9e83-70b192a3b4c5"
	exampleActionID       = "0195d3a6-8200-7076-af94-81c2a3b4c5d6"
	exampleExecutionID    = "0195d3a7-9300-7187-80a5-92d3b4c5d6e7"
	examplePromiseID      = "0195d3a8-a400-7298-91b6-a3e4c5d6e7f8"
	exampleSubscriptionID = "0195d3a9-b500-73a9-a2c7-b4f5d6e7f809"
	exampleDeliveryID     = "0195d3aa-c600-74ba-b3d8-c506e7f8091a"
	exampleRejectionID    = "0195d3ab-d700-75cb-84e9-d617f8091a2b"
	exampleAuditID        = "0195d3ac-e800-76dc-95fa-e728091a2b3c"
	exampleAgentID        = "0195d3ad-f900-77ed-a60b-f8390a1b2c3d"

	exampleKey     = "ehk_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE"
	exampleTraceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	exampleCursor  = "pXk2sVd0mAEBldOkYAB-VI1yb6CBkqO0"
)

// exampleTime returns the time the given number of seconds after the first example.
func exampleTime(seconds int) time.Time {
	return time.Date(2026, time.March, 10, 9, 30, seconds, 0, time.UTC)
}

// examples returns the examples of all operations by operation id.
func examples() map[string]example {
	all := map[string]example{}
	for _, part := range []map[string]example{adminExamples(), configurationExamples(), sourceExamples(), subscriptionExamples(),
		operatorSubscriptionExamples(), eventExamples(), deliveryExamples(), workExamples(), promiseExamples(), agentExamples(), overviewExamples(), consoleExamples()} {
		maps.Copy(all, part)
	}
	return all
}

// examplePage returns the response of a list.
func examplePage[T any](items ...T) any {
	p := page[T]{}
	p.Body.Items, p.Body.NextCursor = items, new(exampleCursor)
	return p.Body
}

// lastExamplePage returns the response of a list without a further page.
func lastExamplePage[T any](items ...T) any {
	p := page[T]{}
	p.Body.Items = items
	return p.Body
}

func exampleTarget(text string) Target { return Target{json.RawMessage(text)} }

// configurationExamples returns the examples of apply and export.
func configurationExamples() map[string]example {
	const tenant = `{"slug":"acme","name":"Acme","sources":[{"slug":"github","provider":"github","secrets":["s3cr3t"],"routes":[{"name":"pushes","filter_event_types":["push"],"targets":[{"type":"task","task_kind":"build","queue":"ci"}]}]}]}`
	const request = `{
  "tenants": [{
    "slug": "acme",
    "name": "Acme",
    "sources": [{
      "slug": "github",
      "provider": "github",
      "secrets": ["s3cr3t"],
      "routes": [{"name": "pushes", "filter_event_types": ["push"], "targets": [{"type": "task", "task_kind": "build", "queue": "ci"}]}]
    }]
  }]
}`
	plan := configurationPlan{Unchanged: 1, Applied: true, Changes: []configurationChange{
		{"update", "source", "acme/github", []auditedChange{{Field: "secrets", From: json.RawMessage(`"[redacted]"`),
			To: json.RawMessage(`"[redacted, changed]"`)}}},
		{"create", "route", "acme/github/pushes", []auditedChange{}}}}
	exported := ConfigurationDocument{Tenants: []jsonObject{jsonObject(strings.ReplaceAll(tenant, "s3cr3t",
		"${ACME_GITHUB_SECRET_1}"))}, Variables: []string{"ACME_GITHUB_SECRET_1"}}
	return map[string]example{
		"apply-configuration":         {request: request, response: plan, query: "dry_run=true"},
		"apply-tenant-configuration":  {request: request, response: plan, query: "prune=true"},
		"export-configuration":        {response: exported},
		"export-tenant-configuration": {response: exported},
	}
}

func adminExamples() map[string]example {
	tenant := tenantView{ID: exampleTenantID, Slug: "acme", Name: "Acme", Status: "active", MaxEventsPerDay: new(int64(1_000_000)),
		Usage: tenantUsage{EventsToday: 18_204, StorageBytes: 73_400_320}, Version: 1, CreatedAt: exampleTime(0), UpdatedAt: exampleTime(0)}
	created, suspended, closed := tenant, tenant, tenant
	created.Usage = tenantUsage{}
	suspended.Status, suspended.Version, suspended.UpdatedAt = "suspended", 2, exampleTime(40)
	closed.Status, closed.Version, closed.UpdatedAt = "closed", 3, exampleTime(50)
	closed.Closing = &tenantClosing{Status: "running", CorrelationID: exampleAuditID}
	purged := closed
	purged.Closing = &tenantClosing{Status: "completed", CorrelationID: exampleAuditID, ExecutionsCancelled: 12, DeliveriesEnded: 3,
		CompletedAt: new(exampleTime(51))}
	purged.Purge = &tenantPurge{Status: "running", RequestedAt: exampleTime(55), DeletedRows: 4000}

	key := keyView{ID: exampleKeyID, Name: "ci", Prefix: "ehk_Zm9v", Scopes: []string{"read", "publish"}, ExpiresAt: new(exampleTime(0).AddDate(1, 0, 0)),
		LastUsedAt: new(exampleTime(30)), CreatedAt: exampleTime(0)}
	newKey := key
	newKey.LastUsedAt, newKey.Key = nil, exampleKey

	entry := auditEntryView{ID: exampleAuditID, At: exampleTime(20), Tenant: new("acme"), Actor: auditActor{Type: "api_key", ID: new(exampleKeyID), Name: "ci"},
		Action: "source.updated", Resource: auditResource{Type: "source", ID: new(exampleSourceID), Name: "github"},
		Changes:  []auditedChange{{Field: "rate_limit.burst_size", From: json.RawMessage("50"), To: json.RawMessage("100")}},
		SourceIP: new("203.0.113.7"), RequestID: new("req-7f3a")}
	return map[string]example{
		"list-tenants":  {response: lastExamplePage(tenant)},
		"create-tenant": {request: `{"slug": "acme", "name": "Acme", "max_events_per_day": 1000000}`, response: created},
		"get-tenant":    {response: tenant},
		"update-tenant": {request: `{"status": "suspended"}`, response: suspended},
		"close-tenant":  {response: closed},
		"purge-tenant":  {response: purged},
		"get-identity": {response: identityView{Type: "tenant", Name: "ci", Tenant: &identityTenant{"acme", "Acme", "active"},
			Scopes: []string{"read", "publish"}, Tenants: []tenantScopes{}, ExpiresAt: new(exampleTime(0).AddDate(1, 0, 0))}},
		"list-keys":     {response: lastExamplePage(key)},
		"list-own-keys": {response: lastExamplePage(key)},
		"create-key": {request: `{"name": "ci", "scopes": ["read", "publish"], "expires_at": "2027-03-10T09:30:00Z"}`,
			response: newKey},
		"delete-key":          {},
		"list-all-events":     {query: "trace_id=" + exampleTraceID, response: examplePage(EventOfTenant{"acme", exampleEvent()})},
		"list-all-deliveries": {query: "tenant=acme&status=dead", response: examplePage(DeliveryOfTenant{"acme", exampleDelivery()})},
		"list-audit":          {query: "tenant=acme&action=source.updated", response: examplePage(entry)},

		"list-tenant-audit": {query: "action=source.updated", response: examplePage(entry)},
	}
}
