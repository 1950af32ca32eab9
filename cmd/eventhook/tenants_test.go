package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// as calls the API with a key, as a client behind a trusted proxy.
func (i *instance) as(key, client, method, path, body string) (status int, answer string) {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), method, i.url+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", client)
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

const (
	engineer   = "203.0.113.5"
	behindHere = "EVENTHOOK_TRUSTED_PROXIES=127.0.0.0/8,::1/128"
)

// All instances apply the status and the API keys of a tenant that one instance
// changed.
func TestAllInstancesApplyATenantsStatus(t *testing.T) {
	dsn := pgtest.New(t)
	first, second := startInstance(t, dsn, behindHere), startInstance(t, dsn, behindHere)
	const acme, T = "/api/admin/tenants/acme", "/api/tenants/acme/eventhook"
	admin := func(want int, method, path, body string) (answer string) {
		t.Helper()
		status, answer := first.as(testAdminKey, engineer, method, path, body)
		if status != want {
			t.Fatalf("%s %s: answered %d %s, want %d", method, path, status, answer, want)
		}
		return answer
	}
	created := admin(http.StatusCreated, "POST", acme+"/keys", `{"name":"ci","scopes":["read","work","manage"]}`)
	_, rest, _ := strings.Cut(created, `"key":"`)
	key, _, _ := strings.Cut(rest, `"`)
	everywhere := func(claim string, holds func(*instance) bool) {
		t.Helper()
		for _, i := range []*instance{first, second} {
			clitest.Eventually(t, claim, func() bool { return holds(i) })
		}
	}
	answers := func(want int, method, path string) func(*instance) bool {
		return func(i *instance) bool {
			status, _ := i.as(key, engineer, method, path, `{}`)
			return status == want
		}
	}
	pushes := func(want int) func(*instance) bool {
		return func(i *instance) bool {
			status, _, err := i.push(t.Context(), t.Name())
			return err == nil && status == want
		}
	}
	everywhere("an active tenant receives webhooks", pushes(http.StatusOK))
	everywhere("its key reads", answers(http.StatusOK, "GET", T+"/events"))

	admin(http.StatusOK, "PATCH", acme, `{"status":"suspended"}`)
	everywhere("a suspended tenant receives no webhooks", pushes(http.StatusNotFound))
	everywhere("its key changes nothing", answers(http.StatusForbidden, "POST", T+"/sources"))
	everywhere("its key claims work", answers(http.StatusOK, "POST", T+"/work/claim"))

	admin(http.StatusOK, "PATCH", acme, `{"status":"active"}`)
	everywhere("an active tenant receives webhooks again", pushes(http.StatusOK))

	admin(http.StatusOK, "POST", acme+"/close", "")
	everywhere("a closed tenant receives no webhooks", pushes(http.StatusNotFound))
	everywhere("its key is refused", answers(http.StatusUnauthorized, "GET", T+"/events"))
	if audit := admin(http.StatusOK, "GET", "/api/admin/audit?action=tenant.closed", ""); !strings.Contains(audit, `"source_ip":"`+engineer+`"`) {
		t.Errorf("the audit entry is %s, want the address of the client behind the proxy", audit)
	}
}

// Clients that guess keys are slowed down, also behind a proxy, and counted in a
// metric. The time of the last use of a key survives a stop.
func TestKeyGuessingIsSlowedDownPerClient(t *testing.T) {
	const guesser, T = "203.0.113.66", "/api/tenants/acme/eventhook"
	dsn := pgtest.New(t)
	i := startInstance(t, dsn, behindHere)
	limited := 0
	for range 200 {
		if status, _ := i.as("ehk_guess", guesser, "GET", T+"/events", ""); status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 {
		t.Error("all 200 guesses were answered 401, want most of them refused before the check")
	}
	status, created := i.as(testAdminKey, engineer, "POST", "/api/admin/tenants/acme/keys", `{"name":"ci","scopes":["read"]}`)
	if status != http.StatusCreated {
		t.Fatalf("another client was answered %d %s, want 201", status, created)
	}
	_, rest, _ := strings.Cut(created, `"key":"`)
	key, _, _ := strings.Cut(rest, `"`)
	if status, _ := i.as(key, engineer, "GET", T+"/events", ""); status != http.StatusOK {
		t.Errorf("with a key: answered %d, want 200", status)
	}
	resp, err := testClient.Get(i.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(raw), `eventhook_api_refused_total{reason="too_many_wrong_keys"}`) {
		t.Errorf("the metrics do not count the guesses (%v)", err)
	}
	i.stop()
	if n := count(t, connect(t, dsn), `SELECT count(*) FROM eventhook.api_key WHERE last_used_at IS NOT NULL`); n != 1 {
		t.Errorf("%d keys are marked as used after the stop, want one", n)
	}
}
