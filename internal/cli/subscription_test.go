package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
)

const aSubscription = `{"id":"` + someID + `","name":"billing","status":"disabled","disabled_reason":"it answered 410","url":"https://a.example/…","event_types":["a.*","b"],
 "filter":{"body.n":1},"auth_header":"[redacted]","headers":{"X-A":"1"},"target_labels":[],"retry":{"max_retries":5},"timeout_seconds":30,"disable_after_failures":10,
 "max_in_flight":10,"rate_per_second":0,"signatures":["v1"],"signing_secrets_count":2,"rotation_ends_at":"2026-01-02T00:00:00Z","warnings":["url is not encrypted"],
 "version":1,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"`

const aReplay = `{"id":"r1","replay_id":"r1","kind":"replay","status":"completed","since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z","estimated":16,"matched":16,"queued":16,"sent":15,"failed":1}`

func TestSubscriptionAndDeliveryOutput(t *testing.T) {
	for _, c := range []struct {
		claim, answer string
		command       string
		code          int
		prints        string
	}{
		{"create a subscription", aSubscription + `,"signing_secret":"whsec_new"}`, "subscription create billing --url https://a.example --type a.*", 0,
			"billing disabled it answered 410 https://a.example/… whsec_new docs/receiving.md eventhook subscription test " + someID},
		{"get a subscription", aSubscription + `}`, "subscription get " + someID, 0,
			"name billing status disabled disabled reason it answered 410 event types a.*, b gateway [redacted] X-A v1 secrets 2; the previous one signs until 2026-01-02T00:00:00Z 10 dead deliveries in a row unlimited warning url is not encrypted"},
		{"create a subscription with v1a signatures", strings.Replace(aSubscription, `["v1"]`, `["v1","v1a"]`, 1) + `,"signing_secret":"whsec_new"}`,
			"subscription create billing --url https://a.example --type a.* --signature v1 --signature v1a", 0, "v1, v1a whsec_new eventhook subscription public-key " + someID},
		{"public key", `{"public_key":"whpk_key","algorithm":"ed25519"}`, "subscription public-key " + someID, 0, "whpk_key"},
		{"list subscriptions", `{"items":[` + aSubscription + `}],"next_cursor":null}`, "subscription list", 0, "NAME STATUS billing disabled https://a.example/… a.*, b gateway " + someID},
		{"rotate a secret", `{"signing_secret":"whsec_new","previous_expires_at":"2026-01-02T00:00:00Z","signing_secrets_count":2}`, "subscription rotate-secret " + someID, 0,
			"whsec_new until 2026-01-02T00:00:00Z"},
		{"rotate a secret without a grace period", `{"signing_secret":"whsec_new","previous_expires_at":null,"signing_secrets_count":1}`, "subscription rotate-secret " + someID + " --grace 0s", 0,
			"whsec_new does not sign any more"},
		{"a successful test", `{"delivered":true,"event_id":"e","delivery_id":"d","started_at":"2026-01-01T00:00:00Z","duration_ms":12,"status_code":204,"error":null,"error_class":null,"response_excerpt":null}`,
			"subscription test " + someID, 0, "delivered yes status code 204 duration 12 ms event e delivery d"},
		{"a failed test", `{"delivered":false,"event_id":"e","delivery_id":"d","started_at":"2026-01-01T00:00:00Z","duration_ms":12,"status_code":500,"error":"answered 500","error_class":"http_5xx","response_excerpt":"oops"}`,
			"subscription test " + someID, ExitFailed, "delivered no: answered 500 status code 500 response oops"},
		{"statistics", `{"delivered_last_hour":1,"delivered_last_24h":2,"failed_last_hour":3,"failed_last_24h":4,"dead_last_hour":5,"dead_last_24h":6,"mean_duration_ms":1.25,"waiting":7,"oldest_waiting_at":"2026-01-01T00:00:00Z","dead_in_row":8}`,
			"subscription stats " + someID, 0, "last hour 1 delivered, 3 failed attempts, 5 dead 2 delivered 4 6 1.2 ms waiting 7 2026-01-01T00:00:00Z dead in a row 8"},
		{"replay", `{"replay_id":"r1","estimated":5}`, "subscription replay " + someID + " --since 24h", 0, "Replay r1 sends about 5 events eventhook subscription replays " + someID + " r1"},
		{"list replays", `{"items":[` + aReplay + `],"next_cursor":null}`, "subscription replays " + someID, 0, "ID KIND r1 replay completed 2026-01-01T00:00:00Z 16 15 1"},
		{"show the latest replay", aReplay, "subscription replays " + someID + " r1", 0, "replay r1 completed estimated 16 matched 16 queued 16 sent 15 failed 1"},
		{"list deliveries", `{"items":[` + aDelivery + `}],"next_cursor":null}`, "delivery list", 0, "ID PUBLISHED d1 2026-01-01T00:00:00Z order.made billing failed 2 503 2026-01-01T00:01:00Z answered 503"},
		{"get a delivery", aDelivery + `,"attempts":[{"started_at":"2026-01-01T00:00:00.5Z","duration_ms":30,"status_code":503,"error":"answered 503","error_class":"http_5xx","response_excerpt":"later\u001b"}]}`,
			"delivery get d1", 0, "delivery d1 event e1 to billing status failed attempts 2 STARTED 2026-01-01T00:00:00.500Z 30 ms 503 http_5xx answered 503 later"},
		{"get a delivery to a target of a route", targetDelivery + `,"attempts":[]}`, "delivery get d1", 0, "to route's target 2 route r1 status dead"},
		{"list deliveries to targets of routes", `{"items":[` + targetDelivery + `}],"next_cursor":null}`, "delivery list", 0, "d1 order.made route's target 2 dead"},
		{"retry deliveries", `{"retried_count":3,"delivery_ids":[]}`, "delivery retry --limit 5", 0, "Retried: 3"},
		{"publish an event", `{"event_id":"e1","deliveries":1}`, "publish a.b --data 1", 0, "Published e1, to 1 subscription eventhook event get e1"},
		{"publish a duplicate", `{"event_id":"e1","deliveries":2,"duplicate":true}`, "publish a.b --data 1 --idempotency-key k", 0, "Not published e1, to 2 subscriptions"},
		{"get an event with its deliveries", `{"id":"e1","event_type":"a.b","status":"delivered","origin":"api","source":null,"received_at":"2026-01-01T00:00:00Z","actions":[],"actions_count":0,"deliveries":[` + aDelivery + `}],"deliveries_count":3}`,
			"event get e1", 0, "origin published through the API Deliveries: TO billing failed 2 503 d1 and 2 more eventhook delivery get"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			startFakeGateway(t, 200, c.answer)
			got := runCommand(strings.Fields(c.command)...)
			if got.Code != c.code || got.Stderr != "" {
				t.Fatalf("got %+v, want exit code %d", got, c.code)
			}
			clitest.WantInOrder(t, got.Stdout, strings.Fields(c.prints)...)
			if strings.Contains(got.Stdout, "\x1b") {
				t.Errorf("got %q, want no control characters", got.Stdout)
			}
		})
	}
}

const targetDelivery = `{"id":"d1","event_id":"e1","event_type":"order.made","subscription_id":null,"subscription_name":null,"route_id":"r1","target_index":1,"status":"dead",
 "attempt_count":2,"retry_count":2,"next_attempt_at":null,"status_code":410,"last_error":"answered 410","created_at":"2026-01-01T00:00:00Z","completed_at":"2026-01-01T00:01:00Z"`

const aDelivery = `{"id":"d1","event_id":"e1","event_type":"order.made","subscription_id":"s1","subscription_name":"billing","status":"failed","attempt_count":2,"retry_count":2,
 "next_attempt_at":"2026-01-01T00:01:00Z","status_code":503,"last_error":"answered 503","created_at":"2026-01-01T00:00:00Z","completed_at":null`

func TestOnlyAGeneratedSecretIsPrinted(t *testing.T) {
	withSecret := clitest.WriteFile(t, "subscription.yaml", "name: b\nurl: https://a.example\nevent_types: ['*']\nsigning_secret: whsec_own\n")
	const rotated = `{"signing_secret":"whsec_own","previous_expires_at":"2026-01-02T00:00:00Z","signing_secrets_count":2}`
	for _, c := range []struct{ claim, answer, command, says string }{
		{"create with a secret of a variable", aSubscription + `,"signing_secret":"whsec_own"}`, "subscription create b --secret-env OWN_SECRET", "verifies events with the given secret.\n"},
		{"create with a secret of a file", aSubscription + `,"signing_secret":"whsec_own"}`, "subscription create -f " + withSecret, "verifies events with the given secret.\n"},
		{"rotate to a given secret", rotated, "subscription rotate-secret " + someID + " --secret-env OWN_SECRET", "The given secret signs now.\nThe previous secret also signs until"},
	} {
		startFakeGateway(t, 200, c.answer)
		t.Setenv("OWN_SECRET", "whsec_own")
		if got := runCommand(strings.Fields(c.command)...); got.Code != 0 || !strings.Contains(got.Stdout, c.says) || strings.Contains(got.Stdout, "whsec_own") {
			t.Errorf("%s: got %+v, want %q and not the secret", c.claim, got, c.says)
		}
		if got := runCommand(append(strings.Fields(c.command), "-o", "json")...); !strings.Contains(got.Stdout, `"signing_secret": "whsec_own"`) {
			t.Errorf("%s: got %+v, want the unchanged answer as JSON", c.claim, got)
		}
	}
}

func TestSubscriptionIsFoundByName(t *testing.T) {
	clitest.ClearEnvironment(t)
	var requests []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/subscriptions") {
			_, _ = io.WriteString(w, `{"items":[{"id":"1","name":"billing"},{"id":"2","name":"twice"},{"id":"3","name":"twice"}],"next_cursor":null}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"1","name":"billing"}`)
	}))
	defer s.Close()
	for name, c := range map[string]struct {
		code int
		says string
	}{"billing": {0, "billing"}, "twice": {ExitFailed, `2 subscriptions have the name "twice"`}, "other": {ExitFailed, `no subscription "other"`}} {
		got := runCommand("subscription", "pause", name, "--tenant", "shop", "--server", s.URL, "--key", testAdminKey)
		if got.Code != c.code || !strings.Contains(got.Stdout+got.Stderr, c.says) {
			t.Errorf("%s: got %+v, want exit code %d and %q", name, got, c.code, c.says)
		}
	}
	if last := strings.Join(requests, "\n"); strings.Count(last, "POST "+inShop+"/subscriptions/1/pause") != 1 || strings.Count(last, "POST") != 1 {
		t.Errorf("got the requests\n%s\nwant one subscription to be paused", last)
	}
}

func TestPublishSendsDataUnchanged(t *testing.T) {
	clitest.ClearEnvironment(t)
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got = string(raw)
		_, _ = io.WriteString(w, `{"event_id":"e1","deliveries":1}`)
	}))
	defer s.Close()
	const data = "{ \"n\" : 1.50,\r\n\"a\":1, \"a\":\"<&>\\u00e9\" }\n"
	file := clitest.WriteFile(t, "data.json", data)
	if out := runCommand("publish", "a.b", "--data", "@"+file, "--tenant", "shop", "--server", s.URL, "--key-of-api", ""); out.Code != ExitUsage {
		t.Errorf("got %+v, want an unknown flag to be refused", out)
	}
	t.Setenv(input.KeyVariable, testAdminKey)
	if out := runCommand("publish", "a.b", "--data", "@"+file, "--tenant", "shop", "--server", s.URL); out.Code != 0 {
		t.Fatalf("got %+v, want success", out)
	}
	if want := `{"event_type":"a.b","data":` + data + `}`; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestUpdateNamesTheFlagsThatANewURLRequires(t *testing.T) {
	const again = "must be given again or be null, because url or target_labels change the destination"
	startFakeGateway(t, 422, `{"title":"Unprocessable Entity","status":422,"detail":"The request is not valid.","errors":[
		{"location":"body.auth_header","message":"`+again+`"},{"location":"body.auth.password","message":"`+again+`"},{"location":"body.headers.X-Env","message":"`+again+`"},{"location":"body.name","message":"is too long"}]}`)
	out := runCommand("subscription", "update", someID, "--url", "https://elsewhere.example")
	if want := "add --auth-header-env VARIABLE --auth @FILE --header 'X-Env: …', or"; out.Code != ExitUsage || !strings.Contains(out.Stderr, want) || !strings.Contains(out.Stderr, "body.name: is too long") {
		t.Errorf("got %+v, want exit code %d and %q", out, ExitUsage, want)
	}
}
