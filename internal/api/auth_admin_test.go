package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

const (
	olderAdminKey = "ehk_the-older-admin-key-of-a-rotation"
	adminReadKey  = "ehk_the-admin-read-key-of-these-tests"
)

func withRotatedKeys(d *api.Deps) {
	d.AdminKeys = []eventhook.Secret{eventhook.NewSecret(adminKey), eventhook.NewSecret(olderAdminKey)}
	d.AdminReadKeys = []eventhook.Secret{eventhook.NewSecret(adminReadKey)}
}

func TestEveryAdminKeyOfARotationWorks(t *testing.T) {
	r := setUp(t, withRotatedKeys)
	for key, name := range map[string]string{adminKey: "admin key", olderAdminKey: "admin key 2"} {
		r.clock.Advance(time.Second)
		r.call(key, "PATCH", "/api/admin/tenants/acme", map[string]any{"name": name}).want(http.StatusOK)
		var entries page
		r.call(key, "GET", "/api/admin/audit?action=tenant.updated&limit=1", nil).want(http.StatusOK).into(&entries)
		if actor, _ := entries.Items[0]["actor"].(map[string]any); actor["name"] != name || actor["type"] != "admin" {
			t.Errorf("audit entry: got actor %v, want %s", actor, name)
		}
	}
	r.call(adminKey+","+olderAdminKey, "GET", "/api/admin/tenants", nil).want(http.StatusUnauthorized)
}

// readOperations lists the operations other than GET that the admin read key may call.
var readOperations = []string{"POST " + tenantBase + "/events/{id}/test", "POST " + tenantBase + "/events/search", "POST " + tenantBase + "/expressions/test"}

func TestAdminReadKeyReadsEverythingAndChangesNothing(t *testing.T) {
	r := setUp(t, withRotatedKeys)
	close(r.stopping) // streams and waits end at once
	for _, op := range r.operations() {
		t.Run(op.Method+" "+op.Path, func(t *testing.T) {
			r := r.subtest(t)
			a := r.call(adminReadKey, op.Method, pathOf(op, "acme"), `{"no such field":1}`)
			isRead := op.Method == http.MethodGet
			for _, named := range readOperations {
				isRead = isRead || named == op.Method+" "+op.Path
			}
			switch {
			case isRead && (a.Code == http.StatusUnauthorized || a.Code == http.StatusForbidden):
				t.Errorf("answered %d, want access", a.Code)
			case !isRead && (a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "read key")):
				t.Errorf("answered %d %s, want 403 that names the read key", a.Code, a.Body)
			}
		})
	}
}
