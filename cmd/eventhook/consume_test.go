package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/natstest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// orders is a stream of JetStream that sources consume.
type orders struct {
	*natstest.Server
	js jetstream.JetStream
}

func newOrders(t *testing.T) *orders {
	t.Helper()
	s := natstest.New(t, nil)
	o := &orders{s, s.Connect()}
	if _, err := o.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	// A short wait for acknowledgements, so that the messages of an instance that died come again soon.
	if _, err := o.js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "gateway", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 3 * time.Second}); err != nil {
		t.Fatal(err)
	}
	return o
}

// publish publishes messages with the numbers from first to last.
func (o *orders) publish(t *testing.T, first, last int) {
	t.Helper()
	for n := first; n <= last; n++ {
		if _, err := o.js.Publish(t.Context(), "orders.created", fmt.Appendf(nil, `{"type":"order.created","n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
	}
}

// unsettled returns the number of messages that are not acknowledged.
func (o *orders) unsettled(t *testing.T) int {
	t.Helper()
	c, err := o.js.Consumer(t.Context(), "ORDERS", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	info := c.CachedInfo()
	return info.NumAckPending + int(info.NumPending)
}

func (o *orders) source(slug string, more map[string]any) map[string]any {
	s := map[string]any{"slug": slug, "rate_limit": map[string]any{"requests_per_second": 10000, "requests_per_minute": 600_000, "burst_size": 5000},
		"consume": map[string]any{"type": "nats", "url": o.URL(), "stream": "ORDERS", "consumer": "gateway"}}
	for name, value := range more {
		s[name] = value
	}
	return s
}

func (i *instance) createSource(t *testing.T, source map[string]any) {
	t.Helper()
	var answer json.RawMessage
	if status := i.call(http.MethodPost, "/sources", source, &answer); status != http.StatusCreated {
		t.Fatalf("answered %d %s", status, answer)
	}
}

// consumer returns the state of a source that consumes messages.
func (i *instance) consumer(slug string) (state struct {
	Status   string
	Error    *string
	Instance *string
}) {
	var source struct{ Consumer any }
	source.Consumer = &state
	i.call(http.MethodGet, "/sources/"+slug, nil, &source)
	return state
}

// wantConsumed waits until each of the messages up to n has exactly one event, and is settled.
func wantConsumed(t *testing.T, dsn string, o *orders, n int) {
	t.Helper()
	conn := connect(t, dsn)
	clitest.Eventually(t, fmt.Sprintf("%d messages are consumed", n), func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE event_type = 'order.created' AND status <> 'duplicate'`) >= n && o.unsettled(t) == 0
	})
	if got := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE event_type = 'order.created' AND status <> 'duplicate'`); got != n {
		t.Errorf("%d messages became %d events", n, got)
	}
}

// holdEvents blocks the commits of events until release is called.
func holdEvents(t *testing.T, dsn string) (release func()) {
	t.Helper()
	conn := connect(t, dsn)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE eventhook.event IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitHeld waits until a commit is blocked.
func awaitHeld(t *testing.T, dsn string) {
	t.Helper()
	conn := connect(t, dsn)
	clitest.Eventually(t, "events wait for their commit", func() bool {
		return count(t, conn, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) > 0
	})
}

// An instance dies after it has received messages, before their events are committed: no message is lost.
func TestAGatewayThatDiesBeforeTheCommitLosesNoMessage(t *testing.T) {
	t.Parallel()
	dsn, o := pgtest.New(t), newOrders(t)
	gateway := startDelivering(t, dsn)
	gateway.createSource(t, o.source("orders", nil))
	o.publish(t, 1, 5)
	wantConsumed(t, dsn, o, 5)
	release := holdEvents(t, dsn)
	o.publish(t, 6, 30)
	awaitHeld(t, dsn)
	gateway.kill()
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	release()
	startDelivering(t, dsn)
	wantConsumed(t, dsn, o, 30)
}

// An instance dies after the commit of events, before the broker has the acknowledgements: the messages come again,
// and become duplicates.
func TestAGatewayThatDiesAfterTheCommitStoresNoMessageTwice(t *testing.T) {
	t.Parallel()
	dsn, o := pgtest.New(t), newOrders(t)
	link := newLink(t, strings.TrimPrefix(o.URL(), "nats://"))
	gateway := startDelivering(t, dsn)
	source := o.source("orders", nil)
	source["consume"].(map[string]any)["url"] = "nats://" + link.address
	gateway.createSource(t, source)
	o.publish(t, 1, 5)
	wantConsumed(t, dsn, o, 5)
	release := holdEvents(t, dsn)
	o.publish(t, 6, 6)
	awaitHeld(t, dsn)
	link.isCut.Store(true)
	release()
	conn := connect(t, dsn)
	const of6 = `SELECT count(*) FROM eventhook.event WHERE event_type = 'order.created' AND status `
	clitest.Eventually(t, "the event is committed", func() bool { return count(t, conn, of6+`<> 'duplicate'`) == 6 })
	gateway.kill()
	if o.unsettled(t) != 1 {
		t.Fatalf("%d messages are not settled, want 1", o.unsettled(t))
	}
	link.isCut.Store(false)
	startDelivering(t, dsn)
	wantConsumed(t, dsn, o, 6)
	if n := count(t, conn, of6+`= 'duplicate'`); n != 1 {
		t.Errorf("got %d duplicates, want 1", n)
	}
}

// link is a connection to a server that can be cut in one direction: what clients send gets lost.
type link struct {
	address string
	isCut   atomic.Bool
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &link{address: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go x.send(server, client)
			go func() {
				_, _ = io.Copy(client, server)
				_ = client.Close()
			}()
		}
	}()
	return x
}

// send passes on what a client sends, until the client ends.
func (x *link) send(server, client net.Conn) {
	defer func() { _ = server.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if !x.isCut.Load() {
			_, _ = server.Write(buffer[:n])
		}
	}
}

// Messages whose acknowledgements are lost come again, and become duplicates.
func TestAMessageThatComesAgainIsADuplicate(t *testing.T) {
	t.Parallel()
	dsn, o := pgtest.New(t), newOrders(t)
	gateway := startDelivering(t, dsn)
	gateway.createSource(t, o.source("orders", nil))
	o.publish(t, 1, 5)
	wantConsumed(t, dsn, o, 5)
	// A consumer that is created anew delivers all messages again, as after a crash before the acknowledgement.
	if err := o.js.DeleteConsumer(t.Context(), "ORDERS", "gateway"); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	clitest.Eventually(t, "the messages have come again", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE event_type = 'order.created' AND status = 'duplicate'`) == 5
	})
	wantConsumed(t, dsn, o, 5)
}

func TestConsumptionFollowsTheSourceAndTheDatabase(t *testing.T) {
	t.Parallel()
	server, o := pgtest.NewServer(t), newOrders(t)
	dsn := server.DSN(pgembed.Database)
	gateway := startDelivering(t, dsn)
	gateway.createSource(t, o.source("orders", map[string]any{"max_body_bytes": 100}))
	o.publish(t, 1, 5)
	wantConsumed(t, dsn, o, 5)
	clitest.Eventually(t, "the consumer runs", func() bool {
		state := gateway.consumer("orders")
		return state.Status == "running" && state.Instance != nil
	})

	patch := func(change map[string]any) {
		t.Helper()
		if status := gateway.call(http.MethodPatch, "/sources/orders", change, nil); status != http.StatusOK {
			t.Fatalf("answered %d", status)
		}
	}
	patch(map[string]any{"is_enabled": false})
	clitest.Eventually(t, "the consumer has stopped", func() bool { return gateway.consumer("orders").Status == "stopped" })
	o.publish(t, 6, 8)
	patch(map[string]any{"is_enabled": true})
	wantConsumed(t, dsn, o, 8)

	if _, err := o.js.Publish(t.Context(), "orders.created", []byte(strings.Repeat("x", 200))); err != nil { // a poison message
		t.Fatal(err)
	}
	o.publish(t, 9, 10)
	wantConsumed(t, dsn, o, 10)
	var refused struct {
		Items []struct{ Reason, Method string }
	}
	gateway.call(http.MethodGet, "/sources/orders/rejections", nil, &refused)
	if len(refused.Items) != 1 || refused.Items[0].Reason != "too_large" || refused.Items[0].Method != "MESSAGE" {
		t.Errorf("got the rejections %+v", refused.Items)
	}

	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.publish(t, 11, 13)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantConsumed(t, dsn, o, 13)
}

func TestTheStateTellsWhyABrokerCannotBeUsed(t *testing.T) {
	t.Parallel()
	dsn, o := pgtest.New(t), newOrders(t)
	gateway := startDelivering(t, dsn)
	lost := o.source("lost", nil)
	lost["consume"].(map[string]any)["stream"] = "NOWHERE"
	gateway.createSource(t, lost)
	clitest.Eventually(t, "the stream does not exist", func() bool {
		state := gateway.consumer("lost")
		return state.Status == "failed" && state.Error != nil && strings.Contains(*state.Error, "the stream does not exist")
	})
	guarded := startInstance(t, pgtest.New(t)) // whose address policy does not allow this host
	guarded.createSource(t, o.source("private", nil))
	clitest.Eventually(t, "the address is not allowed", func() bool {
		state := guarded.consumer("private")
		return state.Status == "failed" && state.Error != nil && strings.Contains(*state.Error, "is not public")
	})
}

// Two instances share the sources, and the other one takes over when one dies.
func TestAnotherInstanceConsumesAfterADeath(t *testing.T) {
	t.Parallel()
	dsn, o := pgtest.New(t), newOrders(t)
	first := startDelivering(t, dsn)
	first.createSource(t, o.source("orders", nil))
	o.publish(t, 1, 3)
	wantConsumed(t, dsn, o, 3)
	second := startDelivering(t, dsn)
	first.kill()
	o.publish(t, 4, 6)
	wantConsumed(t, dsn, o, 6)
	clitest.Eventually(t, "the consumer runs", func() bool { return second.consumer("orders").Status == "running" })
}
