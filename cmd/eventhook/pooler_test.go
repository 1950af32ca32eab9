package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// pgBouncer is a PgBouncer with the configuration of the runbook.
type pgBouncer struct {
	t       *testing.T
	program string
	config  string // its file
	as      *syscall.Credential
	address string
	url     string // of the database through PgBouncer
	process *exec.Cmd
	log     *clitest.Buffer
}

// serverProgram returns the path of a program that make servers installs. Without it, the test is
// skipped, and fails where make could have installed it.
func serverProgram(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
		t.Fatalf("%s is missing: run make servers", name)
	}
	t.Skipf("%s is missing: run make servers", name)
	return ""
}

// runbookConfig returns the first block of a language in a section of the runbook.
func runbookConfig(t *testing.T, section, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", runbook))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	block := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindStringSubmatch(text)
	if block == nil {
		t.Fatalf("the section %q of %s has no block of %s", section, runbook, language)
	}
	return block[1]
}

// startPgBouncer starts a PgBouncer in front of the database at dsn. It runs as the user of
// PostgreSQL, who may open PostgreSQL's socket: PgBouncer does not run as root.
func startPgBouncer(t *testing.T, dsn string) *pgBouncer {
	t.Helper()
	server, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	b := &pgBouncer{t: t, program: serverProgram(t, "pgbouncer")}
	if info, err := os.Stat(server.Host); err == nil && os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		b.as = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	b.address = clitest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(b.address)
	dir, err := os.MkdirTemp("", "pgbouncer-test-") // the folders above t.TempDir() are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	users := filepath.Join(dir, "userlist.txt")
	config := strings.NewReplacer("host=db.internal port=5432 dbname=eventhook",
		fmt.Sprintf("host=%s port=%d dbname=%s user=%s", server.Host, server.Port, server.Database, server.User),
		"listen_addr = 0.0.0.0", "listen_addr = 127.0.0.1", "listen_port = 6432", "listen_port = "+port,
		"auth_type = scram-sha-256", "auth_type = trust", "/etc/pgbouncer/userlist.txt", users).Replace(runbookConfig(t, "PgBouncer", "ini"))
	b.config = filepath.Join(dir, "pgbouncer.ini")
	for path, text := range map[string]string{users: fmt.Sprintf("%q %q", server.User, server.Password), b.config: config + "unix_socket_dir =\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.url = fmt.Sprintf("postgres://%s@%s/eventhook?sslmode=disable", server.User, b.address)
	b.start()
	t.Cleanup(b.kill)
	return b
}

func (b *pgBouncer) start() {
	b.t.Helper()
	b.log = &clitest.Buffer{}
	b.process = exec.Command(b.program, b.config)
	b.process.SysProcAttr = &syscall.SysProcAttr{Credential: b.as}
	b.process.Stderr, b.process.Dir = b.log, "/"
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	clitest.Eventually(b.t, "PgBouncer accepts connections", func() bool {
		if strings.Contains(b.log.String(), "FATAL") {
			b.t.Fatalf("PgBouncer does not start:\n%s", b.log)
		}
		conn, err := net.Dial("tcp", b.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// kill ends PgBouncer at once.
func (b *pgBouncer) kill() {
	if b.process != nil {
		_ = b.process.Process.Kill()
		_ = b.process.Wait()
		b.process = nil
	}
}

// listPaths are lists of the API, with filters that use each way to run a list.
var listPaths = []string{"/events", "/events?status=delivered", "/events?source=github&event_type=push", "/deliveries", "/deliveries?status=success",
	"/work", "/work?status=running", "/promises", "/subscriptions", "/sources", "/sources/github/routes", "/sources/github/rejections", "/event-types", "/audit"}

// wantLists fails the test unless every list is answered with a status.
func (i *instance) wantLists(when string, want int) {
	i.t.Helper()
	for _, path := range listPaths {
		if status := i.call(http.MethodGet, path, nil, nil); status != want {
			i.t.Errorf("%s: GET %s was answered %d, want %d", when, path, status, want)
		}
	}
}

// Lists go through PgBouncer in transaction mode. All other work goes to PostgreSQL itself, and
// does not need PgBouncer.
func TestGatewayBehindPgBouncer(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	bouncer := startPgBouncer(t, dsn)
	k := startTargetFixture(t, dsn, "DATABASE_URL="+bouncer.url, "DATABASE_DIRECT_URL="+dsn)
	other := k.instance
	k.restart()
	load := startFlood(t, k.instance)
	clitest.Eventually(t, "load is delivered", func() bool { return load.count(http.StatusOK) >= enough && k.subscriber.count(eventsOf) >= enough })
	for range 3 { // on several sessions
		k.wantLists("through PgBouncer", http.StatusOK)
	}
	search := map[string]any{"filter": map[string]any{"event.type": "push"}, "received_after": time.Now().Add(-time.Hour)}
	if status := k.call(http.MethodPost, "/events/search", search, nil); status != http.StatusOK {
		t.Errorf("a search was answered %d, want 200", status)
	}
	var got claimAnswer
	if status := k.call(http.MethodPost, "/work/claim", map[string]any{"wait_seconds": 30, "lease_seconds": 60}, &got); status != http.StatusOK || len(got.Items) == 0 {
		t.Fatalf("claim answered %d with %d items, want some", status, len(got.Items))
	}
	if status := k.call(http.MethodPost, "/work/"+got.Items[0].ID+"/complete", map[string]any{"lease_token": got.Items[0].LeaseToken}, nil); status != http.StatusOK {
		t.Errorf("the complete was answered %d, want 200", status)
	}
	bouncer.kill()
	for _, i := range []*instance{k.instance, other} {
		i.wantLists("without PgBouncer", http.StatusServiceUnavailable) // this also discards the connections that ended
	}
	before := load.count(http.StatusOK)
	clitest.Eventually(t, "webhooks are accepted without PgBouncer", func() bool { return load.count(http.StatusOK) >= before+enough })
	if got := k.ready(); !strings.HasPrefix(got, "200 ") {
		t.Errorf("without PgBouncer the instance answers %s, want ready", got)
	}
	bouncer.start()
	clitest.Eventually(t, "lists are answered again", func() bool { return k.call(http.MethodGet, "/events", nil, nil) == http.StatusOK })
	k.wantLists("after the restart", http.StatusOK)
	if status := other.call(http.MethodPatch, "/sources/github", map[string]any{"is_enabled": false}, nil); status != http.StatusOK {
		t.Fatalf("the change was answered %d, want 200", status)
	}
	clitest.Eventually(t, "the other instance learns of the change", func() bool { return load.count(http.StatusNotFound) > 0 })
	load.stop()
	if bad := load.count(http.StatusInternalServerError) + load.count(http.StatusServiceUnavailable) + load.count(0); bad > 0 {
		t.Errorf("%d webhooks were refused, want none", bad)
	}
	k.wantAllOnce(load.accepted)
}

func TestAPoolerNeedsADirectURL(t *testing.T) {
	dsn := pgtest.New(t)
	bouncer := startPgBouncer(t, dsn)
	for variables, want := range map[string]string{
		"DATABASE_URL=" + bouncer.url:                                          "set DATABASE_DIRECT_URL",
		"DATABASE_URL=" + bouncer.url + "\nDATABASE_DIRECT_URL=" + bouncer.url: "DATABASE_DIRECT_URL is the address of a connection pooler",
	} {
		clitest.ClearEnvironment(t)
		for variable := range strings.SplitSeq(variables, "\n") {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
		if got := runCommand("migrate"); got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: got %+v, want an error with %q", variables, got, want)
		}
	}
}
