package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// called is a request that a fakeReceiver got.
type called struct {
	header http.Header
	body   string
}

// fakeReceiver is a receiver of http targets. It reports each request and answers it
// when the test tells it to, or when the client closes the connection.
type fakeReceiver struct {
	url    string
	asked  chan called
	answer chan int
}

func newFakeReceiver(t *testing.T) *fakeReceiver {
	p := &fakeReceiver{asked: make(chan called, 100), answer: make(chan int)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.asked <- called{r.Header, string(body)}
		select {
		case status := <-p.answer:
			w.WriteHeader(status)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// startCalling starts a gateway whose only route has these targets. It may send to
// this host. env is appended to the environment.
func startCalling(t *testing.T, dsn, targets string, env ...string) *instance {
	t.Helper()
	tenants := strings.Replace(testTenants, "targets: [{type: task, task_kind: build}]", "targets: ["+targets+"]", 1)
	return startCommand(t, append([]string{"DATABASE_URL=" + dsn, "EVENTHOOK_ADMIN_KEY=" + testAdminKey, "EVENTHOOK_ENCRYPTION_KEYS=" + testEncryptionKey,
		"EVENTHOOK_LEASE_SECONDS=2", "EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8"}, env...), "serve", "--apply", clitest.WriteFile(t, "tenants.yaml", tenants))
}

func (i *instance) mustPush(id string) (event string) {
	i.t.Helper()
	status, answer, err := i.push(i.t.Context(), id)
	if err != nil || status != http.StatusOK {
		i.t.Fatalf("the push was answered %d, %v", status, err)
	}
	return answer.EventID
}

// The other effects of an event are stored while the request of its http target is
// unanswered, and the request is sent once.
func TestRequestOfATargetDelaysNoOtherEffect(t *testing.T) {
	t.Parallel()
	p, dsn := newFakeReceiver(t), pgtest.New(t)
	gateway := startCalling(t, dsn, "{type: task, task_kind: build}, {type: http, url: '"+p.url+"', timeout_seconds: 60}, {type: publish, event_type: pushed}")
	event := gateway.mustPush("1")
	got := <-p.asked
	if got.header.Get("X-Eventhook-Event-Id") != event || !strings.HasPrefix(got.header.Get("Idempotency-Key"), event+"/") {
		t.Errorf("the receiver got %v, want the event's id and key", got.header)
	}
	conn := connect(t, dsn)
	wantMade := func(when string) {
		t.Helper()
		tasks := count(t, conn, `SELECT count(*) FROM eventhook.execution`)
		published := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE origin = 'route' AND event_type = 'pushed' AND correlation_id = $1`, event)
		if tasks != 1 || published != 1 {
			t.Errorf("%s: got %d tasks and %d published events, want one of each", when, tasks, published)
		}
	}
	wantMade("while the request is unanswered")
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE status = 'processing' AND due_at IS NULL`); n != 1 {
		t.Errorf("while the request is unanswered: %d events wait for their requests, want 1", n)
	}
	p.answer <- http.StatusNoContent
	clitest.Eventually(t, "the event is delivered", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = $1 AND status = 'delivered'`, event) == 1
	})
	var story struct {
		Actions []struct {
			TargetType string `json:"target_type"`
			Status     string
			Attempts   int
		}
	}
	if status := gateway.call(http.MethodGet, "/events/"+event, nil, &story); status != http.StatusOK || len(story.Actions) != 3 {
		t.Errorf("reading the event was answered %d with %d actions, want three", status, len(story.Actions))
	}
	for _, a := range story.Actions {
		if a.Status != "success" || a.Attempts != 1 {
			t.Errorf("the action %s is %s after %d attempts, want success after one", a.TargetType, a.Status, a.Attempts)
		}
	}
	wantMade("in the end")
	if len(p.asked) > 0 {
		t.Errorf("%d more calls, want none", len(p.asked))
	}
}

// An http target passes the exact body and headers, so its receiver can verify the
// signature of the provider.
func TestHTTPTargetPassesTheSignatureOfTheProvider(t *testing.T) {
	t.Parallel()
	p := newFakeReceiver(t)
	gateway := startCalling(t, pgtest.New(t), "{type: http, url: '"+p.url+"', body: raw}")
	event := gateway.mustPush("1")
	got := <-p.asked
	p.answer <- http.StatusOK
	mac := hmac.New(sha256.New, []byte(testSecret))
	mac.Write([]byte(got.body))
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); got.header.Get("X-Hub-Signature-256") != want {
		t.Errorf("got the signature %q, want %q over the received body", got.header.Get("X-Hub-Signature-256"), want)
	}
	if got.body != gateway.payload(event) {
		t.Errorf("got the body %s, want %s", got.body, gateway.payload(event))
	}
}

// If a gateway dies during the request of an http target, another instance repeats
// the request with the same key and body, and no other effect.
func TestRequestOfAKilledGatewayIsRepeated(t *testing.T) {
	t.Parallel()
	p, dsn := newFakeReceiver(t), pgtest.New(t)
	targets := "{type: task, task_kind: build}, {type: http, url: '" + p.url + "', timeout_seconds: 1}"
	dying := startCalling(t, dsn, targets)
	event := dying.mustPush("1")
	first := <-p.asked
	dying.kill()
	startCalling(t, dsn, targets)
	second := <-p.asked
	p.answer <- http.StatusOK
	if key := first.header.Get("Idempotency-Key"); key == "" || second.header.Get("Idempotency-Key") != key || second.body != first.body {
		t.Errorf("got %v %s after %v %s, want the same key and body", second.header, second.body, first.header, first.body)
	}
	conn := connect(t, dsn)
	clitest.Eventually(t, "the event is delivered", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = $1 AND status = 'delivered'`, event) == 1
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.execution`); n != 1 {
		t.Errorf("got %d tasks, want only the task of the first attempt", n)
	}
}

// A route may have a target that the configuration does not allow. A test of the
// route reports this with the text of the event's last error.
func TestRouteTestReportsAForbiddenTarget(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	if status := gateway.call(http.MethodPatch, "/sources/github", map[string]any{"retry": map[string]any{"max_retries": 0}}, nil); status != http.StatusOK {
		t.Fatalf("changing the source was answered %d, want 200", status)
	}
	const why = "would fail: target 1: the address of 127.0.0.1:1 is not public; outbound.allowed_cidrs"
	for _, step := range []struct{ command, prints string }{
		{"route create inside --source github --http http://127.0.0.1:1/", "http://127.0.0.1:1/"},
		{"send github --secret " + testSecret + " --id one", "accepted"},
		{"event get latest --wait", "dead target 1: the address of 127.0.0.1:1 is not public; outbound.allowed_cidrs http failed 1 " + why},
		{"route test inside --event latest", why},
		{"source test github --event latest", why},
		{"route backtest inside --source github", "fail 1 " + why},
		{"route backtest --source github --http http://internal.example/", "fail 0"},
	} {
		got := runCommand(strings.Fields(step.command)...)
		if got.Code != 0 {
			t.Fatalf("eventhook %s: got %+v", step.command, got)
		}
		t.Log("eventhook", step.command)
		clitest.WantInOrder(t, got.Stdout, strings.Fields(step.prints)...)
	}
}
