package pgembed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/eventhook/eventhook/internal/proc"
)

func TestDataSurvivesStopAndStart(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	dir := dataDir(t)
	s := startServer(t, Options{DataDir: dir})
	family := append(proc.Children(s.PID()), s.PID())
	query(t, s, `CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)`)
	check(t, s.Stop(limit(t)))
	check(t, s.Stop(limit(t))) // does nothing
	wantGone(t, dir, family...)

	s = startServer(t, Options{DataDir: dir})
	if got := query(t, s, `SELECT n FROM kept`); got != "7" {
		t.Errorf("after a restart: got %q, want 7", got)
	}
	if !s.Owned() {
		t.Error("the second Start does not own the server")
	}
}

func TestDataFolderMayHaveAnyName(t *testing.T) {
	for _, name := range []string{`my data`, `one,two`, `it's 100% "a+b" & ?c=d#e`} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, Options{DataDir: filepath.Join(dataDir(t), name)})
			if got := query(t, s, `SELECT 7`); got != "7" {
				t.Errorf("got %q, want 7", got)
			}
		})
	}
}

func TestServerIsPrivateAndDurable(t *testing.T) {
	s := startServer(t, Options{DataDir: dataDir(t), Settings: map[string]string{
		"shared_buffers": "16MB", "work_mem": "5MB", "listen_addresses": "*",
	}})
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"listen_addresses": "", "unix_socket_permissions": "0700",
		"server_encoding": "UTF8", "lc_collate": "C", "timezone": "UTC",
		"work_mem": "5MB", "shared_buffers": "16MB", "max_wal_size": "4GB",
	} {
		if got := query(t, s, `SHOW `+name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	info, err := os.Stat(s.place.sockets)
	check(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("directory of the socket: got mode %v, want 0700", info.Mode().Perm())
	}
}

func TestKillAndRestart(t *testing.T) {
	s := startServer(t, Options{DataDir: dataDir(t)})
	query(t, s, `CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)`)
	family, before := proc.Children(s.PID()), s.PID()
	check(t, syscall.Kill(family[0], syscall.SIGSTOP)) // does not end by itself
	check(t, s.Kill())
	for _, pid := range append(family, before) {
		if proc.CommandLine(pid) != "" {
			t.Errorf("process %d outlived Kill", pid)
		}
	}
	check(t, s.Restart(limit(t)))
	if got := query(t, s, `SELECT n FROM kept`); got != "7" {
		t.Errorf("after a crash: got %q, want 7", got)
	}
	if err := s.Restart(limit(t)); err == nil {
		t.Error("Restart of a running server succeeded")
	}
	check(t, s.Stop(limit(t)))
	check(t, s.Restart(limit(t)))
	query(t, s, `SELECT n FROM kept`)
}

func TestStopForcesAShutdownWhenItsContextEnds(t *testing.T) {
	dir := dataDir(t)
	s := startServer(t, Options{DataDir: dir})
	pid := s.PID()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	wantGone(t, dir, pid)
}

func TestSecondProcessAttaches(t *testing.T) {
	dir := dataDir(t)
	first, pid, owned := gateway(t, dir)
	if !owned {
		t.Fatal("the first process does not own its server")
	}
	s := startServer(t, Options{DataDir: dir})
	if s.Owned() || s.PID() != pid {
		t.Errorf("got owned=%v pid=%d, want false and %d", s.Owned(), s.PID(), pid)
	}
	check(t, s.Stop(limit(t)))
	if got := query(t, s, `SELECT 1`); got != "1" {
		t.Errorf("after Stop of the second process: got %q, want 1", got)
	}
	if err := s.Kill(); !errors.Is(err, errNotOwned) {
		t.Errorf("Kill by the second process: got %v, want %v", err, errNotOwned)
	}
	check(t, first.Process.Kill())
}

func TestStartAdoptsTheServerOfAKilledProcess(t *testing.T) {
	dir := dataDir(t)
	killed, pid, _ := gateway(t, dir)
	check(t, killed.Process.Kill())
	_ = killed.Wait()
	s := startServer(t, Options{DataDir: dir})
	if !s.Owned() || s.PID() != pid {
		t.Errorf("got owned=%v pid=%d, want true and %d", s.Owned(), s.PID(), pid)
	}
	query(t, s, `SELECT 1`)
	check(t, s.Stop(limit(t)))
	wantGone(t, dir, pid)
}

func TestConcurrentStartsShareOneServer(t *testing.T) {
	dir := dataDir(t)
	type result struct {
		s   *Server
		err error
	}
	results := make(chan result, 2)
	for range 2 {
		go func() {
			s, err := Start(context.Background(), withDefaults(t, Options{DataDir: dir}))
			results <- result{s, err}
		}()
	}
	a, b := <-results, <-results
	check(t, errors.Join(a.err, b.err))
	defer func() { check(t, errors.Join(a.s.Stop(limit(t)), b.s.Stop(limit(t)))) }()
	if a.s.Owned() == b.s.Owned() || a.s.PID() != b.s.PID() {
		t.Errorf("got owned %v and %v, pids %d and %d; want one owner and one server",
			a.s.Owned(), b.s.Owned(), a.s.PID(), b.s.PID())
	}
}

func TestServerEndsWithAPanickingParent(t *testing.T) {
	dir := dataDir(t)
	cmd, pid, _ := gateway(t, dir, childDir+"_DIES=1", childDir+"_PANICS=1")
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child did not panic")
	}
	wantGone(t, dir, pid)
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(dataDir(t), strings.Repeat("long-", 15), strings.Repeat("path, \"é\"-", 8))
	s := startServer(t, Options{DataDir: dir})
	conn, err := pgx.Connect(limit(t), s.DSN("postgres"))
	check(t, err)
	check(t, conn.Close(limit(t)))
	if s.place.sockets == s.place.cluster {
		t.Error("the socket is in the cluster, where its path is too long")
	}
	check(t, s.Stop(limit(t)))
	if _, err := os.Stat(s.place.sockets); !os.IsNotExist(err) {
		t.Errorf("Stop left the directory of the socket: %v", err)
	}
}
