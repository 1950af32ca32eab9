package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/usage"
)

// dead creates an event with a failed action.
func (r *fixture) dead(change ...func(*eventhook.Event)) *eventhook.Event {
	r.Helper()
	e := r.event(change...)
	r.settle(e, effects.PlannedAction{Action: eventhook.Action{TargetType: eventhook.TargetTask}, Failure: "no such thing", Permanent: true})
	return e
}

type reprocessed struct {
	Count int      `json:"reprocessed_count"`
	IDs   []string `json:"event_ids"`
}

func (r *fixture) reprocess(body any) reprocessed {
	r.Helper()
	var got reprocessed
	r.admin("POST", T("acme")+"/events/reprocess", body).want(http.StatusOK).into(&got)
	if got.IDs == nil || got.Count != len(got.IDs) {
		r.Errorf("answered %+v, want a list and its length", got)
	}
	return got
}

func TestReprocessEvents(t *testing.T) {
	r := setUp(t)
	first, second := r.dead(), r.dead(func(e *eventhook.Event) { e.SourceID = r.shop })
	unrouted := r.event()
	r.settle(unrouted)
	for _, c := range []struct {
		claim string
		body  string
		want  []*eventhook.Event
	}{
		{"unknown ids", `{"event_ids":["` + eventhook.NewID[eventhook.Event](noon).String() + `"]}`, nil},
		{"an unknown source", `{"filter":{"source":"nowhere"},"limit":10}`, nil},
		{"a time without events", `{"filter":{"received_before":"2026-03-10T15:00:00Z"},"limit":10}`, nil},
		{"ids override the filter", `{"event_ids":["` + first.ID.String() + `"],"filter":{"source":"shop"}}`, []*eventhook.Event{first}},
		{"a filter", `{"filter":{"status":["dead","failed"],"source_id":"` + r.shop.String() + `","received_after":"2026-03-10T14:59:59Z"},"limit":10}`, []*eventhook.Event{second}},
		{"one status as a string", `{"filter":{"status":"failed"},"limit":10}`, nil},
		{"an empty filter", `{"filter":{},"limit":10}`, []*eventhook.Event{unrouted}},
		{"no more events", `{"filter":{},"limit":10}`, nil},
	} {
		var want []string
		for _, e := range c.want {
			want = append(want, e.ID.String())
		}
		if got := r.reprocess(c.body).IDs; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.claim, got, want)
		}
	}
	got := r.admin("GET", T("acme")+"/events/"+first.ID.String(), nil).want(http.StatusOK).object()
	if got["status"] != "pending" || got["retry_count"] != 0.0 || got["last_error"] != nil {
		t.Errorf("got %v, want it pending with no retries", got)
	}
}

func TestReprocessReportsEveryFault(t *testing.T) {
	r := setUp(t)
	id := eventhook.NewID[eventhook.Event](noon).String()
	many := `["` + id + strings.Repeat(`","`+id, 1000) + `"]`
	for _, c := range []struct {
		claim, body string
		status      int
		want        []string
	}{
		{"no ids and no filter", `{}`, 422, []string{"body"}},
		{"only a limit", `{"limit":10}`, 422, []string{"body"}},
		{"a filter without a limit", `{"filter":{"status":["dead"]}}`, 422, []string{"body.limit"}},
		{"no ids", `{"event_ids":[]}`, 422, []string{"body.event_ids"}},
		{"too many ids", `{"event_ids":` + many + `}`, 422, []string{"body.event_ids"}},
		{"limits out of range", `{"filter":{},"limit":1001}`, 422, []string{"body.limit"}},
		{"a limit of zero", `{"filter":{},"limit":0}`, 422, []string{"body.limit"}},
		{"a status that cannot be reprocessed", `{"filter":{"status":["dead","delivered"]},"limit":1}`, 422, []string{"body.filter.status[1]"}},
		{"an unknown status as a string", `{"filter":{"status":"gone"},"limit":1}`, 422, []string{"body.filter.status"}},
		{"a duplicate status", `{"filter":{"status":"dead","status":"failed"},"limit":1}`, 422, []string{"body.filter.status"}},
		{"an empty list of statuses", `{"filter":{"status":[]},"limit":1}`, 422, []string{"body.filter.status"}},
		{"the zero id", `{"filter":{"source_id":"00000000-0000-0000-0000-000000000000"},"limit":1}`, 422, []string{"body.filter.source_id"}},
		{"an unknown member", `{"event_ids":["` + id + `"],"force":true}`, 422, []string{"body.force"}},
		{"invalid ids", `{"event_ids":["` + id + `","x"]}`, 400, []string{"body.event_ids[1]"}},
		{"several faults", `{"filter":{"status":["gone"],"source_id":"x","received_after":"yesterday","to":1}}`, 400,
			[]string{"body.filter.received_after", "body.filter.source_id", "body.filter.status[0]", "body.filter.to", "body.limit"}},
		{"a list instead of an object", `[]`, 422, []string{"body"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			got := r.admin("POST", T("acme")+"/events/reprocess", c.body).want(c.status).problem().locations()
			slices.Sort(got)
			if !slices.Equal(slices.Compact(got), c.want) {
				t.Errorf("faults at %v, want %v", got, c.want)
			}
		})
	}
}

func TestReprocessIgnoresOtherTenants(t *testing.T) {
	r := setUp(t)
	e := r.dead()
	other, _ := r.key("umbrella", eventhook.ScopeManage)
	for _, body := range []string{`{"event_ids":["` + e.ID.String() + `"]}`, `{"filter":{"source_id":"` + r.crm.String() + `"},"limit":10}`, `{"filter":{"source":"crm"},"limit":10}`} {
		var got reprocessed
		r.call(other, "POST", T("umbrella")+"/events/reprocess", body).want(http.StatusOK).into(&got)
		if got.Count != 0 {
			t.Errorf("%s: reprocessed %v, want no event of another tenant", body, got.IDs)
		}
	}
	if got := r.list(T("acme") + "/events?status=dead").ids(); !slices.Equal(got, []string{e.ID.String()}) {
		t.Errorf("dead events: %v, want the event", got)
	}
}

// Events that are routed again count like received ones: what exceeds the quota of the tenant is
// skipped with the reason, also for the admin, and a request without any room fails.
func TestEventsThatAreRoutedAgainCountAgainstTheQuota(t *testing.T) {
	meter := &usage.Meter{}
	r := setUp(t, func(d *api.Deps) {
		meter = usage.New(10, d.Events.(usage.Store), d.Log, d.Now)
		d.Quotas = meter
	})
	r.admin("PATCH", "/api/admin/tenants/acme", object{"max_events_per_day": 12}).want(http.StatusOK)
	for range 15 {
		r.dead()
	}
	body := object{"mode": "again", "filter": object{"status": []string{"dead"}}, "limit": 5}
	type answer struct {
		reprocessed
		Skipped []struct{ Reason string }
	}
	for request, want := range [][2]int{{5, 0}, {5, 0}, {2, 3}} {
		var got answer
		r.admin("POST", T("acme")+"/events/reprocess", body).want(http.StatusOK).into(&got)
		if got.Count != want[0] || len(got.Skipped) != want[1] {
			t.Errorf("request %d: got %d events and skipped %v, want %v", request, got.Count, got.Skipped, want)
		}
		for _, x := range got.Skipped {
			if !strings.Contains(x.Reason, "max_events_per_day") || !strings.Contains(x.Reason, "2026-03-11T00:00:00Z") {
				t.Errorf("skipped because %q, want the quota and its reset", x.Reason)
			}
		}
	}
	manage, _ := r.key("acme", eventhook.ScopeManage)
	a := r.call(manage, "POST", T("acme")+"/events/reprocess", body).want(http.StatusTooManyRequests)
	if !strings.Contains(a.problem().Detail, "max_events_per_day") || a.Header().Get("Retry-After") != "32400" {
		t.Errorf("over the quota: %s, Retry-After %s; want the quota, and the seconds until midnight", a.Body, a.Header().Get("Retry-After"))
	}
	unknown := object{"mode": "again", "event_ids": []string{eventhook.NewID[eventhook.Event](noon).String()}}
	r.admin("POST", T("acme")+"/events/reprocess", unknown).want(http.StatusOK) // it is skipped as unknown
	r.must(meter.Flush(t.Context()))
	used := r.admin("GET", "/api/admin/tenants/acme", nil).object()["usage"].(object)
	if used["events_today"] != 12.0 || used["storage_bytes"] == 0.0 {
		t.Errorf("used %v, want 12 events and their bytes", used)
	}
	r.admin("PATCH", "/api/admin/tenants/acme", object{"max_events_per_day": nil, "max_storage_bytes": used["storage_bytes"].(float64) + 1}).want(http.StatusOK)
	r.admin("POST", T("acme")+"/events/reprocess", body).want(http.StatusTooManyRequests)
}
