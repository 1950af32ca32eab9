package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// many is the number of deliveries of a queue in these tests.
const many = 1000

// deliveryView is a delivery as the API returns it.
type deliveryView struct {
	ID         string
	Status     string
	LastError  *string `json:"last_error"`
	StatusCode *int    `json:"status_code"`
	Attempts   []struct {
		DurationMS      int     `json:"duration_ms"`
		StatusCode      *int    `json:"status_code"`
		Error           *string `json:"error"`
		ErrorClass      *string `json:"error_class"`
		ResponseExcerpt *string `json:"response_excerpt"`
	}
}

// deliveryOf waits until the only delivery of an event ends and returns it.
func (i *instance) deliveryOf(event string) (d deliveryView) {
	i.t.Helper()
	clitest.Eventually(i.t, "the delivery is done", func() bool {
		var list struct{ Items []deliveryView }
		if status := i.call(http.MethodGet, "/deliveries?event_id="+event, nil, &list); status != http.StatusOK || len(list.Items) != 1 {
			i.t.Fatalf("listing the event's deliveries was answered %d with %d items, want one", status, len(list.Items))
		}
		d = list.Items[0]
		return d.Status == "success" || d.Status == "dead"
	})
	if status := i.call(http.MethodGet, "/deliveries/"+d.ID, nil, &d); status != http.StatusOK {
		i.t.Fatalf("reading the delivery was answered %d", status)
	}
	return d
}

// rawReceiver starts a server that calls answer for each connection.
func rawReceiver(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// readRequest reads a whole request. The client could ignore an answer that is sent
// earlier.
func readRequest(conn net.Conn) error {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err
}

// trickle reads a request and then writes one byte at a time until the client closes
// the connection.
func trickle(begin string) func(net.Conn) {
	return func(conn net.Conn) {
		err := readRequest(conn)
		if err == nil {
			_, err = io.WriteString(conn, begin)
		}
		for err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, gone := conn.Read(make([]byte, 1)); !errors.Is(gone, os.ErrDeadlineExceeded) {
				return // the client closed the connection
			}
			_, err = io.WriteString(conn, "a")
		}
	}
}

// Receivers fail in different ways. Each attempt has the error of its receiver.
func TestFaultsOfReceiversAreRecorded(t *testing.T) {
	t.Parallel()
	gateway := startDelivering(t, pgtest.New(t))
	healthy := newSubscriber(t)
	gateway.subscribe(healthy.url, "healthy", "")
	closed := rawReceiver(t, func(net.Conn) {})
	breaking := rawReceiver(t, func(c net.Conn) {
		if readRequest(c) == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
		}
	})
	down := "http://" + clitest.FreeAddress(t)
	elsewhere := newSubscriber(t)
	redirecting := newSubscriber(t)
	redirecting.setHandler(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.url, http.StatusTemporaryRedirect)
	})
	metadata := newSubscriber(t)
	metadata.setHandler(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	slow := newSubscriber(t)
	slow.setHandler(hang(make(chan struct{})).ServeHTTP)
	var written atomic.Int64
	flooding := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			const mega, megas = 1 << 20, 100
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			for range megas {
				n, err := w.Write(make([]byte, mega))
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
	}
	large, largeFailing := newSubscriber(t), newSubscriber(t)
	large.setHandler(flooding(200))
	largeFailing.setHandler(flooding(500))
	untrusted := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(untrusted.Close)
	for n, c := range []struct {
		claim, url string
		class      string // "" if the event is delivered
		status     int    // 0 without an answer
	}{
		{"no server", down, "connect", 0},
		{"no answer in time", slow.url, "timeout", 0},
		{"headers that trickle in", rawReceiver(t, trickle("HTTP/1.1 200 OK\r\nX-Odd: ")), "timeout", 0},
		{"a body that trickles in after a success", rawReceiver(t, trickle("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")), "", 200},
		{"an answer of 100 MB", large.url, "", 200},
		{"a failure of 100 MB", largeFailing.url, "http_5xx", 500},
		{"closed at once", closed, "closed", 0},
		{"closed within the headers", breaking, "closed", 0},
		{"a redirect", redirecting.url, "http", 307},
		{"a redirect to the metadata of a cloud", metadata.url, "http", 302},
		{"an untrusted certificate", untrusted.URL, "tls", 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			eventType := fmt.Sprintf("fault.n%d", n)
			gateway.t = t
			gateway.subscribe(c.url, eventType, `"timeout_seconds":1,"disable_after_failures":0,"retry":{"max_retries":1,"initial_delay_ms":100,"max_delay_ms":1000}`)
			d := gateway.deliveryOf(gateway.mustPublish(eventType, 1)[0])
			want, attempts := "dead", 2
			if c.class == "" {
				want, attempts = "success", 1
			}
			if d.Status != want || len(d.Attempts) != attempts {
				t.Errorf("got %s after %d attempts, want %s after %d", d.Status, len(d.Attempts), want, attempts)
			}
			for _, a := range d.Attempts {
				if got := deref(a.ErrorClass); got != c.class || (a.Error == nil) != (c.class == "") {
					t.Errorf("got class %q (%s), want %q", got, deref(a.Error), c.class)
				}
				if a.StatusCode == nil && c.status != 0 || a.StatusCode != nil && *a.StatusCode != c.status {
					t.Errorf("got status %v, want %d", a.StatusCode, c.status)
				}
				if n := len(deref(a.ResponseExcerpt)); n > 1<<10 {
					t.Errorf("%d bytes of the answer are stored, want at most 1 KiB", n)
				}
			}
		})
	}
	gateway.t = t
	if n := elsewhere.count(requestsOf); n > 0 {
		t.Errorf("a redirect was followed %d times, want never", n)
	}
	if n := written.Load(); n > 50<<20 {
		t.Errorf("%d MB of answers were read, want a small part of 300 MB", n>>20)
	}
	healthy.wantAll(t, wantDelivered(t, gateway, "healthy"))
}

// wantDelivered publishes an event and waits until it is delivered.
func wantDelivered(t *testing.T, gateway *instance, eventType string) []string {
	t.Helper()
	events := gateway.mustPublish(eventType, 1)
	if d := gateway.deliveryOf(events[0]); d.Status != "success" {
		t.Errorf("the event is %s, want it delivered", d.Status)
	}
	return events
}

// A receiver that fails every other request gets every event when it recovers, and no
// event that it has answered with success again.
func TestFlappingReceiverGetsEveryEvent(t *testing.T) {
	t.Parallel()
	const failures = 30 // few enough that no delivery has all its attempts among them
	dsn := pgtest.New(t)
	gateway, flapping := startDelivering(t, dsn), newSubscriber(t)
	gateway.subscribe(flapping.url, "made", "")
	var came atomic.Int64
	flapping.setHandler(func(w http.ResponseWriter, r *http.Request) {
		switch n := came.Add(1); {
		case n%2 == 0 || n > 2*failures:
			flapping.countDelivery(r)
			w.WriteHeader(http.StatusNoContent)
		case n%4 == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	conn := connect(t, dsn)
	var events []string
	for came.Load() < 2*failures {
		events = append(events, gateway.mustPublish("made", 20)...)
		wantAllDelivered(t, conn, events)
	}
	flapping.wantAll(t, events)
	if again := flapping.count(repeatedOf); again > 0 {
		t.Errorf("%d deliveries came again after they had been answered 204, want none", again)
	}
}

func TestDeadSubscriberDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	// Requests to the dead subscriber could occupy all slots.
	gateway, dead, healthy := startDelivering(t, dsn, "EVENTHOOK_OUTBOUND_DISPATCH_SENDS_AT_ONCE=4"), newSubscriber(t), newSubscriber(t)
	dead.setHandler(hang(make(chan struct{})).ServeHTTP)
	gateway.subscribe(dead.url, "dead", `"timeout_seconds":60,"max_in_flight":100,"disable_after_failures":0`)
	gateway.subscribe(healthy.url, "healthy", "")
	gateway.mustPublish("dead", many)
	clitest.Eventually(t, "the dead subscriber has open requests", func() bool { return dead.count(requestsOf) > 0 })
	events := gateway.mustPublish("healthy", 100)
	clitest.Eventually(t, "the healthy subscriber has all events", func() bool { return healthy.count(eventsOf) == len(events) })
	if n := count(t, connect(t, dsn), `SELECT count(*) FROM eventhook.delivery WHERE event_type = 'dead' AND due_at IS NULL`); n > 0 {
		t.Errorf("%d deliveries to the dead subscriber are completed, want none, or the test proves nothing", n)
	}
}

// If a gateway dies during deliveries, another instance sends them when their leases
// expire.
func TestDeliveriesOfAKilledGatewayAreSentByAnother(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	killed, receiving := startDelivering(t, dsn), newSubscriber(t)
	killed.subscribe(receiving.url, "made", `"timeout_seconds":2,"max_in_flight":50,`+quickRetry)
	load := publishFlood(t, killed, "made")
	clitest.Eventually(t, "load is delivered", func() bool { return receiving.count(eventsOf) >= enough })
	held := make(hang)
	receiving.setHandler(held.ServeHTTP)
	clitest.Eventually(t, "deliveries are running", func() bool { return load.count(http.StatusOK) >= receiving.count(eventsOf)+enough })
	conn := connect(t, dsn)
	killed.kill()
	load.stop()
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'acquired'`); n == 0 {
		t.Error("the gateway died with no delivery leased, want some")
	}
	receiving.setHandler(nil)
	startDelivering(t, dsn)
	wantAllDelivered(t, conn, load.accepted)
	receiving.wantAll(t, load.accepted)
}

// A gateway that stops completes its running requests and releases its other
// deliveries at once: no instance waits for leases to expire.
func TestStoppedGatewayReleasesItsDeliveries(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	stopped, receiving := startDelivering(t, dsn, "EVENTHOOK_LEASE_SECONDS=600"), newSubscriber(t)
	held := make(hang)
	receiving.setHandler(held.ServeHTTP)
	stopped.subscribe(receiving.url, "made", `"timeout_seconds":60,"max_in_flight":10,`+quickRetry)
	events := stopped.mustPublish("made", many)
	clitest.Eventually(t, "deliveries are running", func() bool { return receiving.count(requestsOf) > 0 })
	if err := stopped.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	receiving.setHandler(nil)
	close(held)
	<-stopped.done
	conn := connect(t, dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'acquired'`); n > 0 {
		t.Errorf("%d deliveries are still leased after a graceful stop, want none", n)
	}
	startDelivering(t, dsn)
	wantAllDelivered(t, conn, events)
}

func TestDatabaseRestartLosesNoDelivery(t *testing.T) {
	t.Parallel()
	for _, fault := range databaseFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.NewServer(t)
			dsn := server.DSN(pgembed.Database)
			gateway, receiving := startDelivering(t, dsn), newSubscriber(t)
			gateway.subscribe(receiving.url, "made", `"timeout_seconds":2,"max_in_flight":50,`+quickRetry)
			load := publishFlood(t, gateway, "made")
			clitest.Eventually(t, "load is delivered", func() bool { return receiving.count(eventsOf) >= enough })
			if err := fault.end(t, server); err != nil {
				t.Fatal(err)
			}
			clitest.Eventually(t, "publishing is answered 500 or 503 without a database", func() bool {
				return load.count(http.StatusInternalServerError)+load.count(http.StatusServiceUnavailable) > 0
			})
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := load.count(http.StatusOK)
			clitest.Eventually(t, "the gateway recovers by itself", func() bool { return load.count(http.StatusOK) >= before+enough })
			load.stop()
			wantAllDelivered(t, connect(t, dsn), load.accepted)
			receiving.wantAll(t, load.accepted)
		})
	}
}

// Pause does not update the waiting deliveries, and no instance changes them until the
// subscription is resumed. Then all of them are sent.
func TestPauseDoesNotChangeDeliveries(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway, receiving, other := startDelivering(t, dsn), newSubscriber(t), newSubscriber(t)
	held := make(hang)
	receiving.setHandler(held.ServeHTTP)
	id, _ := gateway.subscribe(receiving.url, "made", `"timeout_seconds":60,"max_in_flight":5,`+quickRetry)
	gateway.subscribe(other.url, "other", "")
	events := gateway.mustPublish("made", many)
	clitest.Eventually(t, "deliveries are running", func() bool { return receiving.count(requestsOf) > 0 })
	gateway.act(id, "pause")
	receiving.setHandler(nil)
	close(held)
	conn := connect(t, dsn)
	others := 0
	goOn := func() {
		t.Helper()
		others += len(gateway.mustPublish("other", 100))
		clitest.Eventually(t, "another subscriber gets its events", func() bool { return other.count(eventsOf) == others })
	}
	goOn()
	clitest.Eventually(t, "the deliveries of the gateway are completed or released", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'acquired'`) == 0
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE event_type = 'made' AND status = 'pending' AND due_at <= now()`); n == 0 || n == many {
		t.Errorf("%d of %d deliveries wait, want the deliveries that were not running", n, many)
	}
	rows := func() (versions string) { // changes whenever a row is written
		if err := conn.QueryRow(t.Context(), `SELECT md5(string_agg(id::text || ctid || xmin, ',' ORDER BY id)) FROM eventhook.delivery WHERE event_id = ANY($1::uuid[])`, events).Scan(&versions); err != nil {
			t.Fatal(err)
		}
		return versions
	}
	before, came := rows(), receiving.count(requestsOf)
	late := gateway.mustPublish("made", 1)
	goOn()
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE event_id = $1 AND status = 'pending'`, late[0]); n != 1 {
		t.Errorf("%d deliveries were created for the event that was published meanwhile, want one pending", n)
	}
	if rows() != before {
		t.Error("deliveries were written while they waited, want no change")
	}
	if n := receiving.count(requestsOf); n != came {
		t.Errorf("%d requests came while it was paused, want none", n-came)
	}
	gateway.act(id, "resume")
	wantAllDelivered(t, conn, append(events, late...))
}

// The deletion of a subscription is answered at once. Its open deliveries are not sent
// and end.
func TestDeletedSubscriptionGetsNoDeliveries(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway, gone, other := startDelivering(t, dsn), newSubscriber(t), newSubscriber(t)
	held := make(hang)
	gone.setHandler(held.ServeHTTP)
	id, _ := gateway.subscribe(gone.url, "made", `"timeout_seconds":60,"max_in_flight":5,`+quickRetry)
	gateway.subscribe(other.url, "other", "")
	gateway.mustPublish("made", many)
	clitest.Eventually(t, "deliveries are running", func() bool { return gone.count(requestsOf) > 0 })
	if status := gateway.call(http.MethodDelete, "/subscriptions/"+id, nil, nil); status != http.StatusNoContent {
		t.Fatalf("deleting it was answered %d, want 204", status)
	}
	if status := gateway.call(http.MethodGet, "/subscriptions/"+id, nil, nil); status != http.StatusNotFound {
		t.Errorf("reading it was answered %d, want 404", status)
	}
	gone.setHandler(nil)
	close(held)
	conn := connect(t, dsn)
	clitest.Eventually(t, "the subscription has no open deliveries", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE due_at IS NOT NULL`) == 0
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE event_type = 'made' AND status = 'dead'`); n == 0 || n > many {
		t.Errorf("%d of %d deliveries are dead, want those that were not sent", n, many)
	}
	came := gone.count(requestsOf)
	if came == many {
		t.Error("the whole queue was sent to the deleted subscription")
	}
	_, none, err := gateway.publish(t.Context(), "made")
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE event_id = $1`, none); err != nil || n != 0 {
		t.Errorf("%d deliveries were created for the deleted subscription (%v), want 0", n, err)
	}
	other.wantAll(t, wantDelivered(t, gateway, "other"))
	if n := gone.count(requestsOf); n != came {
		t.Errorf("%d requests were sent to the deleted subscription, want 0", n-came)
	}
}

// While both secrets sign, the receiver can change from the old to the new secret at
// any time without losing a delivery.
func TestRotationLosesNoDelivery(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway, receiving := startDelivering(t, dsn), newSubscriber(t)
	id, old := gateway.subscribe(receiving.url, "made", "")
	receiving.setSecrets(old)
	load := publishFlood(t, gateway, "made")
	clitest.Eventually(t, "load is delivered", func() bool { return receiving.count(eventsOf) >= enough })
	var rotated struct {
		SigningSecret string `json:"signing_secret"`
	}
	if status := gateway.call(http.MethodPost, "/subscriptions/"+id+"/rotate-secret", map[string]int{"grace_seconds": 3600}, &rotated); status != http.StatusOK || rotated.SigningSecret == "" || rotated.SigningSecret == old {
		t.Fatalf("rotating was answered %d, want 200 and a new secret", status)
	}
	clitest.Eventually(t, "both secrets sign", func() bool { return receiving.count(bothOf) >= enough })
	if n := receiving.count(refusedBy); n > 0 {
		t.Errorf("the receiver with the old secret refused %d requests, want 0", n)
	}
	receiving.setSecrets(rotated.SigningSecret)
	before := receiving.count(eventsOf)
	clitest.Eventually(t, "the receiver with the new secret gets events", func() bool { return receiving.count(eventsOf) >= before+enough })
	load.stop()
	wantAllDelivered(t, connect(t, dsn), load.accepted)
	receiving.wantAll(t, load.accepted)
}

// Two instances share the deliveries. While a lease is valid, no other instance sends
// its delivery.
func TestTwoInstancesSendEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	instances := []*instance{startDelivering(t, dsn, "EVENTHOOK_LEASE_SECONDS=60"), startDelivering(t, dsn, "EVENTHOOK_LEASE_SECONDS=60")}
	receiving := newSubscriber(t)
	id, _ := instances[0].subscribe(receiving.url, "made", `"max_in_flight":50,`+quickRetry)
	instances[0].act(id, "pause")
	events := instances[0].mustPublish("made", many)
	instances[0].act(id, "resume")
	events = append(events, instances[0].mustPublish("made", many)...)
	events = append(events, instances[1].mustPublish("made", many)...)
	wantAllDelivered(t, connect(t, dsn), events)
	receiving.wantAll(t, events)
	if again := receiving.count(repeatedOf); again > 0 {
		t.Errorf("%d of %d deliveries came twice, want none", again, len(events))
	}
}

// deref returns the text of a member that may be null, "" if it is.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
