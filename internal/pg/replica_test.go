package pg

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// replicated is a primary, a replica, and a DB that uses both. Its clock stands still, so that
// only the test decides how old a position is.
type replicated struct {
	*testing.T
	db               *DB
	clock            *clocktest.Clock
	primary, replica *pgembed.Server
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	r := &replicated{T: t, clock: clocktest.New(noon), primary: pgtest.NewServer(t)}
	r.replica = pgtest.NewReplica(t, r.primary)
	r.db = openAt(t, r.primary.DSN(pgembed.Database), func(o *Options) {
		o.Now, o.ReadURL, o.ReadMaxLag = r.clock.Now, r.replica.DSN(pgembed.Database), 5*time.Second
	})
	return r
}

func (r *replicated) exec(on *pgembed.Server, sql string) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), on.DSN(pgembed.Database))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	if _, err := conn.Exec(r.Context(), sql); err != nil {
		r.Fatal(err)
	}
}

// listed returns the name of the server from which lists are read.
func (r *replicated) listed() (server string) {
	r.Helper()
	err := r.db.list(r.Context(), func(ctx context.Context, lists *listPool) error {
		return lists.QueryRow(ctx, `SELECT CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE 'primary' END`).Scan(&server)
	})
	if err != nil {
		r.Fatal(err)
	}
	return server
}

// caughtUp checks the replica until it is fresh.
func (r *replicated) caughtUp() {
	r.Helper()
	for end := time.Now().Add(patient); ; {
		err := r.db.checkReplica(r.Context())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("the replica is not used: %v", err)
		}
	}
}

func TestListsAreReadFromTheReplicaWhileItIsFresh(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	want := func(when, server string) {
		t.Helper()
		if got := r.listed(); got != server {
			t.Errorf("%s: lists are read from the %s, want the %s", when, got, server)
		}
	}
	want("before the first check", "primary")
	r.caughtUp()
	want("after it", "replica")

	r.clock.Advance(5 * time.Second)
	want("without a check for the maximum lag", "primary")
	r.caughtUp()
	want("while the primary is idle", "replica")

	r.exec(r.replica, `SELECT pg_wal_replay_pause()`)
	r.exec(r.primary, `CREATE TABLE eventhook.change ()`)
	r.clock.Advance(time.Second)
	_ = r.db.checkReplica(t.Context())
	want("one second behind", "replica")
	r.clock.Advance(4 * time.Second)
	if err := r.db.checkReplica(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 5s behind") {
		t.Errorf("got %v, want the lag", err)
	}
	want("five seconds behind", "primary")
	r.exec(r.replica, `SELECT pg_wal_replay_resume()`)
	r.caughtUp()
	want("after it caught up", "replica")

	if err := r.replica.Kill(); err != nil {
		t.Fatal(err)
	}
	want("when the replica died", "primary")
	if err := r.db.checkReplica(t.Context()); err == nil {
		t.Error("a dead replica is used")
	}
	if err := r.replica.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.caughtUp()
	want("after its restart", "replica")

	r.exec(r.replica, `SELECT pg_promote()`)
	if err := r.db.checkReplica(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a streaming replica") {
		t.Errorf("a promoted replica: got %v, want that it is none", err)
	}
	want("when the replica was promoted", "primary")
}

func TestAReplicaThatHangsDoesNotDelayChecks(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	db := openAt(t, pgtest.New(t), func(o *Options) {
		o.ReadURL, o.ReadMaxLag = "postgres://u@"+silent.Addr().String()+"/d?sslmode=disable", 5*time.Second
	})
	if err := db.checkReplica(t.Context()); err == nil {
		t.Error("a silent server is used")
	}
	if _, err := db.Deliveries(t.Context(), eventhook.TenantID{1}, eventhook.DeliveryFilter{Limit: 1}); err != nil {
		t.Errorf("a list beside a silent replica: %v", err)
	}
}

// Each error of the replica that the primary may not have leads to the primary.
func TestAListThatFailsOnTheReplicaIsReadFromThePrimary(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.caughtUp()
	read := []string{}
	err := r.db.list(t.Context(), func(ctx context.Context, lists *listPool) error {
		server, sql := "primary", `SELECT 1`
		if lists == r.db.replica.pool {
			server, sql = "replica", `SELECT 1 FROM eventhook.later`
		}
		read = append(read, server)
		_, err := lists.Exec(ctx, sql)
		return err
	})
	if got := strings.Join(read, " "); err != nil || got != "replica primary" {
		t.Errorf("read from %s, %v; want the primary after the replica", got, err)
	}
	r.caughtUp()
	var logged bytes.Buffer
	var mu sync.Mutex
	r.db.log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.db.WatchReplica(ctx) }()
	lines := func(text string) int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(logged.String(), text)
	}
	await := func(text string) {
		t.Helper()
		for end := time.Now().Add(patient); lines(text) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it did not log %q", text)
			}
		}
	}
	await("lists are read from the replica")
	if !r.db.IsReplicaUsed() {
		t.Error("the replica is not used, although it follows")
	}
	if err := r.replica.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Hour)
	await("lists are read from the primary")
	if r.db.IsReplicaUsed() {
		t.Error("a stopped replica is used")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := lines("lists are read"); n != 2 {
		t.Errorf("it logged %d lines, want one for each change", n)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
