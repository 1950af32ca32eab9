package packages_test

import (
	"debug/elf"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

func TestTheProgramIsStatic(t *testing.T) {
	path := program(t)
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment %s: it is linked dynamically", p.Type)
		}
	}
	out, err := exec.Command(path, "version").Output()
	want := fmt.Sprintf("eventhook %s (commit %s, %s)\n", testVersion, testCommit, runtime.Version())
	if err != nil || string(out) != want {
		t.Errorf("version: got %q, %v; want %q", out, err, want)
	}
	if made, err := exec.Command("make", "-C", top, "-n", "build", "GO=go").Output(); err != nil || !strings.Contains(string(made), "CGO_ENABLED=0 go build -trimpath") {
		t.Errorf("make build: got %s, %v; want a static program", made, err)
	}
}

// An empty file system has no libraries, users, time zones and certificates. The gateway finds its
// database by a name of the network and an address of /etc/hosts, and knows time zones.
func TestTheProgramRunsInAnEmptyFileSystem(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	dir := filepath.Dir(program(t))
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The gateway waits for the nameserver, also on a slow machine.
	write("resolv.conf", "nameserver "+serveName(t, "database.example.", netip.MustParseAddr("127.0.0.1"))+"\noptions timeout:30\n")
	write("hosts", "127.0.0.1 gateway.example\n")

	listen := clitest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(listen)
	environment := []string{"TZ=Asia/Kathmandu", "DATABASE_URL=" + strings.Replace(overTCP(t, pgtest.New(t)), "@127.0.0.1:", "@database.example:", 1),
		"EVENTHOOK_ADMIN_KEY=" + adminKey, "EVENTHOOK_ENCRYPTION_KEYS=" + seal.NewKey(), "EVENTHOOK_LISTEN=" + listen, "EVENTHOOK_MANAGEMENT_LISTEN=127.0.0.1:0"}
	gateway := inEmpty(dir, environment, "serve")
	logs := &clitest.Buffer{}
	gateway.Stdout, gateway.Stderr = logs, logs
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- gateway.Wait() }()
	t.Cleanup(func() {
		_ = gateway.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil || t.Failed() {
			t.Errorf("the gateway stopped with %v\n%s", err, logs)
		}
	})
	clitest.Eventually(t, "the gateway listens", func() bool {
		if conn, err := net.Dial("tcp", listen); err == nil {
			return conn.Close() == nil
		}
		return len(ended) > 0
	})

	command := func(args ...string) string {
		t.Helper()
		out, err := inEmpty(dir, []string{"EVENTHOOK_SERVER=http://gateway.example:" + port, "EVENTHOOK_KEY=" + adminKey, "EVENTHOOK_TENANT=demo"}, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	command("tenant", "create", "demo", "--name", "Demo")
	// Kathmandu is 5 hours and 45 minutes ahead of UTC.
	const zone = `timestamp("2026-01-01T00:00:00Z").getMinutes("Asia/Kathmandu") == 45`
	if got := command("expression", "test", "--filter-expression", zone, "--body", "{}"); !strings.HasPrefix(got, "Matches") {
		t.Errorf("a time zone in an expression: got %s", got)
	}
	if !strings.Contains(logs.String(), "+05:45 ") {
		t.Errorf("the log has no local time:\n%s", logs)
	}
}

const adminKey = "ehk_an-admin-key-for-tests"

// inEmpty returns a command of the program in a file system of its folder.
func inEmpty(dir string, environment []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/eventhook", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	cmd.Env, cmd.Dir = environment, "/"
	return cmd
}

// serveName starts a nameserver that knows one name, and returns its address.
func serveName(t *testing.T, name string, address netip.Addr) string {
	t.Helper()
	// A nameserver of resolv.conf has port 53; the process id chooses an address of this machine.
	own := netip.AddrFrom4([4]byte{127, 53, byte(os.Getpid() >> 8), byte(os.Getpid())})
	conn, err := net.ListenPacket("udp", netip.AddrPortFrom(own, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buf := make([]byte, 1232); ; {
			n, client, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
			switch {
			case q.Name.String() != name:
				answer.RCode = dnsmessage.RCodeNameError
			case q.Type == dnsmessage.TypeA:
				answer.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body: &dnsmessage.AResource{A: address.As4()}}}
			}
			if raw, err := answer.Pack(); err == nil {
				_, _ = conn.WriteTo(raw, client)
			}
		}
	}()
	return own.String()
}
