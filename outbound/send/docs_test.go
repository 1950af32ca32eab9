package send_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// page returns the programs of docs/receiving.md in a language. Commands of the gateway run in
// tests of cmd/eventhook.
func page(t *testing.T, language string, count int) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/receiving.md")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(block[1], "eventhook ") {
			continue
		}
		programs = append(programs, block[1])
		if lines := strings.Count(block[1], "\n"); lines > 40 {
			t.Errorf("a program in %s has %d lines, want at most 40", language, lines)
		}
	}
	if len(programs) != count {
		t.Fatalf("the page has %d programs in %s, want %d", len(programs), language, count)
	}
	return programs
}

// needs skips the test if an interpreter is missing or too old. In CI the test fails instead.
func needs(t *testing.T, interpreter string, check ...string) {
	t.Helper()
	if err := exec.Command(interpreter, check...).Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v; `make interpreters` installs it", interpreter, err)
		}
		t.Skipf("%s is missing or too old: %v", interpreter, err)
	}
}

// receiver is a running program of the page.
type receiver struct {
	url string
	out *os.File // a file, because a pipe could block the program
	end func()
}

func (r *receiver) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.out.Name())
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// startReceiver starts a receiver and waits until it listens.
func startReceiver(t *testing.T, env []string, command ...string) *receiver {
	t.Helper()
	address := clitest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	r := &receiver{url: "http://" + address + "/hooks", out: out}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(env, "PORT="+port, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"))
	cmd.Stdout, cmd.Stderr = r.out, r.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.end = func() { _ = cmd.Process.Kill(); <-ended }
	t.Cleanup(r.end)
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return r
		}
		select {
		case <-ended:
			t.Fatalf("the receiver has ended: %s", r.output(t))
		default:
		}
		if time.Now().After(until) {
			t.Fatal("the receiver does not listen")
		}
	}
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReceiversOfThePage(t *testing.T) {
	t.Run("go", func(t *testing.T) {
		needs(t, "go", "version")
		program := filepath.Join(t.TempDir(), "receiver")
		build := exec.Command("go", "build", "-trimpath", "-o", program, write(t, "main.go", page(t, "go", 1)[0]))
		build.Dir = "../.."                               // the module that requires the library
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, whose packages are compiled
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		checkReceiver(t, startReceiver(t, []string{"WEBHOOK_SECRET=" + currentSecret}, program), "")
	})
	t.Run("python", func(t *testing.T) {
		needs(t, "python3", "-c", "''.removeprefix('')")
		checkReceiver(t, startReceiver(t, []string{"WEBHOOK_SECRET=" + currentSecret}, "python3", write(t, "receiver.py", page(t, "python", 1)[0])), "")
	})
	seed := eventhook.NewEd25519Seed()
	for claim, c := range map[string]struct{ env, seed string }{"js": {"WEBHOOK_SECRET=" + currentSecret, ""}, "js with ed25519": {"WEBHOOK_PUBLIC_KEY=" + eventhook.Ed25519PublicKey(seed), seed.Reveal()}} {
		t.Run(claim, func(t *testing.T) {
			needs(t, "node", "-e", "fetch.name")
			checkReceiver(t, startReceiver(t, []string{c.env}, "node", write(t, "receiver.mjs", page(t, "js", 1)[0])), c.seed)
		})
	}
}

// checkReceiver sends valid and invalid requests to a receiver and checks the responses. The
// receiver verifies with the current secret, or with the public key of seed if seed is not empty.
func checkReceiver(t *testing.T, r *receiver, seed string) {
	t.Helper()
	send := func(claim string, want int, e *eventhook.Event, change func(*eventhook.Subscription), at time.Time) {
		t.Helper()
		s := newSubscription(r.url)
		if seed != "" {
			s.Signatures, s.Ed25519Seed = []string{"v1", "v1a"}, eventhook.NewSecret(seed)
		}
		if change != nil {
			change(s)
		}
		if a := newSender(func() time.Time { return at }).Send(t.Context(), sendingOf(s, e, 1)); a.StatusCode != want {
			t.Errorf("%s: got %d %s, want %d", claim, a.StatusCode, a.Error, want)
		}
	}
	now, first, large := time.Now(), newEvent(), newEvent()
	large.Body = fmt.Appendf(nil, `[%q]`, strings.Repeat("größe ", 1<<17))
	send("data with unusual JSON", 204, first, nil, now)
	send("the same event again", 204, first, nil, now)
	send("large data", 204, large, nil, now)
	send("during a rotation", 204, newEvent(), func(s *eventhook.Subscription) {
		s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(olderSecret)}, {Secret: s.Signing[0].Secret, ExpiresAt: new(now.Add(time.Hour))}}
	}, now)
	send("secret and key of another subscription", 401, newEvent(), func(s *eventhook.Subscription) {
		s.Signing[0].Secret, s.Ed25519Seed = eventhook.NewSecret(olderSecret), eventhook.NewEd25519Seed()
	}, now)
	send("old timestamp", 401, newEvent(), nil, now.Add(-10*time.Minute))
	send("future timestamp", 401, newEvent(), nil, now.Add(10*time.Minute))
	for claim, header := range map[string]http.Header{
		"unsigned": {}, "no signature": {"Webhook-Id": {"a"}, "Webhook-Timestamp": {fmt.Sprint(now.Unix())}},
		"invalid signatures": {"Webhook-Id": {"a"}, "Webhook-Timestamp": {fmt.Sprint(now.Unix())}, "Webhook-Signature": {"v1 v1, v1a,x v1,AAAA ,"}},
		"invalid timestamp":  {"Webhook-Id": {"a"}, "Webhook-Timestamp": {"soon"}, "Webhook-Signature": {"v1,AAAA"}},
	} {
		q, err := http.NewRequest(http.MethodPost, r.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		q.Header = header
		answer, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Errorf("%s: %v", claim, err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401", claim, answer.StatusCode)
		}
	}
	send("another event", 204, newEvent(), nil, now)
	r.end()
	out := r.output(t)
	if got := strings.Count(out, "received {"); got != 4 {
		t.Errorf("the receiver got %d events, want 4, each once:\n%.2000s", got, out)
	}
	if !strings.Contains(out, unusualJSON) {
		t.Error("the received data differs from the published data")
	}
}

func TestShellCommandsOfThePage(t *testing.T) {
	needs(t, "openssl", "version")
	for _, secret := range []string{currentSecret, eventhook.NewSigningSecret().Reveal()} {
		s := newSubscription("")
		s.Signing[0].Secret = eventhook.NewSecret(secret)
		r := sent(t, s, newEvent(), time.Now())
		body := write(t, "body", string(r.body))
		for i, want := range []string{r.header.Get("Webhook-Signature"), r.header.Get("X-Eventhook-Signature")} {
			cmd := exec.Command("sh", "-c", page(t, "sh", 2)[i])
			cmd.Dir = filepath.Dir(body)
			cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "WEBHOOK_ID="+r.header.Get("Webhook-Id"), "WEBHOOK_TIMESTAMP="+r.header.Get("Webhook-Timestamp"))
			got, err := cmd.Output()
			if _, value, _ := strings.Cut(strings.Replace(want, "sha256=", "v1,", 1), ","); err != nil || strings.TrimSpace(string(got)) != value {
				t.Errorf("line %d: got %q, %v; want %s", i+1, got, err, value)
			}
		}
	}
}
