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

func TestStartClearsTheWay(t *testing.T) {
	dir := dataDir(t)
	s := start1(t, Options{DataDir: dir})
	check(t, s.Stop(limit(t)))
	pid := pidFile(s.place.cluster)
	lock := filepath.Join(s.place.sockets, ".s.PGSQL."+port+".lock")
	self := strconv.Itoa(os.Getpid()) + "\n" + s.place.cluster + "\n1\n5432\n" + s.place.sockets + "\n\n"
	// PostgreSQL takes any live process of its own user for a postmaster.
	sleeper := s.sleeper(t) + "\n" + s.place.cluster + "\n1\n5432\n" + s.place.sockets + "\n\n"
	for _, tt := range []struct{ claim, pidFile string }{
		{"of a pid file that names nobody", ""},
		{"of a pid that nobody has", "999999999\n"},
		{"of a pid that is ours now", self},
		{"of a pid that is another program's now", sleeper},
	} {
		t.Run(tt.claim, func(t *testing.T) {
			check(t, os.WriteFile(pid, []byte(tt.pidFile), 0o600))
			check(t, os.WriteFile(lock, []byte(tt.pidFile), 0o600))
			check(t, s.place.as.chown(s.place.cluster))
			s := start1(t, Options{DataDir: dir})
			query(t, s, `SELECT 1`)
			check(t, s.Stop(limit(t)))
		})
	}
}

func TestInterruptedInitLeavesNoTrap(t *testing.T) {
	dir := dataDir(t)
	half := filepath.Join(dir, "postgres.init-1234")
	check(t, os.Mkdir(half, 0o700))
	check(t, os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600))
	s := start1(t, Options{DataDir: dir})
	query(t, s, `SELECT 1`)
	left, _ := filepath.Glob(filepath.Join(dir, stagingPattern))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStartKilledByItsContextLeavesNothing(t *testing.T) {
	dir := dataDir(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Start(ctx, withDefaults(t, Options{DataDir: dir})); err == nil {
		t.Fatal("Start with an ended ctx succeeded")
	}
	wantGone(t, dir)
	query(t, start1(t, Options{DataDir: dir}), `SELECT 1`)
}

func TestStartSaysWhatPostgreSQLSaid(t *testing.T) {
	dir := dataDir(t)
	_, err := Start(limit(t), withDefaults(t, Options{DataDir: dir, Settings: map[string]string{"no_such_setting": "1"}}))
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "no_such_setting"`) {
		t.Errorf("got %v, want PostgreSQL's own words", err)
	}
	wantGone(t, dir)
	query(t, start1(t, Options{DataDir: dir}), `SELECT 1`)
}

func TestClosedDataFolderMovesTheCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another user")
	}
	elsewhere := dataDir(t)
	defer func(old string) { fallbackHome = old }(fallbackHome)
	fallbackHome = elsewhere
	closed := filepath.Join(dataDir(t), "closed")
	check(t, os.Mkdir(closed, 0o700))
	dir := filepath.Join(closed, "data")

	s := start1(t, Options{DataDir: dir})
	if !strings.HasPrefix(s.place.cluster, elsewhere) {
		t.Errorf("the cluster is in %s, want it under %s", s.place.cluster, elsewhere)
	}
	query(t, s, `CREATE TABLE kept (n int)`)
	check(t, s.Stop(limit(t)))
	check(t, os.Chmod(closed, 0o711))
	s = start1(t, Options{DataDir: dir})
	query(t, s, `SELECT count(*) FROM kept`) // the same cluster, though the way is open now
}

func TestForeignSocketDirectoryIsRefused(t *testing.T) {
	p := place{cluster: "/c", sockets: t.TempDir(), as: account{uid: uint32(os.Geteuid()), name: "me"}}
	check(t, os.Chmod(p.sockets, 0o755))
	if p.makeSockets() == nil {
		t.Error("one that is open to others was taken")
	}
	check(t, os.Chmod(p.sockets, 0o700))
	check(t, p.makeSockets())
	p.as.uid++
	if p.makeSockets() == nil {
		t.Error("one of another user was taken")
	}
}

func TestStartWaitsForTheOrphansOfAKilledPostmaster(t *testing.T) {
	dir := dataDir(t)
	s := start1(t, Options{DataDir: dir})
	conn, err := pgx.Connect(limit(t), s.DSN(Database))
	check(t, err)
	defer func() { _ = conn.Close(limit(t)) }()
	backend, postmaster := int(conn.PgConn().PID()), s.PID()
	check(t, syscall.Kill(backend, syscall.SIGSTOP)) // does not notice what follows
	defer func() { _ = syscall.Kill(backend, syscall.SIGCONT) }()
	check(t, syscall.Kill(postmaster, syscall.SIGKILL))
	eventually(t, "the postmaster ends", func() bool { return !s.proc.alive() })

	restarted := make(chan error, 1)
	go func() { restarted <- s.Restart(context.Background()) }()
	eventually(t, "PostgreSQL complains about the orphan", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
		return err == nil && bytes.Contains(b, []byte("pre-existing shared memory block"))
	})
	check(t, syscall.Kill(backend, syscall.SIGCONT))
	check(t, <-restarted)
	query(t, s, `SELECT 1`)
}
