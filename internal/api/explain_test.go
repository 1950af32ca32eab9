package api_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

// routes is an api.RouteExplainer with fixed answers that records its arguments.
type routes struct {
	found  route.SearchResult
	mu     sync.Mutex
	list   []api.RouteExplanation
	err    error
	source eventhook.SourceID
	event  *eventhook.Event

	backtest route.Backtest
	tried    []any // arguments of Backtest
}

func (x *routes) CheckRoute(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (eventhook.Faults, error) {
	return route.Check(ctx, tenant, r)
}

func (x *routes) Backtest(ctx context.Context, r eventhook.Route, since time.Time, last, samples int) (*route.Backtest, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tried = []any{r, since, last, samples}
	return &x.backtest, errors.Join(ctx.Err(), x.err)
}

func (x *routes) Search(ctx context.Context, tenant eventhook.TenantID, q api.EventSearchQuery) (route.SearchResult, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tried = []any{tenant, string(q.Filter), q.Window}
	return x.found, errors.Join(ctx.Err(), x.err)
}

func (x *routes) ExplainRoutes(ctx context.Context, source eventhook.SourceID, e *eventhook.Event) ([]api.RouteExplanation, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.source, x.event = source, e
	return x.list, errors.Join(ctx.Err(), x.err)
}

func (x *routes) ExplainRoute(ctx context.Context, r eventhook.Route, e *eventhook.Event) (api.RouteExplanation, error) {
	compile := func(t eventhook.Target) (route.Effector, error) { return targets.New(t, targets.Deps{}) }
	list, err := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, compile).Explain(ctx, cpushare.New(cpushare.DefaultConfig(), nil, time.Now), e, time.Now())
	if err != nil {
		return api.RouteExplanation{}, err
	}
	explained := api.RouteExplanation{Name: r.Name, Matched: list[0].Matched, Reason: list[0].Reason}
	for _, t := range list[0].Actions {
		a := api.ActionExplanation{TargetType: t.Type, Input: t.Input}
		if t.Err != nil {
			a.Error = t.Err.Error()
		}
		explained.Actions = append(explained.Actions, a)
	}
	return explained, nil
}

const hush = "hush-hush-this-is-secret"

// source creates a source of acme with a verifier.
func (r *fixture) source(slug, provider, spec string, change ...func(*eventhook.Source)) {
	r.Helper()
	s := eventhook.Source{Slug: slug, Name: slug, Provider: provider, Verifier: eventhook.NewSecret(spec), IsEnabled: true}
	for _, c := range change {
		c(&s)
	}
	_, err := r.db.ApplyTenant(r.Context(), operator, eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "acme", Name: "Acme"}, Sources: []eventhook.SourceConfig{{Source: s}}}, pg.ApplyOptions{})
	r.must(err)
}

// github creates the source hub with the provider github.
func (r *fixture) github(change ...func(*eventhook.Source)) {
	r.source("hub", "github", `{"provider":"github","secrets":["`+hush+`"]}`, change...)
}

func hubSignature(body string) string {
	mac := hmac.New(sha256.New, []byte(hush))
	_, _ = mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// push is a test request for a push event.
func push(body, signature string) map[string]any {
	return map[string]any{"body": body, "headers": map[string]any{
		"x-hub-signature-256": signature, "X-GitHub-Event": "push", "X-GitHub-Delivery": []string{"d-1"}}}
}

func (r *fixture) test(slug string, body any) *answer {
	r.Helper()
	return r.admin("POST", T("acme")+"/sources/"+slug+"/test", body)
}

func TestExplainARequest(t *testing.T) {
	r := setUp(t)
	r.github()
	body := `{"ref":"main"}`
	for _, c := range []struct {
		claim    string
		request  map[string]any
		verified bool
		why      any
	}{
		{"verified", push(body, hubSignature(body)), true, nil},
		{"forged", push(body, hubSignature("other")), false, "mismatch: no secret matched (of 1)"},
		{"a signature in the wrong encoding", push(body, "sha256=zz"), false, "encoding: no signature in X-Hub-Signature-256 has the expected encoding (hex) and length"},
	} {
		a := r.test("hub", c.request).want(http.StatusOK)
		want := map[string]any{"verified": c.verified, "scheme": "github", "covers_body": true, "event_type": "push", "idempotency_key": "d-1",
			"duplicate": false, "duplicate_of": nil, "routes": []any{}}
		if c.why != nil {
			want["error"] = c.why
		}
		if diff := cmp.Diff(want, a.object()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
		for _, leak := range []string{hush, hubSignature(body)[7:]} {
			if strings.Contains(a.Body.String(), leak) {
				t.Errorf("%s: answered %s, want no secret and no signature", c.claim, a.Body)
			}
		}
	}
	if got := r.list(T("acme") + "/events").withoutSystemEvents(); len(got) != 0 {
		t.Errorf("the test stored the events %v, want none", got)
	}
	if got := r.list(T("acme") + "/sources/hub/rejections"); len(got.Items) != 0 {
		t.Errorf("the test stored the rejections %v, want none", got.Items)
	}
}

func TestExplainADuplicate(t *testing.T) {
	r := setUp(t)
	r.github()
	hub, err := r.db.FindSource(t.Context(), "acme", "hub")
	r.must(err)
	e := r.event(func(e *eventhook.Event) { e.SourceID, e.IdempotencyKey = hub.ID, "d-1" })
	for _, signature := range []string{hubSignature(""), "forged"} {
		got := r.test("hub", push("", signature)).want(http.StatusOK).object()
		if got["duplicate"] != true || got["duplicate_of"] != e.ID.String() {
			t.Errorf("got %v, want a duplicate of %s", got, e.ID)
		}
	}
	r.clock.Advance(25 * time.Hour) // past the retention of the key
	if got := r.test("hub", push("", "forged")).want(http.StatusOK).object(); got["duplicate"] != false || got["duplicate_of"] != nil {
		t.Errorf("after the retention of the key: got %v, want no duplicate", got)
	}
}

func TestExplainADisabledSource(t *testing.T) {
	r := setUp(t)
	r.github(func(s *eventhook.Source) { s.IsEnabled = false })
	if got := r.test("hub", push("", hubSignature(""))).want(http.StatusOK).object(); got["verified"] != true {
		t.Errorf("got %v, want verified", got)
	}
}

func TestExplainTheTimeOfReceipt(t *testing.T) {
	r := setUp(t)
	r.source("pay", "stripe", `{"provider":"stripe","secrets":["`+hush+`"]}`)
	at := fmt.Sprint(noon.Unix())
	request := map[string]any{"headers": map[string]any{"Stripe-Signature": "t=" + at + ",v1=" + strings.TrimPrefix(hubSignature(at+"."), "sha256=")}}
	for _, c := range []struct {
		claim string
		at    any
		why   string
	}{
		{"now, by default", nil, ""},
		{"later", noon.Add(time.Hour), "timestamp: signed 3600 s before receipt"},
	} {
		if c.at != nil {
			request["at"] = c.at
		}
		got := r.test("pay", request).want(http.StatusOK).object()
		if why := fmt.Sprint(got["error"]); (got["verified"] == true) != (c.why == "") || c.why != "" && !strings.HasPrefix(why, c.why) {
			t.Errorf("%s: got %v, want %q", c.claim, got, c.why)
		}
	}
}

func TestExplainTheURL(t *testing.T) {
	r := setUp(t)
	r.source("shop-in", "square", `{"provider":"square","secrets":["`+hush+`"]}`)
	sign := func(url string) string {
		mac := hmac.New(sha256.New, []byte(hush))
		_, _ = mac.Write([]byte(url))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	own := "https://hooks.example" + T("acme") + "/in/shop-in"
	for url, signed := range map[string]string{"": own, "https://other.example/a?b=c": "https://other.example/a?b=c"} {
		request := map[string]any{"headers": map[string]any{"x-square-hmacsha256-signature": sign(signed)}}
		if url != "" {
			request["url"] = url
		}
		if got := r.test("shop-in", request).want(http.StatusOK).object(); got["verified"] != true {
			t.Errorf("the URL %q: got %v, want verified", url, got)
		}
	}
}

func TestExplainAHandshake(t *testing.T) {
	r := setUp(t)
	r.source("wa", "meta", `{"provider":"meta","secrets":["`+hush+`"],"options":{"verify_token":"tok"}}`)
	ask := func(token string) map[string]any {
		return r.test("wa", map[string]any{"method": "GET", "url": "https://hooks.example/in?hub.mode=subscribe&hub.challenge=1&hub.verify_token=" + token}).
			want(http.StatusOK).object()
	}
	if got := ask("tok"); got["handshake"] != "meta" || got["refused"] != nil {
		t.Errorf("got %v, want the handshake of meta", got)
	}
	r.routes.list = []api.RouteExplanation{{Name: "all", Reason: "because"}}
	if got := ask("tok"); len(got["routes"].([]any)) != 0 {
		t.Errorf("got the routes %v, want none, because a handshake creates no event", got["routes"])
	}
	if got := ask("other"); got["verified"] != false || len(got["routes"].([]any)) != 1 {
		t.Errorf("a refused handshake: got %v, want each route explained", got)
	}
	if got := ask("other"); got["handshake"] != "meta" || got["refused"] != "handshake_refused" {
		t.Errorf("another token: got %v, want a refusal", got)
	}
	if got := r.test("crm", map[string]any{"method": "DELETE"}).want(http.StatusOK).object(); got["refused"] != "method_not_allowed" || got["handshake"] != nil {
		t.Errorf("a method that is not allowed: got %v, want a refusal", got)
	}
}

func TestExplainRoutes(t *testing.T) {
	r := setUp(t)
	id := eventhook.NewID[eventhook.Route](noon)
	r.routes.list = []api.RouteExplanation{
		{ID: id, Name: "off", Reason: "the route is disabled"},
		{ID: id, Name: "all", Matched: true, Reason: "because", Actions: []api.ActionExplanation{
			{TargetType: "task", Input: json.RawMessage(`{"n":1}`)}, {TargetType: "promise", Error: "no key"}}},
	}
	got := r.test("crm", map[string]any{"headers": map[string]any{"X-Event-Type": "push", "Authorization": hush}, "body": `{"n":1}`}).want(http.StatusOK).object()
	want := []any{
		map[string]any{"id": id.String(), "name": "off", "matched": false, "reason": "the route is disabled", "actions": []any{}},
		map[string]any{"id": id.String(), "name": "all", "matched": true, "reason": "because", "actions": []any{
			map[string]any{"target_type": "task", "input": map[string]any{"n": 1.0}}, map[string]any{"target_type": "promise", "input": nil, "error": "no key"}}},
	}
	if diff := cmp.Diff(want, got["routes"]); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if e := r.routes.event; r.routes.source != r.crm || e.EventType != "push" || string(e.Body) != `{"n":1}` || strings.Contains(string(e.Headers), hush) {
		t.Errorf("ExplainRoutes got %+v of %s, want the push without its credentials", e, r.routes.source)
	}
	r.routes.err = errBroken
	if a := r.test("crm", map[string]any{}).want(http.StatusInternalServerError); strings.Contains(a.Body.String(), errBroken.Error()) {
		t.Errorf("answered %s, want no part of the cause", a.Body)
	}
}

// The inputs of many targets repeat one body; the response must stay bounded.
func TestExplainLimitsItsResponse(t *testing.T) {
	r := setUp(t)
	big := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	x := api.RouteExplanation{Name: "all", Matched: true}
	for range 50 {
		x.Actions = append(x.Actions, api.ActionExplanation{TargetType: "task", Input: big})
	}
	r.routes.list = []api.RouteExplanation{x, x}
	a := r.test("crm", map[string]any{}).want(http.StatusOK)
	if a.Body.Len() > 5<<20 || strings.Count(a.Body.String(), `"input_left_out":true`) != 97 {
		t.Errorf("answered %d bytes and %d inputs left out, want at most 5 MiB and 97", a.Body.Len(), strings.Count(a.Body.String(), `"input_left_out":true`))
	}
}

func TestExplainAcceptsBase64(t *testing.T) {
	r := setUp(t)
	raw := []byte{0xff, 0, 'a'}
	r.test("crm", map[string]any{"body_base64": base64.StdEncoding.EncodeToString(raw)}).want(http.StatusOK)
	if string(r.routes.event.Body) != string(raw) {
		t.Errorf("got the body %q, want %q", r.routes.event.Body, raw)
	}
}

func TestExplainRefusesInvalidRequests(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim  string
		body   string
		status int
		at     []string
	}{
		{"both bodies", `{"body":"a","body_base64":"YQ=="}`, 422, []string{"body.body_base64"}},
		{"both bodies, empty", `{"body":"","body_base64":""}`, 422, []string{"body.body_base64"}},
		{"invalid base64", `{"body_base64":"?"}`, 422, []string{"body.body_base64"}},
		{"faults of shape and rules", `{"at":"yesterday","headers":{"A":1},"x":1,"body_base64":"?"}`, 422, []string{"body.at", "body.headers.A", "body.x", "body.body_base64"}},
		{"several faults", `{"body_base64":"?","method":"A B","url":"x"}`, 422, []string{"body.method", "body.url", "body.body_base64"}},
		{"a header of the wrong type", `{"headers":{"A":1}}`, 422, []string{"body.headers.A"}},
		{"a header with a line break", `{"headers":{"A":"b\r\nC: d"}}`, 422, []string{"body.headers.A"}},
		{"an invalid time", `{"at":"yesterday"}`, 422, []string{"body.at"}},
		{"an unknown member", `{"header":{}}`, 422, []string{"body.header"}},
		{"a body beyond the limit", `{"body":"` + strings.Repeat("x", 4<<20) + `"}`, 413, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			p := r.test("crm", c.body).want(c.status).problem()
			if diff := cmp.Diff(c.at, p.locations()); diff != "" && c.at != nil {
				t.Errorf("faults (-want +got):\n%s\n%+v", diff, p)
			}
		})
	}
	for _, slug := range []string{"nowhere", "%00", strings.Repeat("x", 3000)} {
		r.test(slug, map[string]any{}).want(http.StatusNotFound)
	}
	umbrella, _ := r.key("umbrella", eventhook.Scopes...)
	r.call(umbrella, "POST", T("umbrella")+"/sources/crm/test", map[string]any{}).want(http.StatusNotFound)
	reads, _ := r.key("acme", eventhook.ScopeRead)
	r.call(reads, "POST", T("acme")+"/sources/crm/test", map[string]any{}).want(http.StatusForbidden)
}

func TestExplainOddValues(t *testing.T) {
	r := setUp(t)
	r.github()
	for _, member := range []string{"method", "url", "headers", "body", "body_base64", "at"} {
		for _, odd := range oddJSON() {
			for _, value := range []string{odd, `{"X-A":` + odd + `}`, `{"X-A":[` + odd + `]}`} {
				if a := r.test("hub", `{"`+member+`":`+value+`}`); a.Code >= 500 || !json.Valid(a.Body.Bytes()) {
					t.Errorf("%s %.100s: answered %d %.200s", member, value, a.Code, a.Body)
				}
			}
		}
	}
}

func TestProviders(t *testing.T) {
	r := setUp(t)
	got := r.list(T("acme") + "/providers?limit=250")
	if len(got.Items) != len(api.Providers()) || len(got.Items) < 50 || got.NextCursor != nil {
		t.Fatalf("got %d providers and the cursor %v, want all %d in one page", len(got.Items), got.NextCursor, len(api.Providers()))
	}
	var paged []map[string]any
	for cursor := ""; ; {
		p := r.list(T("acme") + "/providers?limit=40&cursor=" + cursor)
		paged = append(paged, p.Items...)
		if p.NextCursor == nil {
			break
		}
		cursor = *p.NextCursor
	}
	if diff := cmp.Diff(got.Items, paged); diff != "" {
		t.Errorf("page by page (-all +got):\n%s", diff)
	}
	for _, wrong := range []string{"x", "MA", "LTE", "OTk5OTk"} {
		if a := r.call(adminKey, http.MethodGet, T("acme")+"/providers?cursor="+wrong, ""); a.Code != http.StatusBadRequest {
			t.Errorf("the cursor %s: answered %d, want 400", wrong, a.Code)
		}
	}
	byName := map[any]map[string]any{}
	for _, p := range got.Items {
		byName[fmt.Sprint(p["id"], " ", p["scheme"])] = p
	}
	want := map[string]any{
		"id": "paypal", "scheme": "paypal", "name": "PayPal", "documentation_url": "https://developer.paypal.com/api/rest/webhooks/rest/",
		"required_fields": []any{"options.webhook_id"}, "idempotency_key_paths": []any{"header.paypal-transmission-id"}, "event_type_paths": []any{"body.event_type"},
		"options":   []any{map[string]any{"name": "webhook_id", "required": true, "about": "the webhook id that PayPal shows", "default": nil}},
		"handshake": nil, "covers_body": false, "methods": []any{"POST"}, "note": nil, "replay_protection": "off",
	}
	have := byName["paypal paypal"]
	if have["uncovered"] == nil {
		t.Errorf("PayPal: got %v, want the parts that are not covered", have)
	}
	delete(have, "uncovered")
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("PayPal (-want +got):\n%s", diff)
	}
	meta := byName["meta meta"]
	if diff := cmp.Diff([]any{"POST", "GET"}, meta["methods"]); diff != "" || meta["handshake"] != "meta" {
		t.Errorf("Meta: got %v, want its handshake with GET", meta)
	}
	if gitlab := byName["gitlab gitlab"]; gitlab["covers_body"] != false || byName["gitlab gitlab-signing"] == nil {
		t.Errorf("GitLab: got %v, want both schemes, and a token that does not cover the body", gitlab)
	}
}
