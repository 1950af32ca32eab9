package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/natstest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// withLog returns the variables of a gateway with a log of webhooks on a cluster.
func withLog(c *natstest.Cluster, more ...string) []string {
	return append([]string{"EVENTHOOK_INGEST_LOG_URL=" + c.URL()}, more...)
}

// PostgreSQL is stopped under load: every webhook is accepted, none is lost, none is stored twice, and
// the backlog drains. Instances start and accept while it is down.
func TestWebhooksAreAcceptedWhileTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dsn := server.DSN(pgembed.Database)
	cluster := natstest.NewCluster(t, 3)
	gateway := startInstance(t, dsn, withLog(cluster)...)
	gateway.wantReady("200", "")
	load := startFlood(t, gateway)
	clitest.Eventually(t, "webhooks are accepted", func() bool { return load.count(http.StatusOK) >= enough })
	clitest.Eventually(t, "the log has a copy of the sources", func() bool { return gateway.sourcesAreCopied(cluster) })
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := load.count(http.StatusOK)
	clitest.Eventually(t, "webhooks are accepted without the database", func() bool { return load.count(http.StatusOK) >= before+10*enough })
	gateway.wantReady("200", `:"The database is not available: webhooks are accepted into the log, the API and the console answer 503"`)
	if status := gateway.call(http.MethodGet, "/events", nil, nil); status != http.StatusServiceUnavailable {
		t.Errorf("the API answered %d without the database, want 503", status)
	}
	if status := gateway.call(http.MethodPatch, "/sources/github", map[string]any{"name": "x"}, nil); status != http.StatusServiceUnavailable {
		t.Errorf("a change was answered %d without the database, want 503", status)
	}
	second, out := launch(t, databaseEnv(dsn, withLog(cluster, "EVENTHOOK_ROLES=ingest")...), "serve")
	second.awaitServing(out)
	second.wantReady("200", "webhooks are accepted into the log")
	status, answer, err := second.push(t.Context(), "from-the-second")
	if status != http.StatusOK || err != nil {
		t.Fatalf("an instance that started without the database answered %d, %v", status, err)
	}
	if n := gateway.metric("ingest_log_backlog_events"); n == 0 {
		t.Error("the backlog is 0 while the database is down")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "the backlog falls under load", func() bool { return gateway.metric("ingest_log_backlog_events") < enough })
	gateway.wantReady("200", "")
	load.stop()
	for status, n := range load.statuses {
		if status != http.StatusOK {
			t.Errorf("%d webhooks were answered %d, want 200 for all", n, status)
		}
	}
	accepted := append(load.accepted, answer.EventID)
	wantStored(t, dsn, accepted)
	wantEachProcessedOnce(t, dsn, accepted)
}

// wantStored waits until the events of the log are in the database.
func wantStored(t *testing.T, dsn string, events []string) {
	t.Helper()
	conn := connect(t, dsn)
	clitest.Eventually(t, "the backlog is stored", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = ANY($1::uuid[])`, events) == len(events)
	})
}

// sourcesAreCopied reports whether an instance without the database would be ready.
func (i *instance) sourcesAreCopied(c *natstest.Cluster) bool {
	js := natstest.Connect(i.t, c.URL())
	kv, err := js.KeyValue(i.t.Context(), "EVENTHOOK_INGEST_SOURCES")
	if err != nil {
		return false
	}
	_, err = kv.Get(i.t.Context(), "meta.complete")
	return err == nil
}

// A gateway is killed between the acknowledgement of the log and the commit, again and again.
func TestKilledGatewayWithALogLosesNoAnsweredEvent(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	cluster := natstest.NewCluster(t, 3)
	var accepted []string
	for round := range 3 {
		gateway := startInstance(t, dsn, withLog(cluster)...)
		load := startFloodNamed(t, gateway, t.Name()+string(rune('a'+round)))
		clitest.Eventually(t, "webhooks are accepted", func() bool { return load.count(http.StatusOK) >= enough })
		gateway.kill()
		load.stop()
		accepted = append(accepted, load.accepted...)
	}
	startInstance(t, dsn, withLog(cluster)...)
	wantStored(t, dsn, accepted)
	wantEachProcessedOnce(t, dsn, accepted)
}

// The leader of the stream stops under load, and then the whole cluster. By default webhooks are then
// refused with 503; with when_unavailable they are stored in the database directly.
func TestServersOfTheLogStop(t *testing.T) {
	t.Parallel()
	for setting, during := range map[string]int{"refuse": http.StatusServiceUnavailable, "database": http.StatusOK} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.New(t)
			cluster := natstest.NewCluster(t, 3)
			gateway := startInstance(t, dsn, withLog(cluster, "EVENTHOOK_INGEST_LOG_WHEN_UNAVAILABLE="+setting, "EVENTHOOK_INGEST_LOG_APPEND_TIMEOUT=2s")...)
			load := startFlood(t, gateway)
			grows := func(what string, status int) {
				t.Helper()
				before := load.count(status)
				clitest.Eventually(t, what, func() bool { return load.count(status) >= before+enough })
			}
			grows("webhooks are accepted", http.StatusOK)
			cluster.Leader("EVENTHOOK_INGEST").Stop()
			grows("webhooks are accepted without the leader", http.StatusOK)
			cluster.Stop()
			grows("webhooks are answered without servers", during)
			if setting == "refuse" {
				gateway.wantReady("503", "log of webhooks")
			} else {
				gateway.wantReady("200", "stored in the database directly")
			}
			cluster.Start()
			gateway.wantReady("200", "")
			grows("webhooks are accepted again", http.StatusOK)
			load.stop()
			wantStored(t, dsn, load.accepted)
			for status, n := range load.statuses {
				if status != http.StatusOK && status != http.StatusServiceUnavailable {
					t.Errorf("%d webhooks were answered %d", n, status)
				}
			}
			wantEachProcessedOnce(t, dsn, load.accepted)
		})
	}
}

// A duplicate is accepted into the log; the database decides.
func TestDuplicatesAreDecidedBehindTheLog(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	cluster := natstest.NewCluster(t, 3)
	gateway := startInstance(t, dsn, withLog(cluster)...)
	clitest.Eventually(t, "the log is ready", func() bool { return gateway.metric("ingest_log_ready") == 1 })
	for range 2 {
		status, answer, err := gateway.push(t.Context(), "the-same")
		if status != http.StatusOK || err != nil || answer.Status != "accepted" {
			t.Fatalf("got %d %+v, %v; want accepted", status, answer, err)
		}
	}
	conn := connect(t, dsn)
	clitest.Eventually(t, "both are stored", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE origin = 'source'`) == 2
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE status = 'duplicate'`); n != 1 {
		t.Errorf("%d events are duplicates, want 1", n)
	}
}

// docs/scaling.md, "Switch the log off": an instance that accepts no webhooks stores what is in the log,
// while another one without the log accepts.
func TestALogIsDrainedBeforeItIsSwitchedOff(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dsn := server.DSN(pgembed.Database)
	cluster := natstest.NewCluster(t, 3)
	gateway := startInstance(t, dsn, withLog(cluster)...)
	gateway.wantReady("200", "")
	clitest.Eventually(t, "the log has a copy of the sources", func() bool { return gateway.sourcesAreCopied(cluster) })
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	load := startFlood(t, gateway)
	clitest.Eventually(t, "webhooks wait in the log", func() bool { return load.count(http.StatusOK) >= enough })
	load.stop()
	gateway.kill()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := startInstance(t, dsn)
	status, answer, err := direct.push(t.Context(), "direct")
	if status != http.StatusOK || err != nil {
		t.Fatalf("an instance without the log answered %d, %v", status, err)
	}
	last := startCommand(t, databaseEnv(dsn, withLog(cluster, "EVENTHOOK_ROLES=dispatch")...), "serve")
	if status, _, _ := last.push(t.Context(), "last"); status != http.StatusNotFound {
		t.Errorf("an instance with the role dispatch answered %d to a webhook, want 404", status)
	}
	accepted := append(load.accepted, answer.EventID)
	wantStored(t, dsn, accepted)
	clitest.Eventually(t, "the log is ready and empty", func() bool {
		return last.metric("ingest_log_ready") == 1 && last.metric("ingest_log_backlog_events") == 0
	})
	wantEachProcessedOnce(t, dsn, accepted)
}

// Bodies beyond the limit of a message are stored in the database, without the log.
func TestLargeBodiesPassTheLog(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	cluster := natstest.NewCluster(t, 3)
	gateway := startInstance(t, dsn, withLog(cluster)...)
	clitest.Eventually(t, "the log is ready", func() bool { return gateway.metric("ingest_log_ready") == 1 })
	if status := gateway.call(http.MethodPatch, "/sources/github", map[string]any{"max_body_bytes": 4 << 20}, nil); status != http.StatusOK {
		t.Fatalf("the source was answered %d", status)
	}
	body := `{"a":"` + strings.Repeat("x", 2<<20) + `"}`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, _, err := gateway.pushSample(ctx, send.Sample{Provider: "github", Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE body_size > 2000000`); status != http.StatusOK || n != 1 {
		t.Errorf("got %d and %d large events in the database at once, want 200 and 1", status, n)
	}
}
