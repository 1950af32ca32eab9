package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// createAgent creates an agent of acme and returns it with its key.
func (r *fixture) createAgent(name string, labels ...string) map[string]any {
	r.Helper()
	return r.admin("POST", T("acme")+"/agents", map[string]any{"name": name, "labels": labels}).want(http.StatusCreated).object()
}

func (r *fixture) agentPath(a map[string]any) string {
	return T("acme") + "/agents/" + a["id"].(string)
}

func TestAgents(t *testing.T) {
	r := setUp(t)
	const agents = "/api/tenants/acme/eventhook/agents"
	manage, _ := r.key("acme", eventhook.ScopeManage)
	read, _ := r.key("acme", eventhook.ScopeRead)
	foreign, _ := r.key("umbrella", eventhook.ScopeRead, eventhook.ScopeManage)
	answer := r.call(manage, "POST", agents, `{"name":"berlin","labels":["env:prod","region:eu"]}`).want(http.StatusCreated)
	made := answer.object()
	id := made["id"].(string)
	key, _ := made["key"].(string)
	delete(made, "key")
	same(t, "Location", answer.Header().Get("Location"), agents+"/"+id)
	same(t, "ETag", answer.Header().Get("ETag"), `"1"`)
	same(t, "the new agent", made, map[string]any{"id": id, "name": "berlin", "labels": []any{"env:prod", "region:eu"}, "status": "offline",
		"last_seen_at": nil, "version": nil, "held": 0.0, "created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T15:00:00Z"})
	same(t, "read", r.call(read, "GET", agents+"/"+id, nil).want(http.StatusOK).object(), made)
	r.call(key, "GET", agents+"/"+id, nil).want(http.StatusForbidden)
	r.call(read, "POST", agents, `{"name":"paris","labels":["env:prod"]}`).want(http.StatusForbidden)
	r.call(foreign, "GET", agents+"/"+id, nil).want(http.StatusNotFound)
	r.call(manage, "POST", agents, `{"name":"berlin","labels":["env:test"]}`).want(http.StatusConflict)

	r.clock.Advance(time.Second)
	second := r.createAgent("paris", "region:eu")
	var p page
	listed := r.call(read, "GET", agents+"?limit=1", nil).want(http.StatusOK)
	listed.into(&p)
	same(t, "newest first", p.Items[0]["id"], second["id"])
	r.call(read, "GET", agents+"?limit=1&cursor="+*p.NextCursor, nil).want(http.StatusOK).into(&p)
	same(t, "the second page", p.Items, []map[string]any{made})
	if strings.Contains(listed.Body.String(), "ehk_") {
		t.Error("a list shows a key")
	}

	changed := r.call(manage, "PATCH", agents+"/"+id, `{"labels":["region:us"]}`).want(http.StatusOK)
	same(t, "ETag after a change", changed.Header().Get("ETag"), `"2"`)
	same(t, "changed", []any{changed.object()["name"], changed.object()["labels"]}, []any{"berlin", []any{"region:us"}})
	r.call(manage, "PATCH", agents+"/"+id, `{"name":"paris"}`).want(http.StatusConflict)
	r.call(manage, "DELETE", agents+"/"+id, nil).want(http.StatusNoContent)
	r.call(manage, "DELETE", agents+"/"+id, nil).want(http.StatusNotFound)
	r.call(manage, "PATCH", agents+"/"+id, `{"name":"x"}`).want(http.StatusNotFound)
	r.call(key, "GET", agents, nil).want(http.StatusUnauthorized)
}

func TestFaultsOfAgentsAreReportedAtOnce(t *testing.T) {
	r := setUp(t)
	path := r.agentPath(r.createAgent("berlin", "env:prod"))
	many := `["a:b"` + strings.Repeat(`,"a:b"`, 20) + `]`
	for _, c := range []struct {
		claim, method, path, body string
		at                        []string
	}{
		{"nothing", "POST", T("acme") + "/agents", `{}`, []string{"body.labels", "body.name"}},
		{"no labels", "POST", T("acme") + "/agents", `{"name":"a","labels":[]}`, []string{"body.labels"}},
		{"too many labels", "POST", T("acme") + "/agents", `{"name":"a","labels":` + many + `}`, []string{"body.labels"}},
		{"a label without a value", "POST", T("acme") + "/agents", `{"name":"a","labels":["env:prod","env","env:prod"]}`,
			[]string{"body.labels[1]", "body.labels[2]"}},
		{"a status", "POST", T("acme") + "/agents", `{"name":"a","labels":["a:b"],"status":"online"}`, []string{"body.status"}},
		{"no labels any more", "PATCH", path, `{"labels":null}`, []string{"body.labels"}},
		{"an empty name", "PATCH", path, `{"name":""}`, []string{"body.name"}},
		{"a long grace period", "POST", path + "/rotate-key", `{"grace_seconds":604801}`, []string{"body.grace_seconds"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := r.subtest(t).admin(c.method, c.path, c.body).want(http.StatusUnprocessableEntity).problem().locations()
			if diff := cmp.Diff(c.at, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	r.admin("GET", T("acme")+"/agents/17", nil).want(http.StatusBadRequest)
}

func TestAnAgentsKeyRotates(t *testing.T) {
	r := setUp(t)
	agent := r.createAgent("berlin", "env:prod")
	isValid := func(key any) bool {
		return r.call(key.(string), "GET", T("acme")+"/agents", nil).Code == http.StatusForbidden // known, but without the scope read
	}
	rotate := func(body any) map[string]any {
		t.Helper()
		return r.admin("POST", r.agentPath(agent)+"/rotate-key", body).want(http.StatusOK).object()
	}
	same(t, "the first key", isValid(agent["key"]), true)
	second := rotate(map[string]any{"grace_seconds": 60})
	same(t, "the end of the first key", second["previous_expires_at"], "2026-03-10T15:01:00Z")
	same(t, "both keys", []bool{isValid(agent["key"]), isValid(second["key"])}, []bool{true, true})
	r.clock.Advance(time.Minute)
	same(t, "after the grace period", []bool{isValid(agent["key"]), isValid(second["key"])}, []bool{false, true})
	third := rotate(nil)
	same(t, "the end of the second key", third["previous_expires_at"], nil)
	same(t, "without a grace period", []bool{isValid(second["key"]), isValid(third["key"])}, []bool{false, true})

	var p page
	r.admin("GET", "/api/admin/tenants/acme/keys", nil).want(http.StatusOK).into(&p)
	same(t, "listed keys", []any{len(p.Items), p.Items[0]["agent_id"], p.Items[0]["name"]}, []any{1, agent["id"], "berlin"})
}

func TestAnAgentIsOnlineForNinetySecondsAfterAClaim(t *testing.T) {
	r := setUp(t)
	agent := r.createAgent("berlin", "env:prod")
	id, err := eventhook.ParseID[eventhook.Agent](agent["id"].(string))
	r.must(err)
	r.must(r.db.SeenAgents(t.Context(), []eventhook.AgentSighting{{ID: id, ProgramVersion: "1.2"}}))
	r.clock.Advance(89 * time.Second)
	got := r.admin("GET", r.agentPath(agent), nil).want(http.StatusOK).object()
	same(t, "after 89 s", []any{got["status"], got["version"], got["last_seen_at"]}, []any{"online", "1.2", "2026-03-10T15:00:00Z"})
	r.clock.Advance(time.Second)
	got = r.admin("GET", r.agentPath(agent), nil).want(http.StatusOK).object()
	same(t, "after 90 s", got["status"], "offline")
}

// same compares two values.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLabelsThatNoAgentHasAreAWarning(t *testing.T) {
	r := setUp(t)
	foreign, _ := r.key("umbrella", eventhook.ScopeManage)
	r.call(foreign, "POST", T("umbrella")+"/agents", `{"name":"a","labels":["env:prod","region:eu"]}`).want(http.StatusCreated)
	r.createAgent("us", "env:prod", "region:us")
	const body = `{"name":"inside","url":"https://inside.example/","event_types":["*"],"target_labels":["env:prod","region:eu"]}`
	made := r.admin("POST", T("acme")+"/subscriptions", body).want(http.StatusCreated).object()
	id := made["id"].(string)
	r.clock.Advance(time.Second)
	r.subscribe("order.*") // without labels
	warned := func() []bool {
		t.Helper()
		one := r.admin("GET", T("acme")+"/subscriptions/"+id, nil).want(http.StatusOK).object()
		var p page
		r.admin("GET", T("acme")+"/subscriptions", nil).want(http.StatusOK).into(&p)
		has := func(v map[string]any) bool {
			return strings.Contains(fmt.Sprint(v["warnings"]), "No agent has the target_labels env:prod, region:eu")
		}
		same(t, "warnings of a subscription without labels", p.Items[0]["warnings"], []any{})
		var all page
		r.admin("GET", "/api/admin/subscriptions", nil).want(http.StatusOK).into(&all)
		same(t, "the list of all tenants", has(all.Items[1]), has(one))
		return []bool{has(one), has(p.Items[1])}
	}
	if !strings.Contains(fmt.Sprint(made["warnings"]), "No agent has") {
		t.Errorf("the new subscription has the warnings %v, want one about its labels", made["warnings"])
	}
	same(t, "without an agent", warned(), []bool{true, true})
	r.createAgent("eu", "region:eu", "a:b", "env:prod")
	same(t, "with an agent", warned(), []bool{false, false})
}

func TestLabelsOfATargetThatNoAgentHasAreAWarning(t *testing.T) {
	r := setUp(t)
	routes := T("acme") + "/sources/crm/routes"
	const body = `{"name":"inside","targets":[{"type":"http","url":"https://a.example/"},{"type":"http","url":"https://inside.example/","target_labels":["env:prod"]}]}`
	made := r.admin("POST", routes, body).want(http.StatusCreated).object()
	id := made["id"].(string)
	warned := func(v map[string]any) bool {
		list, _ := v["warnings"].([]any)
		return len(list) == 1 && strings.HasPrefix(list[0].(string), "No agent has the target_labels env:prod of targets[1]: ")
	}
	everywhere := func() (all []bool) {
		t.Helper()
		all = append(all, warned(r.admin("GET", routes+"/"+id, nil).want(http.StatusOK).object()))
		all = append(all, warned(r.admin("PATCH", routes+"/"+id, `{"priority":7}`).want(http.StatusOK).object()))
		for _, answer := range []*answer{r.admin("GET", routes, nil), r.admin("PUT", routes+"/reorder", `{"order":[{"id":"`+id+`","priority":7}]}`)} {
			var p page
			answer.want(http.StatusOK).into(&p)
			for _, v := range p.Items {
				if v["id"] == id {
					all = append(all, warned(v))
				} else {
					same(t, "warnings of a route without labels", v["warnings"], any(nil))
				}
			}
		}
		return all
	}
	same(t, "the new route", warned(made), true)
	same(t, "without an agent", everywhere(), []bool{true, true, true, true})
	r.createAgent("berlin", "env:prod")
	same(t, "with an agent", everywhere(), []bool{false, false, false, false})
}

// An agent that claims again within ten seconds after each claim, however long that waits, is always
// online, whichever instance gets the claim.
func TestAnAgentThatClaimsStaysOnline(t *testing.T) {
	for _, c := range []struct {
		claim string
		// at are the times of claims at two instances, after which the times repeat.
		at     []sighting
		period time.Duration
	}{
		{"every 30 s", []sighting{{0, 0}, {30 * time.Second, 1}}, time.Minute},
		{"every 70 s", []sighting{{0, 0}}, 70 * time.Second},
		{"often, before one of 70 s", []sighting{{0, 0}, {14 * time.Second, 0}}, 84 * time.Second},
		{"at another instance that must record", []sighting{{0, 0}, {14 * time.Second, 1}, {28 * time.Second, 1}}, 98 * time.Second},
		{"at another instance that recorded too little", []sighting{{0, 0}, {4 * time.Second, 1}, {18 * time.Second, 1}}, 88 * time.Second},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := setUp(t)
			agent := r.createAgent("berlin", "env:prod")
			id, err := eventhook.ParseID[eventhook.Agent](agent["id"].(string))
			r.must(err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			var instances []*api.AgentHeartbeats
			for range 2 {
				h := api.NewAgentHeartbeats(r.db, r.clock.Now)
				instances = append(instances, h)
				go func() { ended <- h.Run(ctx) }()
			}
			began := r.clock.Now()
			for round := range 3 {
				for _, s := range c.at {
					r.clock.Advance(began.Add(time.Duration(round)*c.period + s.at - time.Millisecond).Sub(r.clock.Now()))
					if round > 0 || s.at > 0 {
						n, err := r.db.EndAgents(t.Context())
						r.must(err)
						same(t, fmt.Sprintf("offline before the claim after %s of round %d", s.at, round), n, 0)
					}
					r.clock.Advance(time.Millisecond)
					r.must(api.SeeAgent(instances[s.instance], id))
				}
			}
			stop()
			<-ended
			<-ended
		})
	}
}

// sighting is a claim at an instance.
type sighting struct {
	at       time.Duration
	instance int
}
