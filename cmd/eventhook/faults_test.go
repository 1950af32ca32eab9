package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// enough is the number of answers after which a test injects its fault.
const enough = 100

func TestKilledGatewayLosesNoAnsweredEvent(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	killed := startInstance(t, dsn)
	load := startFlood(t, killed)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	killed.kill()
	load.stop()
	startInstance(t, dsn)
	wantEachProcessedOnce(t, dsn, load.accepted)
}

func TestEventsOfAKilledGatewayAreProcessedByAnother(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	killed, _ := startInstance(t, dsn), startInstance(t, dsn)
	load := startFlood(t, killed)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	killed.kill()
	load.stop()
	wantEachProcessedOnce(t, dsn, load.accepted)
}

func TestStoppedGatewayAnswersWhatItHasRead(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	stopped := startInstance(t, dsn)
	load := startFlood(t, stopped)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	stopped.stop()
	load.stop()
	for status, n := range load.statuses {
		if status != http.StatusOK && status != 0 { // 0: refused before it was read
			t.Errorf("%d requests were answered %d while the gateway stopped, want 200 or no answer", n, status)
		}
	}
	conn := connect(t, dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE status = 'processing'`); n != 0 {
		t.Errorf("%d events are still leased after a graceful stop, want 0", n)
	}
	startInstance(t, dsn)
	wantEachProcessedOnce(t, dsn, load.accepted)
}

// A table lock keeps requests in the accept batch while the gateway stops.
func TestStopWaitsForRequestsInFlight(t *testing.T) {
	t.Parallel()
	const requests = 20
	dsn := pgtest.New(t)
	gateway := startInstance(t, dsn)
	if status, _, err := gateway.push(t.Context(), "warm"); err != nil || status != http.StatusOK {
		t.Fatalf("answered %d, %v", status, err)
	}
	tx, err := connect(t, dsn).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE eventhook.idempotency_key`); err != nil {
		t.Fatal(err)
	}
	results := make(chan string, requests)
	for n := range requests {
		go func() {
			status, answer, err := gateway.push(context.WithoutCancel(t.Context()), fmt.Sprint("in flight ", n))
			if err != nil || status != http.StatusOK {
				results <- fmt.Sprintf("answered %d, %v", status, err)
				return
			}
			results <- answer.Status
		}()
	}
	clitest.Eventually(t, "the gateway has all requests and waits for the lock", func() bool {
		return gateway.waiting() == requests
	})
	if err := gateway.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "the gateway accepts no new connection", func() bool {
		probe, err := net.Dial("tcp", strings.TrimPrefix(gateway.url, "http://"))
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range requests {
		if got := <-results; got != "accepted" {
			t.Errorf("a request that was read before the stop was %s, want accepted", got)
		}
	}
	<-gateway.done
}

// databaseFaults are the ways in which tests stop PostgreSQL.
var databaseFaults = []struct {
	name string
	end  func(*testing.T, *pgembed.Server) error
}{
	{"stopped", func(t *testing.T, s *pgembed.Server) error { return s.Stop(t.Context()) }},
	{"killed", func(_ *testing.T, s *pgembed.Server) error { return s.Kill() }},
}

func TestDatabaseRestartLosesNoAnsweredEvent(t *testing.T) {
	t.Parallel()
	for _, fault := range databaseFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.NewServer(t)
			dsn := server.DSN(pgembed.Database)
			gateway := startInstance(t, dsn)
			load := startFlood(t, gateway)
			clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
			if err := fault.end(t, server); err != nil {
				t.Fatal(err)
			}
			clitest.Eventually(t, "webhooks are answered 500 or 503 without a database", func() bool {
				return load.count(http.StatusInternalServerError)+load.count(http.StatusServiceUnavailable) > 0
			})
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := load.count(http.StatusOK)
			clitest.Eventually(t, "the gateway recovers by itself", func() bool { return load.count(http.StatusOK) >= before+enough })
			load.stop()
			for status, n := range load.statuses {
				if status != http.StatusOK && status != http.StatusInternalServerError && status != http.StatusServiceUnavailable {
					t.Errorf("%d requests were answered %d, want 200, 500 or 503", n, status)
				}
			}
			wantEachProcessedOnce(t, dsn, load.accepted)
			wantLinesOfOneOutage(t, gateway)
		})
	}
}

// wantLinesOfOneOutage checks that the log has one line about the begin of an outage and one about
// its end, instead of a line for each loop, retry and request.
func wantLinesOfOneOutage(t *testing.T, gateway *instance) {
	t.Helper()
	clitest.Eventually(t, "the log says that the database is back", func() bool { return strings.Contains(gateway.logs.String(), "the database is back") })
	const most = 2
	var alarms []string
	for line := range strings.Lines(gateway.logs.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			alarms = append(alarms, line)
		}
	}
	if n := strings.Count(gateway.logs.String(), "the database cannot be used"); n != 1 || len(alarms) > most {
		t.Errorf("%d lines say that the database is gone, want 1; warnings and errors, want at most %d:\n%s", n, most, strings.Join(alarms, ""))
	}
	if !regexp.MustCompile(`msg="the database is back" down_for=\S+ lines_held_back=[1-9]`).MatchString(gateway.logs.String()) {
		t.Errorf("the log does not say how long the database was gone, and how many lines were held back:\n%s", gateway.logs)
	}
}

func TestOneKeyAtTwoInstancesCreatesOneEvent(t *testing.T) {
	t.Parallel()
	const copies = 200
	dsn := pgtest.New(t)
	instances := []*instance{startInstance(t, dsn), startInstance(t, dsn)}
	var mu sync.Mutex
	originals, duplicateOf := map[string]bool{}, map[string]bool{}
	var senders sync.WaitGroup
	for n := range copies {
		senders.Go(func() {
			status, answer, err := instances[n%2].push(t.Context(), "the same delivery")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || status != http.StatusOK:
				t.Errorf("answered %d (%v), want 200", status, err)
			case answer.Status == "accepted":
				originals[answer.EventID] = true
			default:
				duplicateOf[answer.DuplicateOf] = true
			}
		})
	}
	senders.Wait()
	if len(originals) != 1 || len(duplicateOf) != 1 {
		t.Fatalf("got originals %v and duplicates of %v, want one event and all others its duplicates", originals, duplicateOf)
	}
	for id := range originals {
		if !duplicateOf[id] {
			t.Errorf("duplicates are of %v, want %s", duplicateOf, id)
		}
		wantEachProcessedOnce(t, dsn, []string{id})
	}
	conn := connect(t, dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE status = 'duplicate'`); n != copies-1 {
		t.Errorf("%d duplicates are stored, want %d", n, copies-1)
	}
	if n := count(t, conn, `SELECT count(*) FROM eventhook.execution`); n != 1 {
		t.Errorf("%d tasks were created, want 1", n)
	}
}

type claimAnswer struct{ Items []claimedItem }

func TestWorkOfADeadWorkerIsClaimedAgain(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t))
	if status, _, err := gateway.push(t.Context(), "1"); err != nil || status != http.StatusOK {
		t.Fatalf("answered %d, %v", status, err)
	}
	claim := func(lease int) claimedItem {
		t.Helper()
		var got claimAnswer
		if status := gateway.call("POST", "/work/claim", map[string]any{"wait_seconds": 30, "lease_seconds": lease}, &got); status != http.StatusOK || len(got.Items) != 1 {
			t.Fatalf("claim answered %d with %d items, want one", status, len(got.Items))
		}
		return got.Items[0]
	}
	dead := claim(1)
	alive := claim(60) // waits until the lease of the dead worker expires
	if alive.ID != dead.ID {
		t.Fatalf("claimed %s, want %s again", alive.ID, dead.ID)
	}
	for _, act := range []struct {
		path string
		body map[string]any
	}{
		{"/complete", map[string]any{"output": "late"}},
		{"/fail", map[string]any{"error": "late"}},
		{"/heartbeat", map[string]any{}},
	} {
		act.body["lease_token"] = dead.LeaseToken
		if status := gateway.call("POST", "/work/"+dead.ID+act.path, act.body, nil); status != http.StatusConflict {
			t.Errorf("the dead worker's late %s was answered %d, want 409", act.path, status)
		}
	}
	if status := gateway.call("POST", "/work/"+alive.ID+"/complete", map[string]any{"lease_token": alive.LeaseToken}, nil); status != http.StatusOK {
		t.Errorf("the new worker's complete was answered %d, want 200", status)
	}
}

func TestSlowClientsDoNotDelayOtherClients(t *testing.T) {
	t.Parallel()
	const slow = 400
	gateway := startInstance(t, pgtest.New(t), "EVENTHOOK_SERVER_READ_TIMEOUT=5s", "EVENTHOOK_SERVER_READ_HEADER_TIMEOUT=2s")
	address := strings.TrimPrefix(gateway.url, "http://")
	var conns []net.Conn
	for n := range slow {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n", ingest.Path("acme", "github"))
		if n%2 == 0 {
			head += "\r\n{" // half of the clients send no body, the others never end their header
		}
		if _, err := conn.Write([]byte(head)); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, err := gateway.push(t.Context(), "beside the slow ones"); err != nil || status != http.StatusOK {
		t.Errorf("answered %d (%v) beside %d slow clients, want 200", status, err, slow)
	}
	for n, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		var err error
		for buf := make([]byte, 4096); err == nil; {
			_, err = conn.Read(buf)
		}
		if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
			t.Fatalf("slow client %d was not cut off", n)
		}
	}
}

func TestUnusualRequestsAreStoredOrRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t))
	for _, odd := range []struct {
		name   string
		header string
		body   string
		want   int
	}{
		{"a header of 64 KB", strings.Repeat("x", 64<<10), `{"ok":true}`, http.StatusOK},
		{"a header that is not UTF-8", "\xff\xfe", `{"ok":"also"}`, http.StatusOK},
		{"a body with NUL and invalid UTF-8", "x", "{\"a\":\"\x00\xff\"}", http.StatusOK},
		{"broken JSON", "x", `{"a":`, http.StatusOK},
		{"no body", "x", "", http.StatusOK},
		{"a body over the limit", "x", strings.Repeat("a", 1<<20+1), http.StatusRequestEntityTooLarge},
	} {
		t.Run(odd.name, func(t *testing.T) {
			s := send.Sample{Provider: "github", ID: odd.name, Body: []byte(odd.body)}
			r, err := s.Request(t.Context(), gateway.url+ingest.Path("acme", "github"), testSecret, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Odd", odd.header)
			resp, err := testClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var answer send.Answer
			if resp.StatusCode != odd.want {
				t.Fatalf("answered %s, want %d", resp.Status, odd.want)
			}
			if odd.want != http.StatusOK {
				return
			}
			if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
				t.Fatal(err)
			}
			var event struct{ Status string }
			clitest.Eventually(t, "the event is routed by its header", func() bool {
				if status := gateway.call("GET", "/events/"+answer.EventID, nil, &event); status != http.StatusOK {
					t.Fatalf("reading it answered %d", status)
				}
				return event.Status == "delivered"
			})
			if got := gateway.payload(answer.EventID); got != odd.body {
				t.Errorf("the payload is %q, want %q", got, odd.body)
			}
		})
	}
}
