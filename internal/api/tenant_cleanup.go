package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// TenantCleanupStore ends the work of closed tenants and deletes their data in the
// background.
type TenantCleanupStore interface {
	// TenantCleanup returns the progress. KindNotFound: the tenant is not closed.
	TenantCleanup(ctx context.Context, tenant eventhook.TenantID) (eventhook.TenantCleanup, error)
	// PurgeTenant requests the deletion of a tenant's data. KindConflict: the tenant is
	// not closed.
	PurgeTenant(ctx context.Context, by eventhook.Actor, slug string) (eventhook.Tenant, error)
}

type tenantClosing struct {
	Status              string     `json:"status" enum:"running,completed" doc:"running: open work is being ended in the background."`
	CorrelationID       string     `json:"correlation_id" doc:"Shared by all events and audit entries of the closing."`
	EventsEnded         int64      `json:"events_ended" doc:"Events that were not processed, or waited for a retry or a delivery to a target, and are dead now."`
	ExecutionsCancelled int64      `json:"executions_cancelled"`
	PromisesRejected    int64      `json:"promises_rejected"`
	DeliveriesEnded     int64      `json:"deliveries_ended" doc:"Deliveries that were open and are dead now."`
	CompletedAt         *time.Time `json:"completed_at" doc:"Null while the status is running."`
}

type tenantPurge struct {
	Status      string     `json:"status" enum:"running,completed" doc:"running: the data is being deleted in the background."`
	RequestedAt time.Time  `json:"requested_at"`
	CompletedAt *time.Time `json:"completed_at" doc:"Null while the status is running."`
	DeletedRows int64      `json:"deleted_rows" doc:"Number of rows deleted so far, in all tables."`
}

// addCleanup adds the progress of a closed tenant's cleanup to its view.
func (v *tenantView) addCleanup(c eventhook.TenantCleanup) {
	v.Closing = &tenantClosing{Status: "running", CorrelationID: c.CorrelationID, EventsEnded: c.Ended[eventhook.EndedEvents],
		ExecutionsCancelled: c.Ended[eventhook.EndedExecutions], PromisesRejected: c.Ended[eventhook.EndedPromises],
		DeliveriesEnded: c.Ended[eventhook.EndedDeliveries], CompletedAt: optionalUTC(c.CloseCompletedAt)}
	if c.CloseCompletedAt != nil {
		v.Closing.Status = "completed"
	}
	if c.PurgeRequestedAt == nil {
		return
	}
	v.Purge = &tenantPurge{Status: "running", RequestedAt: utc(*c.PurgeRequestedAt), CompletedAt: optionalUTC(c.PurgeCompletedAt)}
	if c.PurgeCompletedAt != nil {
		v.Purge.Status = "completed"
	}
	for _, n := range c.Deleted {
		v.Purge.DeletedRows += n
	}
}

func (s *server) registerTenantPurge(api huma.API) {
	register(s, api, operation{id: "purge-tenant", method: http.MethodPost, path: tenantsPath + "/{tenant}/purge", tag: "admin",
		status:  http.StatusAccepted,
		summary: "Delete the data of a closed tenant",
		about: "Deletes events, bodies, deliveries, work, promises, sources, subscriptions, keys and their secrets in the background; the member purge of the tenant shows the progress. " +
			"The tenant itself stays as closed, so that its slug is never used again, and so do the audit entries about the tenant and the events of its closing. " +
			"409 unless the tenant is closed. A second request has no effect. The deletion cannot be undone."}, s.purgeTenant)
}

func (s *server) purgeTenant(ctx context.Context, by caller, in *TenantPath) (*tenantAnswer, error) {
	t, err := s.Admin.PurgeTenant(ctx, by.actor(), in.Tenant)
	if err != nil {
		return nil, err
	}
	return s.answerTenant(ctx, t)
}
