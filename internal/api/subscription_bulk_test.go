package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func (r *fixture) subscriptionStatuses(ids ...string) (statuses []any) {
	r.Helper()
	for _, id := range ids {
		statuses = append(statuses, r.admin("GET", subscriptionPath(id), nil).want(http.StatusOK).object()["status"])
	}
	return statuses
}

func TestBulkChangesOfSubscriptions(t *testing.T) {
	r := setUp(t)
	later := func(eventType string) string {
		r.clock.Advance(time.Millisecond)
		return r.subscribe(eventType)
	}
	a, b, c := later("order.*"), later("order.made"), later("payment.*")
	for _, step := range []struct {
		claim, verb   string
		body          object
		matched       float64
		changed, want []any
	}{
		{"by type", "pause", object{"filter": object{"event_type": "order.*"}, "limit": 10, "expected_count": 2}, 2, []any{a, b}, []any{"paused", "paused", "active"}},
		{"unchanged ones do not count as changed", "pause", object{"filter": object{}, "expected_count": 3}, 3, []any{c}, []any{"paused", "paused", "paused"}},
		{"by status, the oldest", "resume", object{"filter": object{"status": "paused"}, "limit": 1, "expected_count": 3}, 3, []any{a}, []any{"active", "paused", "paused"}},
		{"disable", "disable", object{"filter": object{"status": []string{"paused", "disabled"}}}, 2, []any{b, c}, []any{"active", "disabled", "disabled"}},
		{"disabled ones are not resumed", "resume", object{"filter": object{}}, 3, []any{}, []any{"active", "disabled", "disabled"}},
		{"enable", "enable", object{"filter": object{"status": []string{"disabled"}}, "limit": 5, "expected_count": 2}, 2, []any{b, c}, []any{"active", "active", "active"}},
	} {
		got := r.admin("POST", T("acme")+"/subscriptions/"+step.verb, step.body).want(http.StatusOK).object()
		want := object{"matched_count": step.matched, "changed_count": float64(len(step.changed)), "subscription_ids": step.changed}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.claim, diff)
		}
		if diff := cmp.Diff(step.want, r.subscriptionStatuses(a, b, c)); diff != "" {
			t.Errorf("%s: statuses (-want +got):\n%s", step.claim, diff)
		}
	}
	if got := r.list(T("acme") + "/audit?action=subscriptions.disabled"); len(got.Items) != 1 || !strings.Contains(fmt.Sprint(got.Items[0]), "2 subscriptions") {
		t.Errorf("got the audit entries %v, want one of 2 subscriptions", got.Items)
	}
}

func TestBulkActsRequireTheExpectedCount(t *testing.T) {
	r := setUp(t)
	one := r.subscribe("order.*")
	r.subscribe("order.*")
	d := r.deliverTo(one, withStatus(eventhook.DeliveryDead))
	r.deliverTo(one, withStatus(eventhook.DeliveryFailed))
	r.deliverTo(one)
	r.clock.Advance(time.Second)
	dead, ids := r.dead(), []string{r.dead().ID.String()}
	ids = append(ids, ids[0], dead.ID.String())
	replay := "/subscriptions/" + one + "/replay"
	since := "2026-01-01T00:00:00Z"
	for path, body := range map[string]object{
		"/subscriptions/pause":   {"filter": object{}, "limit": 1, "expected_count": 1},
		"/subscriptions/disable": {"filter": object{"status": "active"}, "limit": 9, "expected_count": 3},
		"/deliveries/retry":      {"filter": object{}, "limit": 1, "expected_count": 1},
		"/events/reprocess":      {"filter": object{}, "limit": 1, "expected_count": 1},
		"/events/reprocess?":     {"event_ids": ids, "expected_count": 3},
		"/events/reprocess??":    {"mode": "again", "filter": object{"status": "dead"}, "limit": 1000, "expected_count": 1000},
		replay:                   {"since": since, "status": []string{"dead", "failed"}, "expected_count": 0},
	} {
		p := r.admin("POST", T("acme")+strings.TrimRight(path, "?"), body).want(http.StatusConflict).problem()
		if !strings.Contains(p.Detail, "matches 2 ") {
			t.Errorf("%s: got %q, want the real count", path, p.Detail)
		}
	}
	if diff := cmp.Diff([]any{"active"}, r.subscriptionStatuses(one)); diff != "" {
		t.Errorf("after a refusal: statuses (-want +got):\n%s", diff)
	}
	if got := r.admin("GET", T("acme")+deliveries+"/"+d, nil).want(http.StatusOK).object(); got["status"] != "dead" {
		t.Errorf("after a refusal: the delivery is %v, want dead", got["status"])
	}
	got := r.admin("POST", T("acme")+deliveries+"/retry", object{"filter": object{"subscription_id": one}, "limit": 1, "expected_count": 2}).want(http.StatusOK).object()
	if got["retried_count"] != 1.0 {
		t.Errorf("got %v, want one retried delivery, as the limit says", got)
	}
	r.admin("POST", T("acme")+replay, object{"since": since, "status": []string{"success"}, "expected_count": 1}).want(http.StatusAccepted)
	if got := r.admin("GET", T("acme")+replay+"s", nil).want(http.StatusOK).object()["items"].([]any); len(got) != 1 {
		t.Errorf("%d replays, want only that of the right count", len(got))
	}
	if got := r.reprocess(object{"filter": object{"status": "dead"}, "limit": 1, "expected_count": 2}); got.Count != 1 {
		t.Errorf("reprocessed %d events, want one, as the limit says", got.Count)
	}
	r.admin("POST", T("acme")+"/subscriptions/pause", object{"limit": 1}).want(http.StatusUnprocessableEntity)
	for body, want := range map[string][]string{
		`{"filter":{"status":"gone","colour":1}}`:          {"body.filter.colour", "body.filter.status"},
		`{"filter":{"status":["gone"]}}`:                   {"body.filter.status[0]"},
		`{"filter":{"status":[]}}`:                         {"body.filter.status"},
		`{"filter":{"status":"active","status":"active"}}`: {"body.filter.status"},
		`{"filter":{"status":7}}`:                          {"body.filter.status"},
	} {
		r.wantFaults(r.admin("POST", T("acme")+"/subscriptions/pause", body), 422, want)
	}
}
