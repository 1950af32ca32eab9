package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// request is a request that a command sent to the gateway.
type request struct {
	method, uri string
	body        any // nil without one
}

// startFakeGateway starts a fake gateway that sends the same answer to each request, and
// configures the environment for it. It returns the requests.
func startFakeGateway(t *testing.T, status int, answer string) *[]request {
	t.Helper()
	clitest.ClearEnvironment(t)
	var got []request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a := request{method: r.Method, uri: r.URL.RequestURI()}
		_ = json.Unmarshal(raw, &a.body)
		got = append(got, a)
		w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "application/problem+json"}[status < 300])
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	t.Setenv(input.ServerVariable, s.URL)
	t.Setenv(input.KeyVariable, testAdminKey)
	t.Setenv(input.TenantVariable, "shop")
	return &got
}

// someID is a valid id.
const someID = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"

const ofOperator = "/api/admin/subscriptions"

const inShop = "/api/tenants/shop/eventhook"

func TestCommandsSendRequests(t *testing.T) {
	t.Setenv("SECRET_OF_STRIPE", "s1")
	secret := clitest.WriteFile(t, "secret.txt", "s2\n")
	spelledOut := clitest.WriteFile(t, "source.yaml", "name: Of the file\nverifier: {type: hmac, header: X-Sig}\nretry: {schedule_seconds: [30, 120]}\n")
	asJSON := clitest.WriteFile(t, "route.json", `{"priority": 9007199254740993, "targets": [{"type": "task", "task_kind": "a"}]}`)
	subscription := clitest.WriteFile(t, "subscription.yaml", "name: b\nurl: https://a.example\nevent_types: ['*']\nheaders: {X-A: '1'}\n")
	auth := clitest.WriteFile(t, "auth.json", `{"type":"basic","username":"u","password":"p"}`)
	script := clitest.WriteFile(t, "script.js", "function transform(e) { return e }")
	type object = map[string]any
	for _, c := range []struct {
		claim string
		args  []string
		want  request
	}{
		{"process events again", []string{"event", "reprocess", "--again", "1", "2"},
			request{"POST", inShop + "/events/reprocess", object{"mode": "again", "event_ids": []any{"1", "2"}}}},
		{"search events", []string{"event", "search", "--filter", `{"body.id":42}`, "--since", "2026-03-01T00:00:00Z", "--limit", "7"},
			request{"POST", inShop + "/events/search", object{"filter": object{"body.id": 42.0}, "received_after": "2026-03-01T00:00:00Z", "limit": 7.0}}},
		{"a tenant's default name is its slug", []string{"tenant", "create", "shop"},
			request{"POST", "/api/admin/tenants", object{"slug": "shop", "name": "shop"}}},
		{"a limit can be none", []string{"tenant", "update", "shop", "--max-events-per-day", "none", "--max-storage-bytes", "5"},
			request{"PATCH", "/api/admin/tenants/shop", object{"max_events_per_day": nil, "max_storage_bytes": 5.0}}},
		{"suspend a tenant", []string{"tenant", "suspend", "shop"}, request{"PATCH", "/api/admin/tenants/shop", object{"status": "suspended"}}},
		{"close a tenant with --yes", []string{"tenant", "close", "shop", "--yes"}, request{"POST", "/api/admin/tenants/shop/close", nil}},
		{"create a key with scopes and expiry", []string{"key", "create", "ci", "--scope", "read,work", "--scope", "manage", "--expires", "2030-01-01T00:00:00Z"},
			request{"POST", "/api/admin/tenants/shop/keys", object{"name": "ci", "scopes": []any{"read", "work", "manage"}, "expires_at": "2030-01-01T00:00:00Z"}}},
		{"--tenant overrides the variable", []string{"key", "delete", "1", "--tenant", "acme", "--yes"},
			request{"DELETE", "/api/admin/tenants/acme/keys/1", nil}},
		{"public keys of files and flags", []string{"source", "create", "discord", "--provider", "discord", "--public-key", "@" + secret, "--public-key", "k3"},
			request{"POST", inShop + "/sources", object{"slug": "discord", "provider": "discord", "public_keys": []any{"s2\n", "k3"}}}},
		{"public keys of a verifier", []string{"source", "update", "crm", "--verifier", `{"type":"public_key"}`, "--public-key", "k"},
			request{"PATCH", inShop + "/sources/crm", object{"verifier": object{"type": "public_key", "public_keys": []any{"k"}}}}},
		{"secrets of variables, files and flags", []string{"source", "create", "stripe", "--provider", "stripe", "--secret-env", "SECRET_OF_STRIPE", "--secret-file", secret, "--secret", "s3"},
			request{"POST", inShop + "/sources", object{"slug": "stripe", "provider": "stripe", "secrets": []any{"s1", "s2", "s3"}}}},
		{"flags override a file, and secrets are set in its verifier", []string{"source", "create", "crm", "-f", spelledOut, "--name", "CRM", "--secret", "s", "--burst", "7", "--allow-from", "192.0.2.0/24", "--enabled=false"},
			request{"POST", inShop + "/sources", object{"slug": "crm", "name": "CRM", "verifier": object{"type": "hmac", "header": "X-Sig", "secrets": []any{"s"}},
				"retry": object{"schedule_seconds": []any{30.0, 120.0}}, "rate_limit": object{"burst_size": 7.0}, "allowed_ip_ranges": []any{"192.0.2.0/24"}, "is_enabled": false}}},
		{"the name of an option may contain dots", []string{"source", "update", "x", "--option", "a.b=c=d"},
			request{"PATCH", inShop + "/sources/x", object{"options": object{"a.b": "c=d"}}}},
		{"secrets of an api_key verifier are its values", []string{"source", "update", "x", "--verifier", `{"type":"api_key","header":"X-Key"}`, "--secret", "t"},
			request{"PATCH", inShop + "/sources/x", object{"verifier": object{"type": "api_key", "header": "X-Key", "values": []any{"t"}}}}},
		{"a source of a broker", []string{"source", "create", "orders", "--consume", `{"type":"kafka","topic":"t"}`},
			request{"POST", inShop + "/sources", object{"slug": "orders", "consume": object{"type": "kafka", "topic": "t"}}}},
		{"describe a source", []string{"source", "update", "x", "--description", "a b"}, request{"PATCH", inShop + "/sources/x", object{"description": "a b"}}},
		{"delete a source with its routes", []string{"source", "delete", "x", "--cascade", "--yes"}, request{"DELETE", inShop + "/sources/x?cascade=true", nil}},
		{"test a source with a request", []string{"source", "test", "x", "-H", "A: 1", "-H", "A:2", "--body-file", secret, "--at", "2026-01-01T00:00:00Z"},
			request{"POST", inShop + "/sources/x/test", object{"headers": object{"A": []any{"1", "2"}}, "body_base64": "czIK", "at": "2026-01-01T00:00:00Z"}}},
		{"a route to a task", []string{"route", "create", "r", "--source", "s", "--type", "a.*", "--type", "b", "--task", "build", "--queue", "ci"},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "filter_event_types": []any{"a.*", "b"}, "targets": []any{object{"type": "task", "task_kind": "build", "queue": "ci"}}}}},
		{"a route to a promise", []string{"route", "create", "r", "--source", "s", "--promise-key", "body.id", "--key-prefix", "x:", "--value-path", "body.v"},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "targets": []any{object{"type": "promise", "idempotency_key_path": "body.id", "idempotency_key_prefix": "x:", "value_path": "body.v"}}}}},
		{"a route that publishes", []string{"route", "create", "r", "--source", "s", "--publish", "a.b", "--key-path", "body.id"},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "targets": []any{object{"type": "publish", "event_type": "a.b", "idempotency_key_path": "body.id"}}}}},
		{"a route to a URL", []string{"route", "create", "r", "--source", "s", "--http", "https://internal.example/hook"},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "targets": []any{object{"type": "http", "url": "https://internal.example/hook"}}}}},
		{"a route to a broker", []string{"route", "create", "r", "--source", "s", "--target-type", "kafka", "--setting", "brokers=a.example:9092", "--setting", "topic=5", "--setting", "tls=false",
			"--setting", "timeout_seconds=5", "--setting", "password=@" + secret, "--setting", `retry={"max_retries":3}`, "--setting", "made_up=1"},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "targets": []any{object{"type": "kafka", "brokers": "a.example:9092", "topic": "5", "tls": false, "timeout_seconds": 5.0,
				"password": "s2", "retry": object{"max_retries": 3.0}, "made_up": "1"}}}}},
		{"a route to a workflow on Temporal", []string{"route", "create", "r", "--source", "s", "--workflow", "Pay", "--queue", "q", "--setting", "engine=temporal", "--setting", "address=t.example:7233"},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "targets": []any{object{"type": "workflow", "workflow_kind": "Pay", "queue": "q", "engine": "temporal", "address": "t.example:7233"}}}}},
		{"a route with every condition", []string{"route", "create", "r", "--source", "s", "--filter", `{"body.n":{"$gte":1}}`, "--filter-expression", "body.a > 1", "--transform", "javascript:@" + script, "--priority", "5",
			"--workflow", "w", "--key-path", "body.id", "--target", `{"type":"task","task_kind":"t"}`},
			request{"POST", inShop + "/sources/s/routes", object{"name": "r", "filter": object{"body.n": object{"$gte": 1.0}}, "filter_expression": "body.a > 1", "priority": 5.0,
				"transform": object{"type": "javascript", "expression": "function transform(e) { return e }"},
				"targets":   []any{object{"type": "task", "task_kind": "t"}, object{"type": "workflow", "workflow_kind": "w", "idempotency_key_path": "body.id"}}}}},
		{"a file without flags", []string{"route", "create", "--source", "s", "-f", asJSON},
			request{"POST", inShop + "/sources/s/routes", object{"priority": 9007199254740993.0, "targets": []any{object{"type": "task", "task_kind": "a"}}}}},
		{"filter events", []string{"event", "list", "--source", "s", "--status", "dead", "--type", "a b", "--idempotency-key", "k", "--since", "2026-01-01T00:00:00Z", "--limit", "3"},
			request{"GET", inShop + "/events?event_type=a+b&idempotency_key=k&limit=3&received_after=2026-01-01T00%3A00%3A00Z&source=s&status=dead", nil}},
		{"reprocess events by their ids", []string{"event", "reprocess", "1", "2"}, request{"POST", inShop + "/events/reprocess", object{"event_ids": []any{"1", "2"}}}},
		{"reprocess events by a filter", []string{"event", "reprocess", "--status", "dead,failed", "--source", "s", "--until", "2026-01-01T00:00:00Z", "--limit", "9", "--expect", "0"},
			request{"POST", inShop + "/events/reprocess", object{"filter": object{"status": []any{"dead", "failed"}, "source": "s", "received_before": "2026-01-01T00:00:00Z"}, "limit": 9.0, "expected_count": 0.0}}},
		{"create an event type with a schema", []string{"event-type", "put", "a.b", "--schema", `{"type":"object"}`, "--category", "c"},
			request{"PUT", inShop + "/event-types/a.b", object{"schema": object{"type": "object"}, "category": "c"}}},
		{"create a subscription", []string{"subscription", "create", "billing", "--url", "https://a.example/in", "--type", "a.*", "--type", "b", "--filter", `{"body.n":{"$gte":1}}`,
			"-H", "X-A: 1", "-H", "X-B:2:3", "--label", "env:prod", "--retry", `{"schedule_seconds":[1,2]}`, "--timeout", "5", "--disable-after", "0", "--max-in-flight", "3", "--rate", "7",
			"--signature", "v1", "--signature", "v1a", "--secret-env", "SECRET_OF_STRIPE", "--auth-header-env", "SECRET_OF_STRIPE", "--validate"},
			request{"POST", inShop + "/subscriptions", object{"name": "billing", "url": "https://a.example/in", "event_types": []any{"a.*", "b"}, "filter": object{"body.n": object{"$gte": 1.0}},
				"headers": object{"X-A": "1", "X-B": "2:3"}, "target_labels": []any{"env:prod"}, "retry": object{"schedule_seconds": []any{1.0, 2.0}}, "timeout_seconds": 5.0,
				"disable_after_failures": 0.0, "max_in_flight": 3.0, "rate_per_second": 7.0, "signatures": []any{"v1", "v1a"}, "signing_secret": "s1", "auth_header": "s1", "validate": true}}},
		{"create a subscription from a file with an additional header", []string{"subscription", "create", "-f", subscription, "-H", "X-B: 2"},
			request{"POST", inShop + "/subscriptions", object{"name": "b", "url": "https://a.example", "event_types": []any{"*"}, "headers": object{"X-A": "1", "X-B": "2"}}}},
		{"update a subscription", []string{"subscription", "update", someID, "--name", "new", "--auth-header", "Bearer x"},
			request{"PATCH", inShop + "/subscriptions/" + someID, object{"name": "new", "auth_header": "Bearer x"}}},
		{"update the authentication of a subscription", []string{"subscription", "update", someID, "--auth", "@" + auth},
			request{"PATCH", inShop + "/subscriptions/" + someID, object{"auth": object{"type": "basic", "username": "u", "password": "p"}}}},
		{"remove the authentication of a subscription", []string{"subscription", "update", someID, "--auth", "null"},
			request{"PATCH", inShop + "/subscriptions/" + someID, object{"auth": nil}}},
		{"pause a subscription", []string{"subscription", "pause", someID}, request{"POST", inShop + "/subscriptions/" + someID + "/pause", nil}},
		{"resume a subscription", []string{"subscription", "resume", someID}, request{"POST", inShop + "/subscriptions/" + someID + "/resume", nil}},
		{"enable a subscription", []string{"subscription", "enable", someID}, request{"POST", inShop + "/subscriptions/" + someID + "/enable", nil}},
		{"disable a subscription", []string{"subscription", "disable", someID}, request{"POST", inShop + "/subscriptions/" + someID + "/disable", nil}},
		{"delete a subscription", []string{"subscription", "delete", someID, "-y"}, request{"DELETE", inShop + "/subscriptions/" + someID, nil}},
		{"rotate a secret with the default grace period", []string{"subscription", "rotate-secret", someID},
			request{"POST", inShop + "/subscriptions/" + someID + "/rotate-secret", object{"grace_seconds": 86400.0}}},
		{"rotate a secret without a grace period", []string{"subscription", "rotate-secret", someID, "--grace", "0s", "--secret-file", secret},
			request{"POST", inShop + "/subscriptions/" + someID + "/rotate-secret", object{"grace_seconds": 0.0, "signing_secret": "s2"}}},
		{"replay a subscription", []string{"subscription", "replay", someID, "--since", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z", "--status", "dead,success", "--type", "a.*", "--missing", "--limit", "5", "--expect", "3"},
			request{"POST", inShop + "/subscriptions/" + someID + "/replay", object{"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "status": []any{"dead", "success"}, "event_types": []any{"a.*"}, "missing": true, "limit": 5.0, "expected_count": 3.0}}},
		{"list operator subscriptions", []string{"subscription", "list", "--operator", "--status", "paused"}, request{"GET", ofOperator + "?is_operator=true&limit=50&status=paused", nil}},
		{"get an operator subscription", []string{"subscription", "get", someID, "--operator"}, request{"GET", ofOperator + "/" + someID, nil}},
		{"create an operator subscription", []string{"subscription", "create", "ops", "--operator", "--url", "https://a.example", "--type", "*", "--from-tenant", "shop"},
			request{"POST", ofOperator, object{"name": "ops", "url": "https://a.example", "event_types": []any{"*"}, "tenants": []any{"shop"}}}},
		{"update an operator subscription", []string{"subscription", "update", someID, "--operator", "--name", "new"}, request{"PATCH", ofOperator + "/" + someID, object{"name": "new"}}},
		{"delete an operator subscription", []string{"subscription", "delete", someID, "--operator", "-y"}, request{"DELETE", ofOperator + "/" + someID, nil}},
		{"pause an operator subscription", []string{"subscription", "pause", someID, "--operator"}, request{"POST", ofOperator + "/" + someID + "/pause", nil}},
		{"resume an operator subscription", []string{"subscription", "resume", someID, "--operator"}, request{"POST", ofOperator + "/" + someID + "/resume", nil}},
		{"enable an operator subscription", []string{"subscription", "enable", someID, "--operator"}, request{"POST", ofOperator + "/" + someID + "/enable", nil}},
		{"disable an operator subscription", []string{"subscription", "disable", someID, "--operator"}, request{"POST", ofOperator + "/" + someID + "/disable", nil}},
		{"rotate the secret of an operator subscription", []string{"subscription", "rotate-secret", someID, "--operator"},
			request{"POST", ofOperator + "/" + someID + "/rotate-secret", object{"grace_seconds": 86400.0}}},
		{"statistics of an operator subscription", []string{"subscription", "stats", someID, "--operator"}, request{"GET", ofOperator + "/" + someID + "/stats", nil}},
		{"replay to an operator subscription", []string{"subscription", "replay", someID, "--operator", "--since", "2026-01-01T00:00:00Z"},
			request{"POST", ofOperator + "/" + someID + "/replay", object{"since": "2026-01-01T00:00:00Z"}}},
		{"list the replays of an operator subscription", []string{"subscription", "replays", someID, "--operator"}, request{"GET", ofOperator + "/" + someID + "/replays?limit=50", nil}},
		{"show a replay of an operator subscription", []string{"subscription", "replays", someID, "r1", "--operator"}, request{"GET", ofOperator + "/" + someID + "/replays/r1", nil}},
		{"cancel a replay of an operator subscription", []string{"subscription", "replay-cancel", someID, "r1", "--operator"}, request{"POST", ofOperator + "/" + someID + "/replays/r1/cancel", nil}},
		{"list the deliveries of an operator subscription", []string{"subscription", "deliveries", someID, "--operator", "--status", "dead"},
			request{"GET", ofOperator + "/" + someID + "/deliveries?limit=50&status=dead", nil}},
		{"list the subscriptions of all tenants", []string{"subscription", "list", "--all-tenants", "--type", "a.*"}, request{"GET", ofOperator + "?event_type=a.%2A&limit=50", nil}},
		{"list the deliveries of all tenants", []string{"delivery", "list", "--all-tenants", "--subscription", someID, "--status", "dead"},
			request{"GET", "/api/admin/deliveries?limit=50&status=dead&subscription_id=" + someID, nil}},
		{"pause all subscriptions", []string{"subscription", "pause", "--all", "--expect", "3"},
			request{"POST", inShop + "/subscriptions/pause", object{"filter": object{}, "limit": 1000.0, "expected_count": 3.0}}},
		{"enable disabled subscriptions", []string{"subscription", "enable", "--status", "disabled", "--type", "a.*", "--limit", "2"},
			request{"POST", inShop + "/subscriptions/enable", object{"filter": object{"status": []any{"disabled"}, "event_type": "a.*"}, "limit": 2.0}}},
		{"retry an expected number of deliveries", []string{"delivery", "retry", "--status", "dead", "--limit", "9", "--expect", "0"},
			request{"POST", inShop + "/deliveries/retry", object{"filter": object{"status": []any{"dead"}}, "limit": 9.0, "expected_count": 0.0}}},
		{"list the replays of a subscription", []string{"subscription", "replays", someID, "--status", "running"}, request{"GET", inShop + "/subscriptions/" + someID + "/replays?limit=50&status=running", nil}},
		{"show a replay", []string{"subscription", "replays", someID, "r1"}, request{"GET", inShop + "/subscriptions/" + someID + "/replays/r1", nil}},
		{"cancel a replay", []string{"subscription", "replay-cancel", someID, "r1"}, request{"POST", inShop + "/subscriptions/" + someID + "/replays/r1/cancel", nil}},
		{"list the deliveries of a subscription", []string{"subscription", "deliveries", someID, "--status", "dead", "--limit", "3"},
			request{"GET", inShop + "/deliveries?limit=3&status=dead&subscription_id=" + someID, nil}},
		{"filter deliveries", []string{"delivery", "list", "--subscription", someID, "--event", someID, "--status", "failed", "--since", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z", "--limit", "3"},
			request{"GET", inShop + "/deliveries?created_after=2026-01-01T00%3A00%3A00Z&created_before=2026-01-02T00%3A00%3A00Z&event_id=" + someID + "&limit=3&status=failed&subscription_id=" + someID, nil}},
		{"list the deliveries of a route", []string{"delivery", "list", "--route", someID}, request{"GET", inShop + "/deliveries?limit=50&route_id=" + someID, nil}},
		{"retry the deliveries of a route", []string{"delivery", "retry", "--route", someID, "--limit", "2"},
			request{"POST", inShop + "/deliveries/retry", object{"filter": object{"route_id": someID}, "limit": 2.0}}},
		{"retry a delivery", []string{"delivery", "retry", someID}, request{"POST", inShop + "/deliveries/" + someID + "/retry", nil}},
		{"retry deliveries by a filter", []string{"delivery", "retry", "--subscription", someID, "--event", someID, "--status", "dead", "--since", "2026-01-01T00:00:00Z", "--limit", "9"},
			request{"POST", inShop + "/deliveries/retry", object{"filter": object{"subscription_id": someID, "event_id": someID, "status": []any{"dead"}, "created_after": "2026-01-01T00:00:00Z"}, "limit": 9.0}}},
		{"publish an event", []string{"publish", "a.b", "--data", `{"n":1}`, "--idempotency-key", "k", "--metadata", `{"m":1}`, "--scope", `"s"`, "--actor", "[1]", "--correlation-id", "c", "--source", "erp", "--category", "sales"},
			request{"POST", inShop + "/events", object{"event_type": "a.b", "data": object{"n": 1.0}, "idempotency_key": "k", "metadata": object{"m": 1.0}, "scope": "s", "actor": []any{1.0}, "correlation_id": "c", "source": "erp", "category": "sales"}}},
		{"test an expression", []string{"expression", "test", "--filter", `{"body.n":1}`, "--transform", "jmespath:body.n", "--body", `{"n":1}`, "--headers", `{"X-Env":"a"}`},
			request{"POST", inShop + "/expressions/test", object{"filter": object{"body.n": 1.0}, "transform": object{"type": "jmespath", "expression": "body.n"}, "body": object{"n": 1.0}, "headers": object{"X-Env": "a"}}}},
		{"list dead work", []string{"work", "list", "--status", "dead", "--type", "task", "--kind", "k", "--queue", "q", "--limit", "3"},
			request{"GET", inShop + "/work?kind=k&limit=3&queue=q&status=dead&type=task", nil}},
		{"get work", []string{"work", "get", someID}, request{"GET", inShop + "/work/" + someID, nil}},
		{"retry work", []string{"work", "retry", someID}, request{"POST", inShop + "/work/" + someID + "/retry", nil}},
		{"cancel work", []string{"work", "cancel", someID}, request{"POST", inShop + "/work/" + someID + "/cancel", nil}},
		{"claim work", []string{"work", "claim", "--queue", "q", "--kind", "a,b", "--max", "3", "--wait", "20s", "--lease", "1m"},
			request{"POST", inShop + "/work/claim", object{"queue": "q", "kinds": []any{"a", "b"}, "max": 3.0, "wait_seconds": 20.0, "lease_seconds": 60.0}}},
		{"start a task", []string{"work", "create", "task", "k", "--input", `{"n":1.50}`, "--queue", "q", "--idempotency-key", "i", "--priority", "-5", "--run-at", "2026-01-01T00:00:00Z", "--max-attempts", "2"},
			request{"POST", inShop + "/work", object{"type": "task", "kind": "k", "input": object{"n": 1.5}, "queue": "q", "idempotency_key": "i", "priority": -5.0, "run_at": "2026-01-01T00:00:00Z", "max_attempts": 2.0}}},
		{"start a workflow without an input", []string{"work", "create", "workflow", "k"}, request{"POST", inShop + "/work", object{"type": "workflow", "kind": "k", "input": nil}}},
		{"create a promise", []string{"promise", "create", "k", "--workflow", someID, "--timeout", "1d"},
			request{"POST", inShop + "/promises", object{"idempotency_key": "k", "workflow_execution_id": someID, "timeout_seconds": 86400.0}}},
		{"list promises", []string{"promise", "list", "--idempotency-key", "k"}, request{"GET", inShop + "/promises?idempotency_key=k&limit=50", nil}},
		{"get a promise", []string{"promise", "get", someID, "--wait", "20s"}, request{"GET", inShop + "/promises/" + someID + "?wait_seconds=20", nil}},
		{"resolve a promise", []string{"promise", "resolve", someID, "--value", `{"a":1}`}, request{"POST", inShop + "/promises/" + someID + "/resolve", object{"value": object{"a": 1.0}}}},
		{"reject a promise", []string{"promise", "reject", someID, "declined"}, request{"POST", inShop + "/promises/" + someID + "/reject", object{"error": "declined"}}},
		{"list the audit log of a tenant", []string{"audit", "list", "--action", "route.updated"}, request{"GET", inShop + "/audit?action=route.updated&limit=50", nil}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := startFakeGateway(t, 200, `{"items":[],"next_cursor":null}`)
			if out := runCommand(c.args...); out.Code != 0 {
				t.Fatalf("got %+v, want success", out)
			}
			if diff := cmp.Diff([]request{c.want}, *got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongUsageIsReportedBeforeAnyRequest(t *testing.T) {
	notJSON := clitest.WriteFile(t, "x.yaml", "[1,")
	list := clitest.WriteFile(t, "list.json", "[]")
	for claim, c := range map[string]struct {
		args []string
		says string
	}{
		"closing a tenant without --yes":        {[]string{"tenant", "close", "shop"}, "cannot ask whether to close the tenant shop permanently, since there is no terminal: confirm with --yes"},
		"deleting a source without --yes":       {[]string{"source", "delete", "crm"}, "delete the source crm"},
		"deleting a route without --yes":        {[]string{"route", "delete", "r", "--source", "s"}, "delete the route r"},
		"revoking a key without --yes":          {[]string{"key", "delete", someID}, "delete the API key " + someID},
		"deleting a type without --yes":         {[]string{"event-type", "delete", "a.b"}, "delete the event type a.b"},
		"a deletion without --yes":              {[]string{"subscription", "delete", "billing"}, "delete the subscription billing"},
		"a tenant without a name":               {[]string{"tenant", "create"}, "slug"},
		"an empty update":                       {[]string{"tenant", "update", "shop"}, "the request is empty"},
		"a limit that is not a number":          {[]string{"tenant", "update", "shop", "--max-events-per-day", "many"}, "none"},
		"a route without a source":              {[]string{"route", "list"}, "source"},
		"two targets":                           {[]string{"route", "create", "r", "--source", "s", "--task", "a", "--workflow", "b"}, "--target"},
		"a task and a URL":                      {[]string{"route", "create", "r", "--source", "s", "--task", "a", "--http", "https://a.example"}, "--http"},
		"a queue without a target":              {[]string{"route", "create", "r", "--source", "s", "--queue", "q"}, "--task"},
		"a setting without a target":            {[]string{"route", "create", "r", "--source", "s", "--setting", "topic=t"}, "--target-type"},
		"a setting without a value":             {[]string{"route", "create", "r", "--source", "s", "--target-type", "kafka", "--setting", "topic"}, "NAME=VALUE"},
		"a type as a setting":                   {[]string{"route", "create", "r", "--source", "s", "--task", "t", "--setting", "type=http"}, "NAME=VALUE"},
		"a setting that is not JSON":            {[]string{"route", "create", "r", "--source", "s", "--target-type", "kafka", "--setting", "tls=maybe"}, "tls is not JSON"},
		"a setting of a missing file":           {[]string{"route", "create", "r", "--source", "s", "--target-type", "kafka", "--setting", "password=@nowhere"}, "nowhere"},
		"a type and a task":                     {[]string{"route", "create", "r", "--source", "s", "--target-type", "kafka", "--task", "t"}, "--target-type"},
		"a filter that is not JSON":             {[]string{"route", "create", "r", "--source", "s", "--filter", "a=1"}, "--filter"},
		"a transform of an unknown type":        {[]string{"route", "create", "r", "--source", "s", "--transform", "{id: id}"}, "jmespath:"},
		"a secret of an unset variable":         {[]string{"source", "create", "s", "--secret-env", "NOBODY_SET_THIS"}, "NOBODY_SET_THIS"},
		"a secret of a missing file":            {[]string{"source", "create", "s", "--secret-file", "nowhere"}, "nowhere"},
		"an option without a value":             {[]string{"source", "create", "s", "--option", "a"}, "name=value"},
		"a missing file":                        {[]string{"source", "create", "s", "-f", "nowhere"}, "nowhere"},
		"a file that is not valid":              {[]string{"source", "create", "s", "-f", notJSON}, "is not YAML"},
		"a file with a list":                    {[]string{"source", "create", "s", "-f", list}, "does not contain an object"},
		"a header without a colon":              {[]string{"source", "test", "s", "-H", "a"}, "Name: value"},
		"--reveal and --reset":                  {[]string{"source", "handshake", "s", "--reveal", "--reset"}, "cannot be combined"},
		"two signing secrets":                   {[]string{"subscription", "create", "b", "--secret", "a", "--secret", "b"}, "only one secret"},
		"an Authorization of no variable":       {[]string{"subscription", "create", "b", "--auth-header-env", "NOBODY_SET_THIS"}, "NOBODY_SET_THIS"},
		"an empty update of a subscription":     {[]string{"subscription", "update", someID}, "the request is empty"},
		"a replay without --since":              {[]string{"subscription", "replay", someID}, "--since"},
		"a pause of nothing":                    {[]string{"subscription", "pause"}, "--all"},
		"a pause of all operator subscriptions": {[]string{"subscription", "pause", "--all", "--operator"}, "the name or id of one"},
		"--operator with --tenant":              {[]string{"subscription", "list", "--operator", "--tenant", "shop"}, "--tenant and --operator"},
		"--operator with all tenants":           {[]string{"subscription", "list", "--operator", "--all-tenants"}, "--operator and --all-tenants"},
		"a name among all tenants":              {[]string{"delivery", "list", "--all-tenants", "--subscription", "billing"}, "requires the id"},
		"the latest event of all tenants":       {[]string{"delivery", "list", "--all-tenants", "--event", "latest"}, "requires a tenant"},
		"a pause of one and of all":             {[]string{"subscription", "pause", "billing", "--all"}, "cannot be combined"},
		"deliveries without a limit":            {[]string{"delivery", "retry", "--status", "dead"}, "--limit"},
		"a delivery by id and by status":        {[]string{"delivery", "retry", someID, "--status", "dead"}, "cannot be combined"},
		"a delivery by id and by route":         {[]string{"delivery", "retry", someID, "--route", someID}, "cannot be combined"},
		"an event without data":                 {[]string{"publish", "a.b"}, "--data"},
		"an event whose data is not JSON":       {[]string{"publish", "a.b", "--data", "{"}, "not JSON"},
		"data of a missing file":                {[]string{"publish", "a.b", "--data", "@nowhere"}, "nowhere"},
		"an event without a type":               {[]string{"publish", "--data", "1"}, "usage: eventhook publish TYPE"},
		"an unknown subcommand":                 {[]string{"subscription", "history"}, "see eventhook subscription --help"},
		"a wait for an unknown status":          {[]string{"delivery", "get", someID, "--wait", "delivered"}, "success, failed, dead"},
		"events without a limit":                {[]string{"event", "reprocess", "--status", "dead"}, "--limit"},
		"events by id and by status":            {[]string{"event", "reprocess", "1", "--status", "dead"}, "cannot be combined"},
		"a time that is not valid":              {[]string{"event", "list", "--since", "yesterday"}, "--since"},
		"a limit of zero":                       {[]string{"event", "list", "--limit", "0"}, "--limit"},
		"an unknown output format":              {[]string{"event", "list", "-o", "xml"}, "--output"},
		"a limit that is a word":                {[]string{"event", "list", "--limit", "abc"}, "eventhook: --limit \"abc\", want a whole number\n"},
		"a limit that is too large":             {[]string{"event", "list", "--limit", "99999999999999999999"}, "want a number with fewer digits\n"},
		"a timeout that is a word":              {[]string{"subscription", "update", someID, "--timeout", "soon"}, "eventhook: --timeout \"soon\", want a whole number\n"},
		"a flag that is not true or false":      {[]string{"source", "update", "s", "--enabled=maybe"}, "eventhook: --enabled \"maybe\", want true or false\n"},
		"a grace period without a unit":         {[]string{"subscription", "rotate-secret", someID, "--grace", "1"}, "eventhook: --grace \"1\", want a duration such as 24h or 7d\n"},
		"an unknown flag":                       {[]string{"event", "list", "--colour"}, "unknown flag: --colour"},
		"no argument":                           {[]string{"source", "get"}, "eventhook: an argument is missing; usage: eventhook source get SLUG"},
		"no argument of several":                {[]string{"route", "reorder", "--source", "s"}, "eventhook: an argument is missing; usage: eventhook route reorder NAME"},
		"two arguments instead of one":          {[]string{"source", "get", "a", "b"}, "eventhook: too many arguments (2); usage: eventhook source get SLUG"},
		"two ids of deliveries":                 {[]string{"delivery", "retry", "a", "b"}, "eventhook: too many arguments (2); usage: eventhook delivery retry"},
		"an unexpected argument":                {[]string{"event", "list", "all"}, "unknown"},
	} {
		t.Run(claim, func(t *testing.T) {
			got := startFakeGateway(t, 200, `{"items":[],"next_cursor":null}`)
			out := runCommand(c.args...)
			if out.Code != ExitUsage || !strings.Contains(out.Stderr, c.says) || len(*got) > 0 {
				t.Errorf("got %+v and requests %v, want exit code %d, no requests, and %q in the error", out, *got, ExitUsage, c.says)
			}
		})
	}
}

func TestRefusalIsPrintedWithAllFaults(t *testing.T) {
	for _, c := range []struct {
		status int
		answer string
		code   int
		says   []string
	}{
		{422, `{"title":"T","status":422,"detail":"D.","errors":[{"location":"body.a","message":"m"},{"location":"body.b","message":"n"}]}`, ExitUsage, []string{"T: D.", "  body.a: m\n", "  body.b: n\n"}},
		{400, `{"title":"T","status":400,"detail":"D."}`, ExitUsage, []string{"400 T: D."}},
		{401, `{"title":"T","status":401,"detail":"D."}`, ExitFailed, []string{"401 T: D.", "The API key is from EVENTHOOK_KEY"}},
		{404, `{"title":"T","status":404,"detail":"D."}`, ExitFailed, []string{"404 T: D."}},
		{409, `{"title":"T","status":409,"detail":"D."}`, ExitFailed, []string{"409 T: D."}},
		{500, `{"title":"T","status":500,"detail":"D."}`, ExitFailed, []string{"500 T: D."}},
	} {
		startFakeGateway(t, c.status, c.answer)
		out := runCommand("source", "get", "s")
		if out.Code != c.code || out.Stdout != "" || strings.Contains(out.Stderr, testAdminKey) {
			t.Errorf("%d: got %+v, want exit code %d, no output on stdout, and no key", c.status, out, c.code)
		}
		for _, text := range c.says {
			if !strings.Contains(out.Stderr, text) {
				t.Errorf("%d: stderr is %q, want %q in it", c.status, out.Stderr, text)
			}
		}
	}
}

func TestFindKey(t *testing.T) {
	for _, c := range []struct {
		claim, flag, variable, file, server string
		want, from                          string
		fails                               bool
	}{
		{claim: "the flag has precedence", flag: "f", variable: "v", file: "k", server: input.DefaultServer, want: "f", from: "--key"},
		{claim: "without the flag, the variable", variable: "v", file: "k", server: input.DefaultServer, want: "v", from: input.KeyVariable},
		{claim: "for a gateway on this host, the admin key", file: "k\n", server: "http://127.0.0.1:1", want: "k", from: "admin.key"},
		{claim: "for a gateway on this host over IPv6, the admin key", file: "k", server: "http://[::1]:1", want: "k", from: "admin.key"},
		{claim: "the admin key is not for other hosts", file: "k", server: "https://hooks.example.com", fails: true},
		{claim: "the admin key is not for hosts with a similar name", file: "k", server: "http://localhost.example.com", fails: true},
		{claim: "no key", server: input.DefaultServer, fails: true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			clitest.ClearEnvironment(t)
			dir := t.TempDir()
			t.Setenv("EVENTHOOK_DATA_DIR", dir)
			t.Setenv(input.KeyVariable, c.variable)
			if c.file != "" {
				if err := os.WriteFile(dir+"/admin.key", []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := findKey(c.flag, c.server)
			if got.text != c.want || !strings.HasSuffix(got.from, c.from) || (err != nil) != c.fails {
				t.Errorf("got %q from %q, %v; want %q from %q", got.text, got.from, err, c.want, c.from)
			}
		})
	}
}

func TestErrorWithoutGatewaySaysHowToStartOne(t *testing.T) {
	startFakeGateway(t, 200, "")
	t.Setenv(input.ServerVariable, "http://127.0.0.1:1")
	if out := runCommand("event", "list"); out.Code != ExitFailed || !strings.Contains(out.Stderr, "eventhook serve") {
		t.Errorf("got %+v, want exit code %d and the command that starts a gateway", out, ExitFailed)
	}
}

func TestListOfSeveralPagesIsOneDocument(t *testing.T) {
	clitest.ClearEnvironment(t)
	pages := map[string]string{"": `{"items":[{"slug":"a","new":1}],"next_cursor":"2"}`, "2": `{"items":[],"next_cursor":"3"}`, "3": `{"items":[{"slug":"b"},{"slug":"c"}],"next_cursor":null}`}
	var limits []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits = append(limits, r.URL.Query().Get("limit"))
		_, _ = io.WriteString(w, pages[r.URL.Query().Get("cursor")])
	}))
	defer s.Close()
	list := func(args ...string) clitest.Output {
		limits = nil
		return runCommand(append([]string{"tenant", "list", "--server", s.URL, "--key", testAdminKey}, args...)...)
	}
	var got any
	out := list("--all", "-o", "json")
	if err := json.Unmarshal([]byte(out.Stdout), &got); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	type object = map[string]any
	want := object{"items": []any{object{"slug": "a", "new": 1.0}, object{"slug": "b"}, object{"slug": "c"}}, "next_cursor": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the document (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"250", "250", "250"}, limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if out := list("--limit", "1"); !strings.Contains(out.Stderr, "--cursor 2") || strings.Count(out.Stdout, "\n") != 2 {
		t.Errorf("got %+v, want one tenant and the option for the next page", out)
	}
	if out := list("--limit", "2"); strings.Count(out.Stdout, "SLUG") != 1 || strings.Count(out.Stdout, "\n") != 4 || limits[2] != "1" {
		t.Errorf("got %+v by limits %v, want the tenants in one table", out, limits)
	}
}

func TestTextsOfSendersContainNoControlCharacters(t *testing.T) {
	startFakeGateway(t, 200, `{"items":[{"id":"1","event_type":"a\u001b[2Jb\nc\u202ed","status":"dead","origin":"api","received_at":"2026-01-01T00:00:00Z"}],"next_cursor":null}`)
	out := runCommand("event", "list")
	if strings.ContainsAny(out.Stdout, "\x1b\u202e") || strings.Count(out.Stdout, "\n") != 2 {
		t.Errorf("got %q, want one line of plain text", out.Stdout)
	}
}
