package packages_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

// engine runs docker commands.
type engine struct {
	t    *testing.T
	host []string // the flag -H, or nothing
}

func (e engine) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "docker", append(e.host[:len(e.host):len(e.host)], args...)...)
}

func (e engine) try(args ...string) (string, error) {
	out, err := e.command(e.t.Context(), args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// remove runs a command at the end of the test, whose context has ended.
func (e engine) remove(args ...string) {
	if out, err := e.command(context.Background(), args...).CombinedOutput(); err != nil {
		e.t.Logf("docker %s: %v\n%s", args[0], err, out)
	}
}

func (e engine) run(args ...string) string {
	e.t.Helper()
	out, err := e.try(args...)
	if err != nil {
		e.t.Fatalf("docker %s: %v\n%s", args[0], err, out)
	}
	return out
}

// startEngine returns the engine of this machine, or starts one for the test. It skips the test
// if there is none.
func startEngine(t *testing.T) engine {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip(err)
	}
	e := engine{t: t}
	if _, err := e.try("version"); err == nil {
		return e
	}
	daemon, err := exec.LookPath("dockerd")
	if err != nil || os.Getuid() != 0 {
		t.Skipf("no engine runs, and none can be started: %v", err)
	}
	dir := t.TempDir()
	e.host = []string{"-H", "unix://" + filepath.Join(dir, "docker.sock")}
	cmd := exec.Command(daemon, "--storage-driver=vfs", "--iptables=false", "--ip6tables=false", "--bridge=none",
		"--data-root="+filepath.Join(dir, "data"), "--exec-root="+filepath.Join(dir, "exec"), "--pidfile="+filepath.Join(dir, "pid"), e.host[0], e.host[1])
	logs := &clitest.Buffer{}
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // also ends its containerd
		<-ended
		_ = exec.Command("umount", filepath.Join(dir, "exec/netns/default")).Run() // the host's namespace, which it leaves mounted
		if t.Failed() {
			t.Logf("log of dockerd:\n%s", logs)
		}
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if _, err := e.try("version"); err == nil {
			return e
		}
		select {
		case <-ended:
			t.Skipf("dockerd does not run here:\n%s", logs)
		default:
		}
	}
	t.Fatal("dockerd does not answer")
	return e
}

// overTCP returns the URL of a test's database over TCP. The server itself has a socket only,
// which a container cannot reach.
func overTCP(t *testing.T, dsn string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgConnAddress(c)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go clitest.PassOn(listener, network, address)
	return "postgres://" + c.User + ":" + c.Password + "@" + listener.Addr().String() + "/" + c.Database + "?sslmode=disable"
}

func pgConnAddress(c *pgx.ConnConfig) (network, address string) {
	if strings.HasPrefix(c.Host, "/") {
		return "unix", filepath.Join(c.Host, ".s.PGSQL.5432")
	}
	return "tcp", net.JoinHostPort(c.Host, "5432")
}

// The image is built without pulling anything, from the released program.
func TestTheImageRunsAGateway(t *testing.T) {
	e := startEngine(t)
	files := filepath.Dir(program(t))
	const image, container = "eventhook-packages-test", "eventhook-packages-test"
	e.run("build", "-f", top+"/Dockerfile", "--target", "prebuilt", "--build-arg", "PROGRAM=eventhook", "-t", image, files)
	t.Cleanup(func() { e.remove("image", "rm", "-f", image) })
	if got := e.run("image", "inspect", "--format", "{{.Config.User}} {{.Config.Healthcheck.Test}}", image); got != "65532:65532 [CMD /eventhook health --live]" {
		t.Errorf("user and health check of the image: got %s", got)
	}
	if got := e.run("run", "--rm", "--network", "host", image, "version"); !strings.HasPrefix(got, "eventhook "+testVersion) {
		t.Errorf("version: got %s", got)
	}
	if got, err := e.try("run", "--rm", "--network", "host", image, "agent", "--server", "http://127.0.0.1:1"); err == nil || !strings.Contains(got, "EVENTHOOK_KEY is required") {
		t.Errorf("the agent of the image: got %s, %v; want an error that names EVENTHOOK_KEY", got, err)
	}
	if got, err := e.try("run", "--rm", "--network", "host", image); err == nil || !strings.Contains(got, "DATABASE_URL") {
		t.Errorf("without a database: got %s, %v; want an error that names DATABASE_URL", got, err)
	}
	management := clitest.FreeAddress(t)
	e.run("run", "-d", "--name", container, "--network", "host", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
		"--health-interval", "1s", "-e", "DATABASE_URL="+overTCP(t, pgtest.New(t)), "-e", "EVENTHOOK_ADMIN_KEY="+adminKey,
		"-e", "EVENTHOOK_ENCRYPTION_KEYS="+seal.NewKey(), "-e", "EVENTHOOK_LISTEN=127.0.0.1:0", "-e", "EVENTHOOK_MANAGEMENT_LISTEN="+management, image)
	t.Cleanup(func() { e.remove("rm", "-f", container) })
	clitest.Eventually(t, "the container is healthy: "+e.run("logs", container), func() bool {
		return e.run("inspect", "--format", "{{.State.Health.Status}}", container) == "healthy"
	})
	e.run("exec", container, "/eventhook", "health")
	resp, err := http.Get("http://" + management + "/health/ready")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/health/ready: got %s", resp.Status)
	}
	if logs := e.run("logs", container); strings.Contains(logs, "without a system call filter") {
		t.Errorf("scripts have no filter in the container:\n%s", logs)
	}
	e.run("stop", "-t", "60", container)
	if got := e.run("inspect", "--format", "{{.State.ExitCode}}", container); got != "0" {
		t.Errorf("exit code after docker stop: got %s, want 0\n%s", got, e.run("logs", container))
	}
}
