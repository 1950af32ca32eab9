package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// startPrivate starts a gateway on a private PostgreSQL with the demo's
// configuration, as `make run` does.
func startPrivate(t *testing.T, dir string) *instance {
	t.Helper()
	return startCommand(t, []string{"DATABASE_URL=", "EVENTHOOK_LEASE_SECONDS=2", "GITHUB_WEBHOOK_SECRET=" + testSecret},
		"serve", "--data-dir", dir, "--apply", filepath.Join("..", "..", "configs", "demo.yaml"), "--make-secrets")
}

// privateFolder returns a data folder. Its PostgreSQL is stopped after the test.
func privateFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() {
		if err := pgembed.Discard(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestPrivateDatabaseSurvivesCrashes(t *testing.T) {
	t.Parallel()
	dir := privateFolder(t)
	var key string
	var accepted []string
	for _, round := range []struct {
		id  string
		end func(*instance)
	}{
		{"before a crash", (*instance).kill},
		{"before a stop", (*instance).stop},
		{"in the end", (*instance).stop},
	} {
		gateway := startPrivate(t, dir)
		status, answer, err := gateway.push(t.Context(), round.id)
		if err != nil || status != http.StatusOK || answer.Status != "accepted" {
			t.Fatalf("%s: answered %d %s (%v), want 200 accepted", round.id, status, answer.Status, err)
		}
		accepted = append(accepted, answer.EventID)
		got, err := os.ReadFile(filepath.Join(dir, "admin.key"))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" && key != string(got) {
			t.Errorf("%s: the admin key has changed", round.id)
		}
		key = string(got)
		round.end(gateway)
	}
	server, err := pgembed.Start(t.Context(), pgembed.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, server.DSN(pgembed.Database))
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = ANY($1::uuid[])`, accepted); n != len(accepted) {
		t.Errorf("%d of %d accepted events are stored", n, len(accepted))
	}
	_ = conn.Close(context.Background())
	if err := server.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPrivateDatabaseIsRestarted(t *testing.T) {
	t.Parallel()
	dir := privateFolder(t)
	gateway := startPrivate(t, dir)
	attached, err := pgembed.Start(t.Context(), pgembed.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if attached.Owned() {
		t.Fatal("the test owns the database, want the gateway to")
	}
	pid := attached.PID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "a webhook is accepted again", func() bool {
		status, _, err := gateway.push(t.Context(), "after the crash")
		return err == nil && status == http.StatusOK
	})
	gateway.stop()
}

func TestASecondInstanceTakesOverThePrivateDatabase(t *testing.T) {
	t.Parallel()
	dir := privateFolder(t)
	first, second := startPrivate(t, dir), startPrivate(t, dir)
	if status, _, err := second.push(t.Context(), "beside the first"); err != nil || status != http.StatusOK {
		t.Fatalf("answered %d, %v", status, err)
	}
	first.stop() // stops its PostgreSQL, too
	clitest.Eventually(t, "the second instance accepts again", func() bool {
		status, _, err := second.push(t.Context(), "after the first")
		return err == nil && status == http.StatusOK
	})
	second.stop()
}

func TestConfigurationReachesEveryInstance(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateways := []*instance{startInstance(t, dsn), startInstance(t, dsn)}
	for n, g := range gateways { // both have the source in memory now
		if status, _, err := g.push(t.Context(), strconv.Itoa(n)); err != nil || status != http.StatusOK {
			t.Fatalf("answered %d, %v", status, err)
		}
	}
	conn := connect(t, dsn)
	for _, step := range []struct {
		sql  string
		want int
	}{
		{`UPDATE eventhook.source SET is_enabled = false`, http.StatusNotFound},
		{`UPDATE eventhook.source SET is_enabled = true`, http.StatusOK},
		{`UPDATE eventhook.tenant SET status = 'suspended'`, http.StatusNotFound},
	} {
		if _, err := conn.Exec(t.Context(), step.sql); err != nil {
			t.Fatal(err)
		}
		for n, g := range gateways {
			clitest.Eventually(t, step.sql+" reaches instance "+strconv.Itoa(n), func() bool {
				status, _, err := g.push(t.Context(), step.sql)
				return err == nil && status == step.want
			})
		}
	}
}

func TestDemo(t *testing.T) {
	if got := runCommand("demo"); got.Code != 0 || !strings.Contains(got.Stdout, "all steps succeeded") {
		t.Errorf("got %+v, want all steps of the demo to succeed", got)
	}
}
