package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/proc"
)

// executeAll runs statements outside of a transaction.
func executeAll(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// wantReady waits until /health/ready begins with a status and contains a reason.
func (i *instance) wantReady(status, reason string) {
	i.t.Helper()
	clitest.Eventually(i.t, "the instance answers "+status+" "+reason, func() bool {
		got := i.ready()
		return strings.HasPrefix(got, status) && strings.Contains(got, reason)
	})
}

// wantRecovery waits until webhooks are accepted again, ends the load, and fails the test unless
// every accepted event is processed once and no other status than 200 and these was answered.
func (f *flood) wantRecovery(t *testing.T, dsn string, statuses ...int) {
	t.Helper()
	before := f.count(http.StatusOK)
	clitest.Eventually(t, "webhooks are accepted again", func() bool { return f.count(http.StatusOK) >= before+enough })
	f.stop()
	known := f.statuses[http.StatusOK]
	for _, status := range statuses {
		known += f.statuses[status]
	}
	total := 0
	for _, n := range f.statuses {
		total += n
	}
	if known < total {
		t.Errorf("webhooks were answered %v, want 200 and %v only", f.statuses, statuses)
	}
	wantEachProcessedOnce(t, dsn, f.accepted)
}

func TestReadOnlyDatabaseRefusesWebhooksUntilItIsWritable(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dsn := server.DSN(pgembed.Database)
	gateway := startInstance(t, dsn)
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	conn := connect(t, dsn)
	executeAll(t, conn, `ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
	clitest.Eventually(t, "webhooks are answered 503", func() bool { return load.count(http.StatusServiceUnavailable) > 0 })
	gateway.wantReady("503", "The database is read-only")
	executeAll(t, conn, `SET default_transaction_read_only = off`, `ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`)
	gateway.wantReady("200", "")
	load.wantRecovery(t, dsn, http.StatusServiceUnavailable)
	wantLinesOfOneOutage(t, gateway)
}

// A start needs a database that accepts changes, as it needs one that can be reached: it ends, and
// its service manager tries again.
func TestStartOnAReadOnlyDatabaseSaysSo(t *testing.T) {
	dsn := pgtest.New(t)
	conn := connect(t, dsn)
	database := texts(t, conn, `SELECT current_database()::text`)[0]
	executeAll(t, conn, `ALTER DATABASE "`+database+`" SET default_transaction_read_only = on`)
	clitest.ClearEnvironment(t)
	for _, variable := range databaseEnv(dsn) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	got := runCommand("serve", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0")
	if got.Code != 1 || !strings.Contains(got.Stderr, "The database is read-only") {
		t.Errorf("got %+v, want exit code 1 and the reason", got)
	}
}

// The database's files are in a tablespace on a small file system, which a file fills.
func TestFullDiskRefusesWebhooksUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "96m")
	server := pgtest.NewServer(t)
	space, filler := filepath.Join(disk, "space"), filepath.Join(disk, "filler")
	if err := os.Mkdir(space, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.DSN(pgembed.Database))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(at.Query().Get("host"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(space, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
	executeAll(t, connect(t, server.DSN("postgres")), `CREATE TABLESPACE small LOCATION '`+space+`'`, `ALTER DATABASE eventhook SET TABLESPACE small`)
	dsn := server.DSN(pgembed.Database)
	gateway := startInstance(t, dsn)
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	fill(t, filler)
	clitest.Eventually(t, "webhooks are answered 503", func() bool { return load.count(http.StatusServiceUnavailable) > 0 })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	load.wantRecovery(t, dsn, http.StatusServiceUnavailable)
	if n := strings.Count(gateway.logs.String(), "SQLSTATE 53100"); n == 0 || n > 2 {
		t.Errorf("%d lines say that the disk is full, want one a minute:\n%s", n, gateway.logs)
	}
}

// smallDisk returns a folder with a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	disk, err := os.MkdirTemp("", "eventhook-disk-")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "mode=755,size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Unmount(disk, syscall.MNT_DETACH)
		_ = os.Remove(disk)
	})
	return disk
}

// fill writes a file until the disk is full.
func fill(t *testing.T, filler string) {
	t.Helper()
	file, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = file.Write(make([]byte, 64<<10))
	}
	_ = file.Close()
}

// The disk with the log of a private PostgreSQL is full: PostgreSQL panics, and works again by itself
// when there is space.
func TestPrivateDatabaseIsRestartedAfterTheDiskOfItsLogWasFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "200m")
	dir, filler := filepath.Join(disk, "data"), filepath.Join(disk, "filler")
	t.Cleanup(func() {
		if err := pgembed.Discard(dir); err != nil {
			t.Error(err)
		}
	})
	gateway := startCommand(t, databaseEnv(""), "serve", "--data-dir", dir, "--apply", clitest.WriteFile(t, "tenants.yaml", testTenants))
	attached, err := pgembed.Start(t.Context(), pgembed.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	dsn, pid := attached.DSN(pgembed.Database), attached.PID()
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	conn := connect(t, dsn)
	fill(t, filler)
	clitest.Eventually(t, "PostgreSQL has ended", func() bool {
		_, _ = conn.Exec(t.Context(), `SELECT pg_switch_wal()`) // needs a new file of the log
		return syscall.Kill(pid, 0) != nil || conn.IsClosed()
	})
	gateway.wantReady("503", "")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	gateway.wantReady("200", "")
	load.wantRecovery(t, dsn, http.StatusInternalServerError, http.StatusServiceUnavailable)
}

// The primary dies, and its synchronous replica is promoted. The gateway finds it by itself.
func TestFailOverToAReplicaLosesNoAnsweredEvent(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewServer(t)
	replica := pgtest.NewReplica(t, primary)
	conn := connect(t, primary.DSN(pgembed.Database))
	executeAll(t, conn, `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
	clitest.Eventually(t, "the replica is synchronous", func() bool {
		return count(t, conn, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	gateway := startInstance(t, bothHosts(t, primary, replica))
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "webhooks are not accepted without a primary", func() bool {
		return load.count(http.StatusInternalServerError)+load.count(http.StatusServiceUnavailable) > 0
	})
	dsn := replica.DSN(pgembed.Database)
	executeAll(t, connect(t, dsn), `SELECT pg_promote()`)
	gateway.wantReady("200", "")
	load.wantRecovery(t, dsn, http.StatusInternalServerError, http.StatusServiceUnavailable)
}

// bothHosts returns a URL that leads to whichever of two servers accepts changes.
func bothHosts(t *testing.T, servers ...*pgembed.Server) string {
	t.Helper()
	var hosts, ports []string
	var dsn *url.URL
	for _, s := range servers {
		u, err := url.Parse(s.DSN(pgembed.Database))
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports, dsn = append(hosts, u.Query().Get("host")), append(ports, u.Query().Get("port")), u
	}
	dsn.RawQuery = url.Values{"host": {strings.Join(hosts, ",")}, "port": {strings.Join(ports, ",")},
		"sslmode": {"disable"}, "target_session_attrs": {"read-write"}}.Encode()
	return dsn.String()
}

// Other programs take all connections of the server, and the gateway's own connections end.
func TestConnectionLimitIsNamedAndRecovers(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dsn := server.DSN(pgembed.Database)
	gateway := startInstance(t, dsn)
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	var taken []*pgx.Conn
	release := func() {
		for _, conn := range taken {
			_ = conn.Close(context.Background())
		}
		taken = nil
	}
	t.Cleanup(release)
	admin := connect(t, dsn)
	takeAll := func() {
		for {
			conn, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				return
			}
			taken = append(taken, conn)
		}
	}
	takeAll()
	before := load.count(http.StatusOK)
	clitest.Eventually(t, "open connections suffice", func() bool { return load.count(http.StatusOK) >= before+enough })
	clitest.Eventually(t, "the instance names the limit and answers webhooks with 503", func() bool {
		executeAll(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventhook'`)
		takeAll() // the gateway may be faster for some of its connections
		return strings.Contains(gateway.ready(), "The database accepts no more connections") && load.count(http.StatusServiceUnavailable) > 0
	})
	release()
	gateway.wantReady("200", "")
	load.wantRecovery(t, dsn, http.StatusInternalServerError, http.StatusServiceUnavailable)
}

// PostgreSQL's processes are stopped: it accepts connections and never answers.
func TestDatabaseThatHangsDelaysReadinessByTwoSeconds(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dsn := server.DSN(pgembed.Database)
	gateway := startInstance(t, dsn)
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	family := append(proc.Children(server.PID()), server.PID())
	signal := func(s syscall.Signal) {
		for _, pid := range family {
			_ = syscall.Kill(pid, s)
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	signal(syscall.SIGSTOP)
	gateway.wantReady("503", "database does not answer")
	for _, path := range []string{"/sources", "/events"} {
		if status := gateway.call(http.MethodGet, path, nil, nil); status != http.StatusServiceUnavailable {
			t.Errorf("GET %s answered %d while the database hangs, want 503", path, status)
		}
	}
	clitest.Eventually(t, "webhooks get an answer", func() bool {
		return load.count(http.StatusInternalServerError)+load.count(http.StatusServiceUnavailable) > 0
	})
	signal(syscall.SIGCONT)
	load.wantRecovery(t, dsn, http.StatusInternalServerError, http.StatusServiceUnavailable)
}

// Without a partition of the day, events are stored in the default partition, and the next
// maintenance moves them.
func TestMissingPartitionRefusesNoWebhook(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway := startInstance(t, dsn)
	load := startFlood(t, gateway)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	load.stop()
	wantEachProcessedOnce(t, dsn, load.accepted)
	conn := connect(t, dsn)
	missing := texts(t, conn, `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
		WHERE p.relname IN ('event', 'event_payload', 'delivery') AND c.relname ~ '_[0-9]{8}$'`)
	if len(missing) == 0 {
		t.Fatal("there are no partitions")
	}
	for _, partition := range missing {
		executeAll(t, conn, fmt.Sprintf(`DROP TABLE eventhook.%s`, partition))
	}
	load = startFloodNamed(t, gateway, "without partitions")
	clitest.Eventually(t, "webhooks are accepted without partitions", func() bool { return load.count(http.StatusOK) >= enough })
	load.stop()
	if n := len(load.accepted); load.count(http.StatusOK) != n || len(load.statuses) > 1 {
		t.Errorf("webhooks were answered %v, want 200 only", load.statuses)
	}
	wantEachProcessedOnce(t, dsn, load.accepted)
	gateway.stop()
	startInstance(t, dsn) // maintains the partitions at its start
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event_default WHERE id = ANY($1::uuid[])`, load.accepted); n > 0 {
		t.Errorf("%d events are still in the default partition, want none", n)
	}
	wantEachProcessedOnce(t, dsn, load.accepted)
}
