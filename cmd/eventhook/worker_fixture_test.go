package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const workerTenants = `
tenants:
  - slug: acme
    sources:
      - slug: shop
        verifier: {type: none}
        routes:
          - name: invoices
            filter_event_types: [invoice.drawn]
            transform: {type: jmespath, expression: invoice}
            targets: [{type: task, task_kind: send-invoice}]
          - {name: orders, filter_event_types: [order.placed], targets: [{type: workflow, workflow_kind: collect}]}
          - name: payments
            filter_event_types: [order.paid]
            targets: [{type: promise, idempotency_key_path: body.order, idempotency_key_prefix: "order:", value_path: body.amount}]
`

// workerFixture is a gateway with the tenant of workerTenants, an API key for its
// workers, and a mailer to which the workers send invoices.
type workerFixture struct {
	*instance
	db     *pgx.Conn
	key    string
	mailer *httptest.Server
	mails  chan mail // the mailer answers each mail when the test does
}

type mail struct {
	key, customer string
	answer        chan<- int // a status
}

func newWorkerFixture(t *testing.T) *workerFixture {
	t.Helper()
	dsn := pgtest.New(t)
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, []byte(workerTenants), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &workerFixture{mails: make(chan mail), instance: startCommand(t, []string{"DATABASE_URL=" + dsn, "EVENTHOOK_ADMIN_KEY=" + testAdminKey,
		"EVENTHOOK_ENCRYPTION_KEYS=" + testEncryptionKey}, "serve", "--apply", file)}
	o.db = connect(t, dsn)
	status, created := o.as(testAdminKey, engineer, "POST", "/api/admin/tenants/acme/keys", `{"name":"worker","scopes":["work"]}`)
	var answer struct{ Key string }
	if err := json.Unmarshal([]byte(created), &answer); err != nil || status != http.StatusCreated {
		t.Fatalf("the creation of a key answered %d %s", status, created)
	}
	o.key = answer.Key
	o.mailer = httptest.NewServer(http.HandlerFunc(o.send))
	t.Cleanup(o.mailer.Close)
	return o
}

func (o *workerFixture) tenantURL() string { return o.url + "/api/tenants/acme/eventhook" }

// send is the handler of the mailer. Each request waits until the test answers it.
func (o *workerFixture) send(w http.ResponseWriter, r *http.Request) {
	var invoice struct{ Customer string }
	if err := json.NewDecoder(r.Body).Decode(&invoice); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer := make(chan int, 1)
	select {
	case o.mails <- mail{r.Header.Get("Idempotency-Key"), invoice.Customer, answer}:
	case <-r.Context().Done():
		return
	}
	select {
	case status := <-answer:
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"mail_id":"m1"}`)
	case <-r.Context().Done():
	}
}

// webhook sends a webhook to the source shop and returns the id of its event.
func (o *workerFixture) webhook(body string) (event string) {
	o.t.Helper()
	resp, err := testClient.Post(o.tenantURL()+"/in/shop", "application/json", strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer send.Answer
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "accepted" {
		o.t.Fatalf("the shop answered %d %+v (%v), want it accepted", resp.StatusCode, answer, err)
	}
	return answer.EventID
}

// execution is the execution that an event created.
type execution struct {
	ID, Status, Output, Error string
	LeaseEnds                 *time.Time
}

func (o *workerFixture) work(event string) (w execution) {
	o.t.Helper()
	const read = `SELECT id::text, status, coalesce(output::text, ''), coalesce(error, ''), due_at FROM eventhook.execution WHERE event_id = $1`
	err := o.db.QueryRow(o.t.Context(), read, event).Scan(&w.ID, &w.Status, &w.Output, &w.Error, &w.LeaseEnds)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		o.t.Fatal(err)
	}
	return w
}

// ends waits until the execution of an event has a status.
func (o *workerFixture) ends(event, status string) (w execution) {
	o.t.Helper()
	defer func() {
		if o.t.Failed() {
			o.t.Logf("the work of %s is %+v", event, w)
		}
	}()
	clitest.Eventually(o.t, "the work is "+status, func() bool {
		w = o.work(event)
		return w.Status == status
	})
	return w
}
