package pgtest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/proc"
)

const childVariable = "PGTEST_TEST_CHILD"

func TestMain(m *testing.M) { Main(m) }

func query(t *testing.T, dsn, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	if last := results[len(results)-1]; len(last.Rows) > 0 {
		return string(last.Rows[0][0]), nil
	}
	return "", nil
}

func want(t *testing.T, dsn, sql, want string) {
	t.Helper()
	if got, err := query(t, dsn, sql); err != nil || got != want {
		t.Errorf("%s: got %q, %v, want %q", sql, got, err, want)
	}
}

const tablesSQL = `SELECT count(*) > 1 FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`

func TestDatabasesAreMigratedAndIndependent(t *testing.T) {
	a, b := New(t), New(t)
	want(t, a, tablesSQL, "t")
	want(t, b, tablesSQL, "t")
	want(t, a, `CREATE TABLE mine (n int); SELECT to_regclass('mine')`, "mine")
	want(t, b, `SELECT to_regclass('mine') IS NULL`, "t")
}

func TestDatabaseWithOpenConnectionsIsDropped(t *testing.T) {
	var dsn string
	var conn *pgx.Conn
	t.Run("test with a database", func(t *testing.T) {
		dsn = New(t)
		var err error
		if conn, err = pgx.Connect(context.Background(), dsn); err != nil {
			t.Fatal(err)
		}
	})
	defer func() { _ = conn.Close(context.Background()) }()
	_, err := query(t, dsn, `SELECT 1`)
	if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "3D000" {
		t.Errorf("got %v, want the code 3D000: the database does not exist", err)
	}
}

func TestConcurrentNew(t *testing.T) {
	var group sync.WaitGroup
	seen := make(chan string, 16)
	for range cap(seen) {
		group.Go(func() { seen <- New(t) })
	}
	group.Wait()
	close(seen)
	distinct := map[string]bool{}
	for dsn := range seen {
		distinct[dsn] = true
	}
	if len(distinct) != cap(seen) {
		t.Errorf("got %d databases, want %d", len(distinct), cap(seen))
	}
}

func TestTemplateIsCreatedOnce(t *testing.T) {
	New(t) // starts the server
	s := &server{base: shared.server.base, template: "eventhook_tpl_test_" + randomHex()}
	ctx := t.Context()
	// The incomplete template of a process that was killed.
	if err := s.exec(ctx, `CREATE DATABASE `+s.template); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := s.createTemplate(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	oid, err := query(t, s.base.String(), `SELECT oid FROM pg_database WHERE datname = '`+s.template+`'`)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.createTemplate(ctx); err != nil {
		t.Fatal(err)
	}
	want(t, s.base.String(), `SELECT datname FROM pg_database WHERE oid = `+oid, s.template)
	name := "eventhook_test_" + randomHex()
	if err := s.clone(ctx, name); err != nil {
		t.Fatal(err)
	}
	want(t, s.dsn(name), tablesSQL, "t")
	for _, sql := range []string{
		`DROP DATABASE ` + name,
		`ALTER DATABASE ` + s.template + ` IS_TEMPLATE false`,
		`DROP DATABASE ` + s.template,
	} {
		if err := s.exec(ctx, sql); err != nil {
			t.Error(err)
		}
	}
}

func TestServerOfTheEnvironmentIsPreferred(t *testing.T) {
	own := New(t)
	t.Setenv(serverVariable, own)
	base, end, err := findServer(t.Context())
	if err != nil || base != own {
		t.Errorf("got %q, %v, want the URL of the environment", base, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := newServer("host=localhost password=secret"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a DSN that is not a URL: got %v, want an error without the password", err)
	}
}

func TestNewServer(t *testing.T) {
	s := NewServer(t)
	dsn := s.DSN(pgembed.Database)
	want(t, dsn, `SHOW fsync`, "on")
	want(t, dsn, tablesSQL, "t")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := query(t, dsn, `SELECT 1`); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, dsn, tablesSQL, "t")
}

// TestChild is the body of the test process that TestPanicLeavesNoServer runs.
func TestChild(t *testing.T) {
	file := os.Getenv(childVariable)
	if file == "" {
		return
	}
	if err := os.WriteFile(file, []byte(New(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	panic("as a broken test would")
}

func TestPanicLeavesNoServer(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		return
	}
	dir, err := os.MkdirTemp("", "pgtest-") // a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "dsn")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestChild$")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, serverVariable+"=", childVariable+"="+file)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("the child did not panic:\n%s", out)
	}
	dsn, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(dsn))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(u.Query().Get("host"))
	for running(data) { // until the timeout of the test
		time.Sleep(10 * time.Millisecond)
	}
	// The next process removes the folder, once it is old enough.
	old := time.Now().Add(-2 * sweepAge)
	if err := os.Chtimes(data, old, old); err != nil {
		t.Fatal(err)
	}
	sweep(dir)
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead process was not removed: %v", err)
	}
}

func running(data string) bool {
	return slices.ContainsFunc(proc.CommandLines(), func(line string) bool {
		return strings.Contains(line, "-D\x00"+data)
	})
}

func BenchmarkNew(b *testing.B) {
	New(b)
	b.ResetTimer()
	for b.Loop() {
		New(b)
	}
}
