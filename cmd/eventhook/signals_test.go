package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// A table lock keeps a request in the accept batch, so that the stop does not end.
func TestSecondSIGTERMEndsTheGatewayAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway := startInstance(t, dsn)
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	tx, err := connect(t, dsn).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE eventhook.idempotency_key`); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "requests wait for the lock", func() bool { return gateway.waiting() > 0 })
	gateway.signal(syscall.SIGTERM)
	clitest.Eventually(t, "the gateway stops", func() bool { return strings.Contains(gateway.logs.String(), "stopping") })
	gateway.signal(syscall.SIGTERM)
	<-gateway.done
	load.stop()
	if code := gateway.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it ended with exit code %d, want 1", code)
	}
	if !strings.Contains(gateway.logs.String(), "a second signal (terminated): ending at once") {
		t.Error("it does not say why it ended")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	startInstance(t, dsn)
	wantEachProcessedOnce(t, dsn, load.accepted)
}

// Table locks keep the gateway from starting, and then from stopping.
func TestSIGHUPNeverEndsTheGateway(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	conn := connect(t, dsn)
	lock := func(table string) (release func()) {
		t.Helper()
		tx, err := connect(t, dsn).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE eventhook.`+table); err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	release := lock("schema_migrations")
	gateway, out := launch(t, databaseEnv(dsn), "serve", "--apply", clitest.WriteFile(t, "tenants.yaml", testTenants))
	clitest.Eventually(t, "the start waits for the lock", func() bool {
		return count(t, conn, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	gateway.signal(syscall.SIGHUP)
	release()
	gateway.awaitServing(out)
	clitest.Eventually(t, "it reloads after its start", func() bool { return strings.Count(gateway.logs.String(), "SIGHUP") == 1 })
	gateway.signal(syscall.SIGHUP)
	clitest.Eventually(t, "it reloads", func() bool { return strings.Count(gateway.logs.String(), "SIGHUP") == 2 })

	if status, _, err := gateway.push(t.Context(), "0"); err != nil || status != http.StatusOK { // the source is in memory now
		t.Fatalf("got status %d, %v; want 200", status, err)
	}
	release = lock("idempotency_key")
	answered := make(chan error, 1)
	go func() {
		status, _, err := gateway.push(context.WithoutCancel(t.Context()), "1")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("answered %d", status)
		}
		answered <- err
	}()
	clitest.Eventually(t, "a request waits for the lock", func() bool { return gateway.waiting() > 0 })
	gateway.signal(syscall.SIGTERM)
	clitest.Eventually(t, "the gateway stops", func() bool { return strings.Contains(gateway.logs.String(), "stopping") })
	gateway.signal(syscall.SIGHUP)
	release()
	if err := <-answered; err != nil {
		t.Errorf("the request was %v, want 200", err)
	}
	<-gateway.done
	if code := gateway.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ended with exit code %d, want 0", code)
	}
}
