package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/targets"
)

var (
	onTemporal = object{"type": "workflow", "workflow_kind": "pay", "engine": "temporal", "address": "temporal.example:7233", "namespace": "acme"}
	aTask      = object{"type": "task", "task_kind": "build"}
)

// A build without the client of an engine refuses routes with it, and says so at stored ones.
func TestAnEngineThatTheProgramDoesNotKnow(t *testing.T) {
	isKnown := true
	r := setUp(t, func(d *api.Deps) {
		d.CheckEngine = func(target eventhook.Target) error {
			if !isKnown && targets.NeedsTemporal(target) {
				return errors.New("no client for Temporal")
			}
			return nil
		}
	})
	routes := T("acme") + "/sources/crm/routes"
	stored := r.admin("POST", routes, object{"name": "stored", "targets": []any{aTask, onTemporal}}).want(http.StatusCreated).object()
	same(t, "warnings", stored["warnings"], any(nil))
	isKnown = false
	for claim, answer := range map[string]*answer{
		"a new route":      r.admin("POST", routes, object{"name": "new", "targets": []any{aTask, onTemporal}}),
		"a changed route":  r.admin("PATCH", fmt.Sprint(routes, "/", stored["id"]), object{"name": "other"}),
		"a route to test":  r.backtest(proposal(func(o object) { o["route"].(object)["targets"] = []any{aTask, onTemporal} })),
		"the former route": r.admin("PATCH", routes+"/"+r.route.ID.String(), object{"targets": []any{aTask, onTemporal}}),
	} {
		p := answer.want(http.StatusUnprocessableEntity).problem()
		if len(p.Errors) != 1 || !strings.HasSuffix(p.Errors[0].Location, "targets[1].engine") || p.Errors[0].Message != "no client for Temporal" {
			t.Errorf("%s: got %+v, want one fault at targets[1].engine", claim, p.Errors)
		}
	}
	got := r.admin("GET", fmt.Sprint(routes, "/", stored["id"]), nil).want(http.StatusOK).object()
	same(t, "warnings", got["warnings"], any([]any{"targets[1].engine: its deliveries wait: no client for Temporal"}))
}

// No text can stand for a redacted private key, so a test of a route goes without the certificate.
func TestATestOfARouteAcceptsARedactedPrivateKey(t *testing.T) {
	r := setUp(t)
	target := object{"certificate": "x", "private_key": "[redacted]", "api_key": "[redacted]"}
	for name, value := range onTemporal {
		target[name] = value
	}
	r.backtest(proposal(func(o object) { o["route"].(object)["targets"] = []any{target} })).want(http.StatusOK)
}
