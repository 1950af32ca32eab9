package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/worker"
)

// The test runs the programs of docs/workers.md and the Go package worker against a
// gateway.
func TestWorkerProgramsOfTheDocs(t *testing.T) {
	for _, c := range []struct {
		language string
		start    func(*testing.T, *workerFixture) program
	}{
		{"python", func(t *testing.T, o *workerFixture) program {
			return startProgram(t, o, "python", "worker.py", "python3", "-c", "import json")
		}},
		{"js", func(t *testing.T, o *workerFixture) program {
			return startProgram(t, o, "js", "worker.mjs", "node", "-e", "fetch.name")
		}},
		{"go", startGoWorker},
	} {
		t.Run(c.language, func(t *testing.T) {
			o := newWorkerFixture(t)
			p := c.start(t, o)

			event := o.webhook(`{"type":"invoice.drawn","invoice":{"id":"in_1","customer":"Ada"}}`)
			first := o.mailed(p)
			lease := o.work(event).LeaseEnds
			clitest.Eventually(t, "the lease is extended", func() bool { return o.work(event).LeaseEnds.After(*lease) })
			first.answer <- http.StatusServiceUnavailable
			failed := o.ends(event, "failed")
			if !strings.Contains(failed.Error, "503") || first.key != failed.ID || first.customer != "Ada" {
				t.Errorf("%q was mailed to %q with the key %q; want a 503, Ada, and the job's id %s", failed.Error, first.customer, first.key, failed.ID)
			}

			if status := o.call("POST", "/work/"+failed.ID+"/retry", nil, nil); status != http.StatusOK {
				t.Fatalf("the retry was answered %d", status)
			}
			second := o.mailed(p)
			second.answer <- http.StatusOK
			if done := o.ends(event, "completed"); done.Output != `{"mail_id":"m1"}` && done.Output != `{"mail_id": "m1"}` || second.key != first.key {
				t.Errorf("the execution completed with %s and the key %q, want the mail id and the same key", done.Output, second.key)
			}

			dead := o.ends(o.webhook(`{"type":"invoice.drawn","invoice":{"id":"in_2"}}`), "dead")
			if dead.Error != "the invoice has no customer" {
				t.Errorf("the execution is dead with the error %q", dead.Error)
			}

			last := o.webhook(`{"type":"invoice.drawn","invoice":{"id":"in_3","customer":"Bob"}}`)
			running := o.mailed(p)
			p.stop()
			running.answer <- http.StatusOK
			<-p.ended
			if ending := p.ending(); ending != "" {
				t.Errorf("the stopped worker did not end cleanly: %s", ending)
			}
			if w := o.work(last); w.Status != "completed" {
				t.Errorf("the work that ran at the stop is %s, want completed", w.Status)
			}
		})
	}
}

// startGoWorker starts a worker that does the same as the programs of docs/workers.md.
func startGoWorker(t *testing.T, o *workerFixture) program {
	type invoice struct {
		Customer string `json:"customer"`
	}
	send := func(ctx context.Context, job *worker.Job, in invoice) error {
		if in.Customer == "" {
			return worker.Permanent(fmt.Errorf("the invoice has no customer"))
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.mailer.URL, bytes.NewReader(job.Input))
		if err != nil {
			return err
		}
		r.Header.Set("Idempotency-Key", job.ID)
		resp, err := testClient.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the mailer answered %s", resp.Status)
		}
		return json.NewDecoder(resp.Body).Decode(&job.Output)
	}
	return startWorker(t, worker.New(o.tenantURL(), o.key, worker.WithLease(3*time.Second)).Handle("send-invoice", worker.Typed(send)))
}

// A workflow is suspended without occupying a worker, and continues with the value of
// the webhook, even if the webhook arrived first.
func TestGoWorkflowAwaitsAWebhook(t *testing.T) {
	o := newWorkerFixture(t)
	type order struct {
		Order string `json:"order"`
	}
	collect := func(ctx context.Context, job *worker.Job, in order) error {
		paid, err := job.MakePromise(ctx, "order:"+in.Order, time.Hour)
		if err != nil {
			return err
		}
		if paid.Status == worker.Pending {
			return job.Suspend(map[string]int{"asked": job.Attempt}, paid)
		}
		var amount int
		if err := paid.Read(&amount); err != nil {
			return worker.Permanent(err)
		}
		var state struct{ Asked int }
		if err := job.ReadState(&state); err != nil {
			return err
		}
		job.Output = []int{amount, state.Asked, job.Attempt, len(job.Promises)}
		return nil
	}
	p := startWorker(t, worker.New(o.tenantURL(), o.key).Handle("collect", worker.Typed(collect)))
	late := o.webhook(`{"type":"order.placed","order":"7"}`)
	o.ends(late, "suspended")
	o.webhook(`{"type":"order.paid","order":"7","amount":4200}`)
	if w := o.ends(late, "completed"); strings.ReplaceAll(w.Output, " ", "") != "[4200,1,1,1]" {
		t.Errorf("the workflow that was suspended ended with %s", w.Output)
	}
	o.webhook(`{"type":"order.paid","order":"8","amount":10}`)
	clitest.Eventually(t, "the payment is stored", func() bool {
		return count(t, o.db, `SELECT count(*) FROM eventhook.promise WHERE is_held`) == 1
	})
	early := o.webhook(`{"type":"order.placed","order":"8"}`)
	if w := o.ends(early, "completed"); strings.ReplaceAll(w.Output, " ", "") != "[10,0,1,0]" {
		t.Errorf("the workflow whose payment came first ended with %s", w.Output)
	}
	p.stop()
	<-p.ended
	if ending := p.ending(); ending != "" {
		t.Errorf("the worker did not end cleanly: %s", ending)
	}
}

func TestGoWorkerReportsWhyItsKeyIsRefused(t *testing.T) {
	o := newWorkerFixture(t)
	_, reads := o.as(testAdminKey, engineer, "POST", "/api/admin/tenants/acme/keys", `{"name":"reader","scopes":["read"]}`)
	var reader struct{ Key string }
	if err := json.Unmarshal([]byte(reads), &reader); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ claim, url, key, want string }{
		{"an invalid key", o.tenantURL(), "ehk_none", "the key is not valid: 401"},
		{"a key without the scope", o.tenantURL(), reader.Key, "the key lacks the scope work: 403"},
		{"another tenant", o.url + "/api/tenants/other/eventhook", o.key, "the key has no access to the tenant, or the tenant does not exist: 404"},
	} {
		err := worker.New(c.url, c.key).Handle("send-invoice", func(context.Context, *worker.Job) error { return nil }).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: Run returned %v, want %q and no key", c.claim, err, c.want)
		}
	}
}
