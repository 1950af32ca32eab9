package pgembed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/proc"
)

// childDir is an environment variable with a data folder. If it is set, the test binary starts a server,
// prints "<pid> <owned>" and runs until it is killed.
const childDir = "PGEMBED_TEST_CHILD"

// light has the settings of a server that uses few resources.
var light = map[string]string{"shared_buffers": "16MB", "max_connections": "20"}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

func child(dir string) {
	die := os.Getenv(childDir+"_DIES") != ""
	s, err := Start(context.Background(), Options{DataDir: dir, Settings: light, DieWithParent: die})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println(s.PID(), s.Owned())
	if os.Getenv(childDir+"_PANICS") != "" {
		panic("as a failing test would")
	}
	select {}
}

// gateway starts a child and returns its process and its postmaster's pid.
func gateway(t *testing.T, dir string, env ...string) (cmd *exec.Cmd, pid int, owned bool) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	if _, err := fmt.Sscan(string(buf[:n]), &pid, &owned); err != nil {
		t.Fatalf("the gateway printed %q, want a pid and a bool", buf[:n])
	}
	return cmd, pid, owned
}

// dataDir returns a data folder. After the test it is discarded, and a server in it is ended.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgembed-*")
	check(t, err)
	check(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() {
		if err := Discard(dir); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	return dir
}

func startServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(limit(t), withDefaults(t, o))
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop(context.Background())) })
	return s
}

func withDefaults(t *testing.T, o Options) Options {
	if o.Settings == nil {
		o.Settings = light
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return o
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// query runs statements on a new connection and returns the value of the last one as text.
func query(t *testing.T, s *Server, sql string) string {
	t.Helper()
	ctx := limit(t)
	conn, err := pgx.Connect(ctx, s.DSN(Database))
	check(t, err)
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	check(t, err)
	last := results[len(results)-1]
	if len(last.Rows) == 0 {
		return ""
	}
	return string(last.Rows[0][0])
}

// eventually waits until ok returns true.
func eventually(t *testing.T, condition string, ok func() bool) {
	t.Helper()
	ctx := limit(t)
	for !ok() {
		if pause(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("the condition did not become true in time: %s", condition)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantGone waits until the processes have ended. The test fails if a PostgreSQL runs in dir.
func wantGone(t *testing.T, dir string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return proc.CommandLine(pid) == "" })
	}
	for _, line := range proc.CommandLines() {
		if strings.Contains(line, "-D\x00"+dir) {
			t.Errorf("a PostgreSQL still runs in %s", dir)
		}
	}
}

// sleeper starts a program as the user of PostgreSQL and returns its pid.
func (s *Server) sleeper(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	s.prepare(cmd)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return strconv.Itoa(cmd.Process.Pid)
}
