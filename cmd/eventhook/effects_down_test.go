package main

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// While a target is down, with requests that hang and then fail, the other targets of
// its events and other events do not wait. When it recovers, it gets every event once.
func TestUnavailableTargetDelaysNoOtherEffect(t *testing.T) {
	t.Parallel()
	const events, queued = 400, 200
	k := startTargetFixture(t, pgtest.New(t), "EVENTHOOK_OUTBOUND_DISPATCH_SENDS_AT_ONCE=12", "EVENTHOOK_OUTBOUND_DISPATCH_QUEUE_DELIVERIES=200")
	conn := connect(t, k.dsn)
	held := make(hang)
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	k.receiver.setHandler(func(w http.ResponseWriter, r *http.Request) {
		held.ServeHTTP(w, r)
		fails(w, r)
	})
	var pushed []string
	wantRest := func(when string) {
		t.Helper()
		for range events {
			pushed = append(pushed, k.mustPush(when+rand.Text()))
		}
		clitest.Eventually(t, "tasks are there "+when, func() bool {
			return count(t, conn, `SELECT count(*) FROM eventhook.execution`) == len(pushed)
		})
		clitest.Eventually(t, "the subscriber has all events "+when, func() bool { return k.subscriber.count(eventsOf) == len(pushed) })
		if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE status = 'processing' AND due_at IS NULL`); n != len(pushed) {
			t.Errorf("%s: %d events wait for their request, want all %d", when, n, len(pushed))
		}
		if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'acquired'`); n > queued {
			t.Errorf("%s: %d deliveries are leased, want at most %d, the size of the queue in memory", when, n, queued)
		}
	}
	wantRest("while it hangs")
	k.receiver.setHandler(fails)
	came := k.receiver.count(requestsOf)
	close(held)
	wantRest("while it fails")
	clitest.Eventually(t, "the request is retried", func() bool { return k.receiver.count(requestsOf) > came })
	if n := k.receiver.count(requestsOf); n > len(pushed)/2 {
		t.Errorf("%d requests came while it was down, want few, because the circuit breaker opens", n)
	}
	k.receiver.setHandler(nil)
	k.wantAllOnce(pushed)
	if k.planned() == 0 {
		t.Error("no event was planned before its commit, want most of them")
	}
}

// An event is dead if its request used up its retries. A retry of the delivery reopens
// the event, which then ends with the status of its request.
func TestRetryOfADeadRequestReopensItsEvent(t *testing.T) {
	t.Parallel()
	dsn, receiver := pgtest.New(t), newSubscriber(t)
	gateway := startCalling(t, dsn, "{type: task, task_kind: build}, {type: http, url: '"+receiver.url+
		"', retry: {max_retries: 2, initial_delay_ms: 100, backoff_multiplier: 1, max_delay_ms: 1000}}")
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	receiver.setHandler(fails)
	event := gateway.mustPush("1")
	read := func() (e struct {
		Status    string
		LastError string `json:"last_error"`
		Actions   []struct {
			Status   string
			Attempts int
		}
	}) {
		t.Helper()
		if status := gateway.call(http.MethodGet, "/events/"+event, nil, &e); status != http.StatusOK {
			t.Fatalf("reading the event was answered %d, want 200", status)
		}
		return e
	}
	clitest.Eventually(t, "the event is dead", func() bool { return read().Status == "dead" })
	if e := read(); len(e.Actions) != 2 || e.Actions[0].Status != "success" || e.Actions[1].Status != "failed" || e.Actions[1].Attempts != 3 || !strings.HasPrefix(e.LastError, "target 2: ") {
		t.Errorf("got %+v, want a created task, and a request that failed three times", e)
	}
	d := gateway.deliveryOf(event)
	retry := func() {
		t.Helper()
		if status := gateway.call(http.MethodPost, "/deliveries/"+d.ID+"/retry", struct{}{}, nil); status != http.StatusOK {
			t.Fatalf("the retry was answered %d, want 200", status)
		}
	}
	came := receiver.count(requestsOf)
	retry()
	clitest.Eventually(t, "the request is retried", func() bool { return receiver.count(requestsOf) > came })
	clitest.Eventually(t, "the event is dead again", func() bool { return read().Status == "dead" })
	receiver.setHandler(nil)
	retry()
	clitest.Eventually(t, "the event is delivered", func() bool { return read().Status == "delivered" })
	if e := read(); e.LastError != "" || e.Actions[1].Status != "success" {
		t.Errorf("got %+v, want no error", e)
	}
	if n := count(t, connect(t, dsn), `SELECT count(*) FROM eventhook.execution`); n != 1 {
		t.Errorf("%d tasks were created, want 1", n)
	}
	if deliveries, keys := receiver.count(deliveriesOf), receiver.count(keysOf); deliveries != 1 || keys != 1 {
		t.Errorf("requests came with %d ids and %d keys, want one each", deliveries, keys)
	}
}

// Half of the targets are tasks and half are http requests.
func TestRouteWithFiftyTargets(t *testing.T) {
	t.Parallel()
	const half = 25
	dsn, receiver := pgtest.New(t), newSubscriber(t)
	gateway := startCalling(t, dsn, strings.Repeat("{type: task, task_kind: build}, ", half)+strings.Repeat("{type: http, url: '"+receiver.url+"'}, ", half))
	var events []string
	clitest.Eventually(t, "an event is planned before its commit", func() bool {
		before := gateway.planned()
		events = append(events, gateway.mustPush(rand.Text()))
		return gateway.planned() > before
	})
	conn := connect(t, dsn)
	clitest.Eventually(t, "all events are delivered", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE origin = 'source' AND status = 'delivered'`) == len(events)
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.execution`); n != half*len(events) {
		t.Errorf("%d tasks were created, want %d", n, half*len(events))
	}
	if keys, again := receiver.count(keysOf), receiver.count(repeatedOf); keys != half*len(events) || again > 0 {
		t.Errorf("requests came with %d keys, and %d of them twice; want %d and none", keys, again, half*len(events))
	}
	for _, event := range events {
		var story struct {
			ActionsCount int `json:"actions_count"`
			Actions      []struct{ Status string }
		}
		if status := gateway.call(http.MethodGet, "/events/"+event, nil, &story); status != http.StatusOK || story.ActionsCount != 2*half {
			t.Errorf("reading the event was answered %d with %d actions, want %d", status, story.ActionsCount, 2*half)
		}
		for n, a := range story.Actions {
			if a.Status != "success" {
				t.Errorf("action %d is %s, want success", n, a.Status)
			}
		}
	}
}
