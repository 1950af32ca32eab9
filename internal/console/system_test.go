package console_test

import (
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestSystemShowsTheStateOfTheGateway(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET /api/admin/system", client.System{AsOf: today, Version: "v1.2", SchemaVersion: 25, SchemaSupported: 26, EncryptionKeyIds: []string{"k2", "k1"}, DatabaseKeyID: "k1",
		Instance:    client.SystemInstance{ID: "i1", NotReadyReason: attack, Roles: []string{"api", "console"}, StartedAt: today},
		Connections: []client.SystemConnections{{Pool: "accept", Used: 2, Max: 8}}, Retention: client.SystemRetention{BodiesDays: 30},
		Queues: client.SystemQueues{Deliveries: client.SystemQueue{Due: 1284, OldestAgeSeconds: 90, Parked: map[string]int64{"circuit open": 7}}}})
	f.get("/console/system").is(http.StatusOK).lacks("<script>alert").
		shows("not ready", "1\u202f284", "90 s", "7 circuit open", "eventhook migrate", "k2", "30 days", "accept", "test-alert", "none is configured")
}

func TestSystemIsForAdmins(t *testing.T) {
	f := newFixture(t)
	f.answer("GET /api/admin/system", &client.Problem{Title: "Forbidden", Status: http.StatusForbidden, Detail: "This needs the admin key."})
	f.get("/console/system").is(http.StatusForbidden).shows("This needs the admin key.")
}
