package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// backedUp is a PostgreSQL whose backup the commands of the runbook make and restore.
type backedUp struct {
	*pgembed.Server
	t      *testing.T
	dir    string
	as     *syscall.Credential // the user of PostgreSQL; nil is this process's
	blocks []string            // of the runbook
}

func startBackedUp(t *testing.T) *backedUp {
	t.Helper()
	b := &backedUp{Server: pgtest.NewServer(t), t: t, blocks: pageBlocks(t, runbook, "## Backup and point-in-time recovery")}
	var err error
	if b.dir, err = os.MkdirTemp("", "restore-test-"); err != nil { // short, for sockets, and open to other users
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(b.dir) })
	info, err := os.Stat(b.sockets())
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		b.as = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		if err := os.Chown(b.dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *backedUp) sockets() string { return connect(b.t, b.DSN(pgembed.Database)).Config().Host }

// run runs the next block of the page as the user of PostgreSQL.
func (b *backedUp) run(env ...string) string {
	b.t.Helper()
	programs, err := pgembed.FindBinaries()
	if err != nil {
		b.t.Fatal(err)
	}
	sh := exec.Command("sh", "-euc", b.blocks[0])
	b.blocks = b.blocks[1:]
	sh.Dir, sh.SysProcAttr = b.dir, &syscall.SysProcAttr{Credential: b.as}
	sh.Env = append([]string{"PATH=" + programs + ":" + os.Getenv("PATH"), "DATABASE_URL=" + b.DSN(pgembed.Database), "BACKUP=" + b.dir,
		"RESTORED=" + filepath.Join(b.dir, "restored"), "PGOPTIONS_OF_SERVER=" + b.options()}, env...)
	out, err := os.Create(filepath.Join(b.dir, "out")) // a pipe would wait for the server that pg_ctl starts
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	sh.Stdout, sh.Stderr = out, out
	err = sh.Run()
	text, _ := os.ReadFile(out.Name())
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(b.dir, "restored.log"))
		b.t.Fatalf("%v; it printed:\n%s\n%s", err, text, log)
	}
	return string(text)
}

// options make the restored server listen on a socket in the test's folder only.
func (b *backedUp) options() string {
	return "-c listen_addresses= -c unix_socket_directories=" + b.dir + " -c shared_buffers=32MB"
}

func (b *backedUp) restart() {
	b.t.Helper()
	if err := b.Stop(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Restart(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// An event that was accepted before the point is there after the restore. An event after it is not; its
// sender may send it again. A delivery that succeeded after the point is sent again.
func TestARestoreToAPointInTime(t *testing.T) {
	t.Parallel()
	b := startBackedUp(t)
	b.run()
	b.restart()
	gateway, receiver := startDelivering(t, b.DSN(pgembed.Database)), newSubscriber(t)
	receiver.setHandler(down)
	body := map[string]any{"name": "billing", "url": receiver.url, "event_types": []string{"payment.*"}}
	if status := gateway.call(http.MethodPost, "/subscriptions", body, nil); status != http.StatusCreated {
		t.Fatalf("subscribe: got %d", status)
	}
	push := func(to *instance, id string) string {
		t.Helper()
		status, answer, err := to.push(t.Context(), id)
		if err != nil || status != http.StatusOK {
			t.Fatalf("push %s: %d, %v", id, status, err)
		}
		return answer.EventID
	}
	push(gateway, "in-the-backup")
	b.run()
	gateway.mustPublish("payment.made", 1)
	before := push(gateway, "before-the-point")
	until := queryText(t, b.DSN(pgembed.Database), `SELECT clock_timestamp()::text`)
	receiver.setHandler(nil)
	clitest.Eventually(t, "the delivery succeeds after the point", func() bool { return receiver.count(eventsOf) == 1 })
	after := push(gateway, "after-the-point")
	gateway.stop()
	last := queryText(t, b.DSN(pgembed.Database), `SELECT pg_walfile_name(pg_switch_wal())`)
	clitest.Eventually(t, "the log is archived", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, "wal", last))
		return err == nil
	})
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	b.run("UNTIL=" + until)
	t.Cleanup(func() { endPostmaster(t, filepath.Join(b.dir, "restored")) })
	restored := "postgres://eventhook@/eventhook?sslmode=disable&host=" + b.dir
	clitest.Eventually(t, "the restored server accepts writes", func() bool {
		return queryText(t, restored, `SELECT pg_is_in_recovery()::text`) == "false"
	})
	again := startDelivering(t, restored)
	for id, want := range map[string]int{before: http.StatusOK, after: http.StatusNotFound} {
		if got := again.call(http.MethodGet, "/events/"+id, nil, nil); got != want {
			t.Errorf("event %s: got %d, want %d", id, got, want)
		}
	}
	if repeated := push(again, "after-the-point"); repeated == after {
		t.Error("the webhook after the point was taken for a duplicate")
	}
	clitest.Eventually(t, "the delivery is sent again", func() bool { return receiver.count(repeatedOf) == 1 })
	if len(b.blocks) > 0 {
		t.Errorf("the blocks %q of the page have not run", b.blocks)
	}
}

func queryText(t *testing.T, dsn, sql string) (text string) {
	t.Helper()
	if err := connect(t, dsn).QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// endPostmaster ends the server of a cluster at once.
func endPostmaster(t *testing.T, cluster string) {
	t.Helper()
	programs, err := pgembed.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	stop := exec.Command(filepath.Join(programs, "pg_ctl"), "-D", cluster, "-m", "immediate", "stop")
	if info, err := os.Stat(cluster); err == nil && os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		stop.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	stop.Dir = "/"
	if out, err := stop.CombinedOutput(); err != nil && !strings.Contains(string(out), "no server running") {
		t.Errorf("stop the restored server: %v, %s", err, out)
	}
}
