package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

func (r *fixture) backtest(body any) *answer {
	r.Helper()
	return r.admin("POST", T("acme")+"/routes/backtest", body)
}

// proposal is the request of a backtest of crm's events with a valid route.
func proposal(change ...func(object)) object {
	o := object{"source": "crm", "route": object{"name": "large", "filter": object{"body.amount": object{"$gte": 1000}}, "targets": []any{object{"type": "task", "task_kind": "review"}}}}
	for _, c := range change {
		c(o)
	}
	return o
}

func TestBacktestResponse(t *testing.T) {
	r := setUp(t)
	id := eventhook.NewID[eventhook.Event](noon)
	at := noon.UTC().Format(time.RFC3339)
	sample := func(reason string, actions ...route.ExplainedTarget) []route.Sample {
		return []route.Sample{{EventID: id, EventType: "push", Reason: reason, Actions: actions}}
	}
	r.routes.backtest = route.Backtest{
		Matched:     route.Outcome{Events: 1, Samples: sample("because", route.ExplainedTarget{Type: "task", Input: json.RawMessage(`{"n":1}`)}, route.ExplainedTarget{Type: "task", IsLeftOut: true})},
		Unmatched:   route.Outcome{Events: 3, Samples: sample("body.n is 1, wanted 2"), Reasons: map[string]int{"a": 1, "b": 2}},
		Failed:      route.Outcome{Events: 2, Samples: sample("because", route.ExplainedTarget{Type: "promise", Err: errors.New("no key")}), Reasons: map[string]int{"no key": 2}},
		WithoutBody: 4, IsComplete: true, Newest: noon, Oldest: noon.Add(-time.Hour),
	}
	got := r.backtest(proposal()).want(http.StatusOK).object()
	shown := func(reason string, actions ...any) []any {
		return []any{object{"event_id": id.String(), "event_type": "push", "received_at": at, "reason": reason, "actions": append([]any{}, actions...)}}
	}
	want := object{
		"tested": 6.0, "matched": 1.0, "unmatched": 3.0, "failed": 2.0, "skipped_without_body": 4.0, "is_complete": true,
		"newest": at, "oldest": noon.Add(-time.Hour).UTC().Format(time.RFC3339),
		"unmatched_reasons": []any{object{"reason": "b", "events": 2.0}, object{"reason": "a", "events": 1.0}},
		"failed_reasons":    []any{object{"reason": "no key", "events": 2.0}},
		"matched_samples":   shown("because", object{"target_type": "task", "input": object{"n": 1.0}}, object{"target_type": "task", "input": nil, "input_left_out": true}),
		"unmatched_samples": shown("body.n is 1, wanted 2"),
		"failed_samples":    shown("because", object{"target_type": "promise", "input": nil, "error": "no key"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestBacktestWithoutEvents(t *testing.T) {
	r := setUp(t)
	got := r.backtest(proposal()).want(http.StatusOK).object()
	if got["newest"] != nil || got["oldest"] != nil || len(got["unmatched_reasons"].([]any)) != 0 || len(got["matched_samples"].([]any)) != 0 {
		t.Errorf("got %v, want null times and empty lists", got)
	}
}

func TestBacktestPassesItsParameters(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim         string
		change        func(object)
		since         time.Time
		last, samples int
	}{
		{"nothing", func(object) {}, time.Time{}, 1000, 5},
		{"everything", func(o object) { o["last"], o["samples"], o["since"] = 10_000, 0, "2026-01-01T00:00:00Z" }, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 10_000, 0},
	} {
		r.backtest(proposal(c.change)).want(http.StatusOK)
		want := []any{eventhook.Route{
			TenantID: r.acme, SourceID: r.crm, Name: "large", IsEnabled: true, Filter: json.RawMessage(`{"body.amount":{"$gte":1000}}`),
			Targets: []eventhook.Target{{Type: "task", Settings: json.RawMessage(`{"task_kind":"review"}`)}},
		}, c.since, c.last, c.samples}
		if diff := cmp.Diff(want, r.routes.tried); diff != "" {
			t.Errorf("%s: Backtest was called with (-want +got):\n%s", c.claim, diff)
		}
	}
	if got := len(r.list(T("acme") + "/sources/crm/routes").Items); got != 1 {
		t.Errorf("got %d routes, want the one existing route", got)
	}
}

func TestBacktestAcceptsRedactedSecrets(t *testing.T) {
	r := setUp(t)
	r.backtest(proposal(func(o object) {
		o["route"].(object)["targets"] = []any{object{"type": "http", "url": "https://a.example", "auth_header": "[redacted]"}}
	})).want(http.StatusOK)
	tried, ok := r.routes.tried[0].(eventhook.Route)
	if !ok || len(tried.Targets) != 1 || tried.Targets[0].Secrets.IsZero() {
		t.Fatalf("got %+v, want one target with a text for its secret", r.routes.tried)
	}
	if _, err := targets.New(tried.Targets[0], targets.Deps{}); err != nil {
		t.Errorf("got %v, want a target that can be tested", err)
	}
}

func TestBacktestReportsEveryFault(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim string
		body  any
		want  []string
	}{
		{"no members", object{}, []string{"body.source", "body.route"}},
		{"an unknown source, and filters that do not compile", proposal(func(o object) {
			o["source"] = "nowhere"
			o["route"].(object)["filter"] = object{"body.a": object{"$near": 1}}
			o["route"].(object)["filter_expression"] = "body.a >"
		}), []string{"body.route.filter.body.a.$near", "body.route.filter_expression", "body.source"}},
		{"numbers out of range, an invalid time and an unknown member", proposal(func(o object) { o["last"], o["samples"], o["since"], o["x"] = 0, 21, "yesterday", 1 }),
			[]string{"body.last", "body.samples", "body.since", "body.x"}},
		{"faults of the shape and of the rules of a route", proposal(func(o object) {
			o["route"] = object{"name": "", "targets": []any{object{"type": "promise"}}, "x": 1}
		}), []string{"body.route.name", "body.route.x", "body.route.targets[0].idempotency_key_path"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			p := r.subtest(t).backtest(c.body).want(http.StatusUnprocessableEntity).problem()
			got := map[string]bool{}
			for _, at := range p.locations() {
				got[at] = true
			}
			for _, at := range c.want {
				if !got[at] {
					t.Errorf("got faults at %v, want one at %s, too", p.locations(), at)
				}
			}
		})
	}
	theirs, _ := r.key("umbrella", eventhook.ScopeManage)
	p := r.call(theirs, "POST", T("umbrella")+"/routes/backtest", proposal()).want(http.StatusUnprocessableEntity).problem()
	if diff := cmp.Diff([]string{"body.source"}, p.locations()); diff != "" {
		t.Errorf("the source of another tenant (-want +got):\n%s", diff)
	}
}

func TestBacktestReturnsErrors(t *testing.T) {
	r := setUp(t)
	r.routes.err = &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: 5 * time.Second, Message: "Too many tests are running."}
	if a := r.backtest(proposal()).want(http.StatusServiceUnavailable); a.Header().Get("Retry-After") != "5" {
		t.Errorf("got Retry-After %q, want 5", a.Header().Get("Retry-After"))
	}
}
