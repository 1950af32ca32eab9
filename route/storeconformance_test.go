package route_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route/routetest"
)

// The fake queue passes the same conformance tests as internal/pg.
func TestTheFakeQueueConforms(t *testing.T) {
	for name, check := range routetest.QueueCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, tenant := newQueue(), eventhook.TenantID{1}
				check(t, routetest.Queue{
					Store: q, Tenant: tenant, Source: eventhook.SourceID{2}, Route: eventhook.RouteID{3}, Now: time.Now, Advance: time.Sleep,
					Change:     func() { q.change(tenant) },
					Generation: func() int64 { return q.generation[tenant] },
					Status:     func(e *eventhook.Event) eventhook.EventStatus { return q.rows[e.ID].Status },
					EndRequest: func(d *eventhook.Delivery, isSent bool) {
						status := eventhook.ActionSuccess
						if !isSent {
							status = eventhook.ActionFailed
						}
						q.endRequest(d, status)
					},
				})
			})
		})
	}
}
