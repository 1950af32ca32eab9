package pgembed

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestStartRemovesStaleLocks(t *testing.T) {
	dir := dataDir(t)
	s := startServer(t, Options{DataDir: dir})
	check(t, s.Stop(limit(t)))
	pid := pidFile(s.place.cluster)
	lock := filepath.Join(s.place.sockets, ".s.PGSQL."+port+".lock")
	self := strconv.Itoa(os.Getpid()) + "\n" + s.place.cluster + "\n1\n5432\n" + s.place.sockets + "\n\n"
	// PostgreSQL treats any live process of its user as a postmaster.
	sleeper := s.sleeper(t) + "\n" + s.place.cluster + "\n1\n5432\n" + s.place.sockets + "\n\n"
	for _, tt := range []struct{ claim, pidFile string }{
		{"empty pid file", ""},
		{"pid of no process", "999999999\n"},
		{"pid of this process", self},
		{"pid of another program", sleeper},
	} {
		t.Run(tt.claim, func(t *testing.T) {
			check(t, os.WriteFile(pid, []byte(tt.pidFile), 0o600))
			check(t, os.WriteFile(lock, []byte(tt.pidFile), 0o600))
			check(t, s.place.as.chown(s.place.cluster))
			s := startServer(t, Options{DataDir: dir})
			query(t, s, `SELECT 1`)
			check(t, s.Stop(limit(t)))
		})
	}
}

func TestInterruptedInitIsRepeated(t *testing.T) {
	dir := dataDir(t)
	half := filepath.Join(dir, "postgres.init-1234")
	check(t, os.Mkdir(half, 0o700))
	check(t, os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600))
	s := startServer(t, Options{DataDir: dir})
	query(t, s, `SELECT 1`)
	left, _ := filepath.Glob(filepath.Join(dir, stagingPattern))
	if len(left) != 0 {
		t.Errorf("staging folders that remain: %v", left)
	}
}

func TestCancelledStartLeavesNoProcess(t *testing.T) {
	dir := dataDir(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Start(ctx, withDefaults(t, Options{DataDir: dir})); err == nil {
		t.Fatal("Start with an ended ctx succeeded")
	}
	wantGone(t, dir)
	query(t, startServer(t, Options{DataDir: dir}), `SELECT 1`)
}

func TestStartReturnsTheLogOfPostgreSQL(t *testing.T) {
	dir := dataDir(t)
	_, err := Start(limit(t), withDefaults(t, Options{DataDir: dir, Settings: map[string]string{"no_such_setting": "1"}}))
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "no_such_setting"`) {
		t.Errorf("got %v, want the message of PostgreSQL", err)
	}
	wantGone(t, dir)
	query(t, startServer(t, Options{DataDir: dir}), `SELECT 1`)
}

func TestClusterIsElsewhereIfTheDataFolderIsClosed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another user")
	}
	fallback := dataDir(t)
	defer func(old string) { fallbackHome = old }(fallbackHome)
	fallbackHome = fallback
	closed := filepath.Join(dataDir(t), "closed")
	check(t, os.Mkdir(closed, 0o700))
	dir := filepath.Join(closed, "data")

	s := startServer(t, Options{DataDir: dir})
	if !strings.HasPrefix(s.place.cluster, fallback) {
		t.Errorf("the cluster is in %s, want it under %s", s.place.cluster, fallback)
	}
	query(t, s, `CREATE TABLE kept (n int)`)
	check(t, s.Stop(limit(t)))
	check(t, os.Chmod(closed, 0o711))
	s = startServer(t, Options{DataDir: dir})
	query(t, s, `SELECT count(*) FROM kept`) // the same cluster, although the folder is open now
}

func TestSocketDirectoryOfAnotherUserIsRejected(t *testing.T) {
	p := place{cluster: "/c", sockets: t.TempDir(), as: account{uid: uint32(os.Geteuid()), name: "me"}}
	check(t, os.Chmod(p.sockets, 0o755))
	if p.makeSockets() == nil {
		t.Error("a directory that other users may enter was accepted")
	}
	check(t, os.Chmod(p.sockets, 0o700))
	check(t, p.makeSockets())
	p.as.uid++
	if p.makeSockets() == nil {
		t.Error("a directory of another user was accepted")
	}
}

func TestStartWaitsForOrphansOfAKilledPostmaster(t *testing.T) {
	dir := dataDir(t)
	s := startServer(t, Options{DataDir: dir})
	conn, err := pgx.Connect(limit(t), s.DSN(Database))
	check(t, err)
	defer func() { _ = conn.Close(limit(t)) }()
	backend, postmaster := int(conn.PgConn().PID()), s.PID()
	check(t, syscall.Kill(backend, syscall.SIGSTOP)) // it does not notice the end of the postmaster
	defer func() { _ = syscall.Kill(backend, syscall.SIGCONT) }()
	check(t, syscall.Kill(postmaster, syscall.SIGKILL))
	eventually(t, "the postmaster ends", func() bool { return !s.proc.alive() })

	restarted := make(chan error, 1)
	go func() { restarted <- s.Restart(context.Background()) }()
	eventually(t, "PostgreSQL logs that an orphan is running", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
		return err == nil && bytes.Contains(b, []byte("pre-existing shared memory block"))
	})
	check(t, syscall.Kill(backend, syscall.SIGCONT))
	check(t, <-restarted)
	query(t, s, `SELECT 1`)
}
