package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// operatorSink records the events that an operator subscription receives.
type operatorSink struct {
	url string

	mu       sync.Mutex
	received []string // event type and id of the tenant
	refuses  bool
}

func newOperatorSink(t *testing.T) *operatorSink {
	s := &operatorSink{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			EventType string `json:"event_type"`
			TenantID  string `json:"tenant_id"`
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(raw, &e) != nil {
			t.Errorf("the operator got %q, %v", raw, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuses {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.received = append(s.received, e.EventType+" of "+e.TenantID)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *operatorSink) refuse(refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = refuses
}

// want waits for an event.
func (s *operatorSink) want(t *testing.T, event string) {
	t.Helper()
	clitest.Eventually(t, "the operator gets "+event, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.received, event)
	})
}

// asJSON calls the API with a key and decodes the answer.
func (i *instance) asJSON(key string, want int, method, path, body string) (answer map[string]any) {
	i.t.Helper()
	status, text := i.as(key, engineer, method, path, body)
	if status != want {
		i.t.Fatalf("%s %s: answered %d %s, want %d", method, path, status, text, want)
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			i.t.Fatalf("%s %s: answered %s: %v", method, path, text, err)
		}
	}
	return answer
}

const readKey = "a-key-for-the-operators-dashboards"

// An operator subscription receives the events of two tenants, of types that only the admin
// sees, and lifecycle events. The tenants do not see it.
func TestTheOperatorHearsAllTenants(t *testing.T) {
	t.Parallel()
	gateway := startDelivering(t, pgtest.New(t), behindHere, "EVENTHOOK_ADMIN_READ_KEY="+readKey)
	sink := newOperatorSink(t)
	admin := func(want int, method, path, body string) map[string]any {
		t.Helper()
		return gateway.asJSON(testAdminKey, want, method, path, body)
	}
	const acme, shop = "/api/tenants/acme/eventhook", "/api/tenants/shop/eventhook"
	const subscriptions = "/api/admin/subscriptions"
	body := `{"name":"ops","url":"` + sink.url + `","event_types":["order.*","tenant.*","webhook.disabled","task.started"],"retry":{"max_retries":0}}`
	if status, _ := gateway.as(readKey, engineer, "POST", subscriptions, body); status != http.StatusForbidden {
		t.Errorf("the read-only admin key created an operator subscription: %d, want 403", status)
	}
	created := admin(http.StatusCreated, "POST", subscriptions, body)
	at := subscriptions + "/" + created["id"].(string)
	gateway.asJSON(readKey, http.StatusOK, "GET", at, "")
	acmeID := admin(http.StatusOK, "GET", "/api/admin/tenants/acme", "")["id"].(string)
	shopID := admin(http.StatusCreated, "POST", "/api/admin/tenants", `{"slug":"shop","name":"Shop"}`)["id"].(string)
	sink.want(t, "tenant.created of "+shopID)
	key := admin(http.StatusCreated, "POST", "/api/admin/tenants/acme/keys", `{"name":"all","scopes":["read","manage","publish","work"]}`)["key"].(string)

	published := gateway.asJSON(key, http.StatusAccepted, "POST", acme+"/events", `{"event_type":"order.made","data":{"n":1}}`)
	if published["deliveries"] != 0.0 {
		t.Errorf("publishing was answered %v, want no deliveries that the tenant could see", published)
	}
	admin(http.StatusAccepted, "POST", shop+"/events", `{"event_type":"order.made","data":{"n":2}}`)
	sink.want(t, "order.made of "+acmeID)
	sink.want(t, "order.made of "+shopID)
	gateway.asJSON(key, http.StatusCreated, "POST", acme+"/work", `{"type":"task","kind":"build","input":{}}`)
	gateway.asJSON(key, http.StatusOK, "POST", acme+"/work/claim", `{}`)
	sink.want(t, "task.started of "+acmeID)
	own := gateway.asJSON(key, http.StatusCreated, "POST", acme+"/subscriptions", `{"name":"own","url":"`+sink.url+`","event_types":["other.*"]}`)
	gateway.asJSON(key, http.StatusOK, "POST", acme+"/subscriptions/"+own["id"].(string)+"/disable", "")
	sink.want(t, "webhook.disabled of "+acmeID)

	// The tenant sees none of it.
	if status, text := gateway.as(key, engineer, "GET", at, ""); status != http.StatusForbidden && status != http.StatusUnauthorized && status != http.StatusNotFound {
		t.Errorf("a tenant's key read an operator subscription: %d %s", status, text)
	}
	event := gateway.asJSON(key, http.StatusOK, "GET", acme+"/events/"+published["event_id"].(string), "")
	if list, _ := event["deliveries"].([]any); len(list) > 0 || event["outcome"] != "succeeded" {
		t.Errorf("the tenant's event has the deliveries %v and the outcome %v, want none and succeeded", list, event["outcome"])
	}
	for _, path := range []string{"/deliveries", "/events?event_type=task.*"} {
		if items := gateway.asJSON(key, http.StatusOK, "GET", acme+path, "")["items"].([]any); len(items) > 0 {
			t.Errorf("the tenant's list %s has %v", path, items)
		}
	}

	// The operator sees its deliveries with their tenants, and replays them.
	tenantsOf := func(query string) (slugs []string) {
		for _, x := range admin(http.StatusOK, "GET", at+"/deliveries"+query, "")["items"].([]any) {
			slugs = append(slugs, x.(map[string]any)["tenant"].(string))
		}
		return slugs
	}
	if got := tenantsOf("?event_type=order.*"); !slices.Equal(got, []string{"shop", "acme"}) {
		t.Errorf("the operator's deliveries have the tenants %v, want shop and acme", got)
	}
	sink.refuse(true)
	admin(http.StatusAccepted, "POST", shop+"/events", `{"event_type":"order.lost","data":{"n":3}}`)
	clitest.Eventually(t, "the delivery is dead", func() bool { return slices.Equal(tenantsOf("?status=dead"), []string{"shop"}) })
	sink.refuse(false)
	started := admin(http.StatusAccepted, "POST", at+"/replay", `{"since":"2026-01-01T00:00:00Z"}`)
	sink.want(t, "order.lost of "+shopID)
	one := at + "/replays/" + started["replay_id"].(string)
	clitest.Eventually(t, "the replay ends", func() bool { return admin(http.StatusOK, "GET", one, "")["status"] == "completed" })
	if items := admin(http.StatusOK, "GET", at+"/replays", "")["items"].([]any); len(items) != 1 {
		t.Errorf("the list of replays has %v, want one", items)
	}
	admin(http.StatusConflict, "POST", one+"/cancel", "")

	admin(http.StatusOK, "POST", "/api/admin/tenants/acme/close", "")
	sink.want(t, "tenant.closed of "+acmeID)
	admin(http.StatusOK, "POST", at+"/disable", "")
	if _, text := gateway.as(testAdminKey, engineer, "GET", at+"/public-key", ""); strings.Contains(text, "whpk_") {
		t.Errorf("the public key of a subscription that does not sign with it: %s", text)
	}
	admin(http.StatusNoContent, "DELETE", at, "")
	admin(http.StatusNotFound, "GET", at+"/deliveries", "")
}
