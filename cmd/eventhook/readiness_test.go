package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/migrations"
)

// ready returns the status code and the body of /health/ready.
func (i *instance) ready() string {
	i.t.Helper()
	answer, err := http.Get(strings.TrimSuffix(i.metrics, "/metrics") + "/health/ready")
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, body)
}

// wantNotReady fails unless a webhook is answered 503 with Retry-After.
func wantNotReady(t *testing.T, i *instance) {
	t.Helper()
	r, err := send.Sample{Provider: "github", ID: "1"}.Request(t.Context(), i.url+ingest.Path("acme", "github"), testSecret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := testClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a webhook is answered %d with Retry-After %q, want 503", answer.StatusCode, answer.Header.Get("Retry-After"))
	}
}

func TestInstanceOnANewerSchemaIsNotReadyUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	newest, err := migrations.Newest()
	if err != nil {
		t.Fatal(err)
	}
	dsn := pgtest.New(t)
	conn := connect(t, dsn)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`UPDATE eventhook.schema_migrations SET version = 1000`)
	i := startInstance(t, dsn) // with --apply
	if !strings.Contains(i.logs.String(), "this instance is not ready") {
		t.Errorf("it logs %s, want the reason", i.logs)
	}
	if got := i.ready(); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "newer than this program: it has version 1000") {
		t.Errorf("got %s, want 503 and the reason", got)
	}
	wantNotReady(t, i)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.tenant WHERE slug = 'acme'`); n != 0 {
		t.Error("files were applied to a schema that is not supported")
	}
	exec(`UPDATE eventhook.schema_migrations SET version = $1`, newest)
	if got := i.ready(); !strings.HasPrefix(got, "200 ") {
		t.Errorf("on its own schema it answers %s, want 200", got)
	}
	clitest.Eventually(t, "the files are applied and a webhook is accepted", func() bool {
		status, _, err := i.push(t.Context(), "1")
		return err == nil && status == http.StatusOK
	})
	exec(`UPDATE eventhook.schema_migrations SET version = $1`, newest-1)
	if got := i.ready(); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "older than this program") {
		t.Errorf("on an older schema it answers %s, want 503 and the reason", got)
	}
	wantNotReady(t, i)
	exec(`UPDATE eventhook.schema_migrations SET version = $1`, newest)
	if got := i.ready(); !strings.HasPrefix(got, "200 ") {
		t.Errorf("after the migration it answers %s, want 200", got)
	}
	i.stop()
}

// A rolling upgrade migrates the database while instances of the former release run.
func TestInstanceStaysReadyOnTheSchemaOfTheNextRelease(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	i := startInstance(t, dsn)
	if _, err := connect(t, dsn).Exec(t.Context(), `UPDATE eventhook.schema_release SET previous = newest, newest = newest + 2;
		UPDATE eventhook.schema_migrations SET version = version + 1, dirty = true`); err != nil {
		t.Fatal(err)
	}
	if got := i.ready(); !strings.HasPrefix(got, "200 ") {
		t.Errorf("got %s, want 200", got)
	}
	if status, _, err := i.push(t.Context(), "1"); status != http.StatusOK || err != nil {
		t.Errorf("a webhook is answered %d, %v", status, err)
	}
	i.stop()
}
