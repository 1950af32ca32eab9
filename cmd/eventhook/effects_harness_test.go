package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// targetFixture is a gateway whose only route has a target of each type: a task, a
// published event with a subscriber, and an http request to a receiver.
type targetFixture struct {
	*instance
	t                    *testing.T
	dsn                  string
	env                  []string
	receiver, subscriber *subscriber
	subscription         string // id
}

// quickTarget is a retry policy of many retries with short delays.
const quickTarget = "retry: {max_retries: 25, initial_delay_ms: 100, backoff_multiplier: 1, max_delay_ms: 1000}"

func startTargetFixture(t *testing.T, dsn string, env ...string) *targetFixture {
	t.Helper()
	k := &targetFixture{t: t, dsn: dsn, env: env, receiver: newSubscriber(t), subscriber: newSubscriber(t)}
	k.restart()
	k.subscription, _ = k.subscribe(k.subscriber.url, "pushed", `"timeout_seconds":2,"max_in_flight":50,`+quickRetry)
	return k
}

// restart starts another gateway on the same database.
func (k *targetFixture) restart() {
	k.t.Helper()
	k.instance = startCalling(k.t, k.dsn, "{type: task, task_kind: build}, {type: publish, event_type: pushed}, {type: http, url: '"+k.receiver.url+
		"', timeout_seconds: 2, "+quickTarget+"}", k.env...)
}

// wantUnderWay waits until both receivers have many events, then lets their requests
// hang, and waits until the gateway has leased deliveries that hang.
func (k *targetFixture) wantUnderWay(load *flood) {
	k.t.Helper()
	clitest.Eventually(k.t, "load is delivered", func() bool {
		return load.count(http.StatusOK) >= enough && k.receiver.count(eventsOf) >= enough && k.subscriber.count(eventsOf) >= enough
	})
	if k.planned() == 0 {
		k.t.Error("no event was planned before its commit, want most of them")
	}
	k.hang()
	before := load.count(http.StatusOK)
	clitest.Eventually(k.t, "more events are accepted", func() bool { return load.count(http.StatusOK) >= before+enough })
}

// hang makes both receivers hang until end is called.
func (k *targetFixture) hang() (end func()) {
	held := make(hang)
	k.receiver.setHandler(held.ServeHTTP)
	k.subscriber.setHandler(held.ServeHTTP)
	return func() {
		k.receiver.setHandler(nil)
		k.subscriber.setHandler(nil)
		close(held)
	}
}

// wantAllOnce waits until no delivery is open. It fails the test unless every stored
// event, answered or not, created one task, one published event and one request, and
// both receivers got their requests with unchanged ids.
func (k *targetFixture) wantAllOnce(answered []string) {
	t := k.t
	t.Helper()
	wantEachProcessedOnce(t, k.dsn, answered)
	conn := connect(t, k.dsn)
	clitest.Eventually(t, "no delivery is open", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status NOT IN ('success', 'dead')`) == 0
	})
	stored := texts(t, conn, `SELECT id::text FROM eventhook.event WHERE origin = 'source' AND status = 'delivered'`)
	published := texts(t, conn, `SELECT id::text FROM eventhook.event WHERE origin = 'route'`)
	for claim, sql := range map[string]string{
		"tasks":            `SELECT event_id::text FROM eventhook.execution`,
		"published events": `SELECT correlation_id FROM eventhook.event WHERE origin = 'route'`,
		"requests":         `SELECT event_id::text FROM eventhook.delivery WHERE route_id IS NOT NULL AND status = 'success'`,
	} {
		wantSame(t, claim+", by the event that created them", texts(t, conn, sql), stored)
	}
	wantSame(t, "deliveries, by their event", texts(t, conn, `SELECT event_id::text FROM eventhook.delivery WHERE route_id IS NULL AND status = 'success'`), published)
	k.receiver.wantAll(t, stored)
	k.subscriber.wantAll(t, published)
	for name, s := range map[string]*subscriber{"receiver": k.receiver, "subscriber": k.subscriber} {
		if events, deliveries := s.count(eventsOf), s.count(deliveriesOf); events != deliveries {
			t.Errorf("the %s got %d events with %d delivery ids, want one id per event", name, events, deliveries)
		}
	}
	if events, keys := k.receiver.count(eventsOf), k.receiver.count(keysOf); events != keys {
		t.Errorf("the receiver got %d events with %d keys, want one key per event", events, keys)
	}
}

// texts reads a column of text.
func texts(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantSame fails the test unless two lists have the same elements, in any order.
func wantSame(t *testing.T, claim string, got, want []string) {
	t.Helper()
	difference := map[string]int{}
	for _, text := range got {
		difference[text]++
	}
	for _, text := range want {
		difference[text]--
	}
	more, less := 0, 0
	for _, n := range difference {
		more, less = more+max(n, 0), less+max(-n, 0)
	}
	if more > 0 || less > 0 {
		t.Errorf("%s: got %d, want %d; %d are too many and %d are missing", claim, len(got), len(want), more, less)
	}
}

// pushAtOnce sends pushes while a lock blocks the accept path, and releases the lock
// when the gateway has received all of them, so that they share few batches. It returns
// the accepted events and the number of duplicates.
func (i *instance) pushAtOnce(t *testing.T, dsn string, ids []string) (accepted []string, duplicates int) {
	t.Helper()
	tx, err := connect(t, dsn).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE eventhook.idempotency_key`); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var senders sync.WaitGroup
	for _, id := range ids {
		senders.Go(func() {
			status, answer, err := i.push(context.WithoutCancel(t.Context()), id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || status != http.StatusOK:
				t.Errorf("the push %s was answered %d, %v; want 200", id, status, err)
			case answer.Status == "accepted":
				accepted = append(accepted, answer.EventID)
			default:
				duplicates++
			}
		})
	}
	clitest.Eventually(t, "the gateway has all pushes", func() bool { return i.waiting() == len(ids) })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	senders.Wait()
	return accepted, duplicates
}

// pushIDs returns n ids of pushes.
func pushIDs(name string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(name, " ", i))
	}
	return ids
}
