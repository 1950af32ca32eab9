package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/verify"
)

// command is one run of the program in this process.
type command struct {
	code           int
	stdout, stderr string
}

func runCommand(args ...string) command {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return command{code, stdout.String(), stderr.String()}
}

// unconfigured takes away what configures the machine that the test runs on.
func unconfigured(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "DATABASE_URL" || strings.HasPrefix(name, "EVENTHOOK_") && name != "EVENTHOOK_TEST_DATABASE_URL" {
			t.Setenv(name, "") // an empty one says nothing
		}
	}
}

// configured is what a command needs that works on a database.
func configured(t *testing.T, dsn string) {
	t.Helper()
	unconfigured(t)
	t.Setenv("DATABASE_URL", dsn)
	t.Setenv("EVENTHOOK_ADMIN_KEY", testAdminKey)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", testEncryptionKey)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	unconfigured(t)
	bad := writeFile(t, "bad.yaml", "listn: \":1\"\nlease_seconds: soon\n")
	badTenants := writeFile(t, "tenants.yaml", "tenants: [{slug: A}]")
	inside := writeFile(t, "inside.yaml", `tenants: [{slug: acme, subscriptions: [{name: in, url: "http://10.0.0.1/t0k", event_types: ["*"]}]}]`)
	for _, c := range []struct {
		claim  string
		args   []string
		code   int
		stdout string // a part of it
		stderr []string
	}{
		{"help without a command", nil, 0, "Usage:", nil},
		{"help", []string{"help", "serve"}, 0, "--apply", nil},
		{"version", []string{"version"}, 0, "eventhook " + version + " (go", nil},
		{"an unknown command", []string{"srve"}, 2, "", []string{"srve"}},
		{"an unknown flag", []string{"serve", "--listn", ":1"}, 2, "", []string{"listn"}},
		{"an argument too many", []string{"version", "now"}, 2, "", []string{"now"}},
		{"an unknown act", []string{"migrate", "sideways"}, 2, "", []string{"sideways"}},
		{"down without a word", []string{"migrate", "down"}, 2, "", []string{"--yes"}},
		{"apply without a file", []string{"apply"}, 2, "", []string{"-f"}},
		{"a valid configuration", []string{"check"}, 0, "is valid", nil},
		{"a valid file of tenants", []string{"check", "-f", writeFile(t, "ok.yaml", testTenants)}, 0, "is valid", nil},
		{"the example", []string{"check", "--config", "../../configs/example.yaml"}, 0, "is valid", nil},
		{"an invalid configuration", []string{"check", "--config", bad}, 2, "", []string{"  listn: ", "  lease_seconds: "}},
		{"an invalid flag", []string{"check", "--listen", "here"}, 2, "", []string{"  listen: "}},
		{"an invalid file of tenants", []string{"check", "-f", badTenants}, 2, "", []string{"  tenants.yaml:1: tenants[0].slug: "}},
		{"a receiver that may not be called", []string{"check", "-f", inside}, 2, "", []string{"  acme/in.url: the address of 10.0.0.1 is not public"}},
		{"a file that is not there", []string{"check", "-f", "nowhere.yaml"}, 2, "", []string{"nowhere.yaml"}},
		{"serve with an invalid configuration", []string{"serve", "--config", bad}, 2, "", []string{"  listn: "}},
		{"apply with invalid tenants", []string{"apply", "-f", badTenants}, 2, "", []string{"tenants[0].slug"}},
		{"secrets made for nothing", []string{"serve", "--make-secrets"}, 2, "", []string{"--apply"}},
		{"an unknown sample", []string{"send", "gitlob", "--secret", "s", "--url", "http://x"}, 2, "", []string{"github and stripe"}},
		{"send without a URL", []string{"send", "github", "--secret", "s"}, 2, "", []string{"--url"}},
		{"send without a secret", []string{"send", "github", "--url", "http://x"}, 2, "", []string{"--secret"}},
		{"send to no URL", []string{"send", "github", "--secret", "s", "--url", "http://a b"}, 2, "", []string{"URL"}},
		{"send of a body that is not there", []string{"send", "github", "--secret", "s", "--url", "http://x", "--body-file", "nowhere"}, 2, "", []string{"nowhere"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := runCommand(c.args...)
			if got.code != c.code || !strings.Contains(got.stdout, c.stdout) || (got.stderr == "") != (c.code == 0) {
				t.Errorf("%v: got %+v, want exit code %d, %q on stdout, and a reason on stderr if it fails", c.args, got, c.code, c.stdout)
			}
			for _, part := range c.stderr {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("%v: stderr is %q, want %q in it", c.args, got.stderr, part)
				}
			}
		})
	}
}

func TestUnknownVariableIsTold(t *testing.T) {
	unconfigured(t)
	t.Setenv("EVENTHOOK_LISTN", ":1")
	if got := runCommand("check"); got.code != 0 || !strings.Contains(got.stderr, "EVENTHOOK_LISTN") {
		t.Errorf("got %+v, want it to go on and tell of EVENTHOOK_LISTN", got)
	}
}

func TestDatabaseThatIsNotThere(t *testing.T) {
	const password = "hush_hush"
	for _, c := range []struct {
		claim, url string
		code       int
	}{
		{"nobody listens", "postgres://u:" + password + "@127.0.0.1:1/d?connect_timeout=5", exitFailed},
		{"a URL that cannot be parsed", "postgres://u:" + password + "%zz@h/d", exitUsage},
		{"a URL of something else", "mysql://u:" + password + "@h/d", exitUsage},
	} {
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"apply", "-f", writeFile(t, "t.yaml", testTenants)}} {
			t.Run(c.claim+", "+args[0], func(t *testing.T) {
				configured(t, c.url)
				got := runCommand(args...)
				if got.code != c.code || strings.Contains(got.stdout+got.stderr, password) || got.stderr == "" {
					t.Errorf("got %+v, want exit code %d and a reason without the password", got, c.code)
				}
			})
		}
	}
}

func TestMigrate(t *testing.T) {
	unconfigured(t) // the database alone is enough
	t.Setenv("DATABASE_URL", pgtest.New(t))
	newest := runCommand("migrate", "version").stdout
	if !strings.HasPrefix(newest, "schema version ") || strings.Contains(newest, "version 0") {
		t.Fatalf("a migrated database is at %q", newest)
	}
	for _, step := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{"migrate"}, 0, newest},
		{[]string{"migrate", "down"}, exitUsage, ""},
		{[]string{"migrate", "version"}, 0, newest},
		{[]string{"migrate", "down", "--yes"}, 0, "schema version 0\n"},
		{[]string{"migrate", "version"}, 0, "schema version 0\n"},
		{[]string{"migrate", "up"}, 0, newest},
	} {
		if got := runCommand(step.args...); got.code != step.code || got.stdout != step.stdout {
			t.Errorf("%v: got %+v, want exit code %d and %q", step.args, got, step.code, step.stdout)
		}
	}
}

// received is what a server got, and when.
type received struct {
	verify.Request
	path string
}

// sink answers with a status and remembers requests.
type sink struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

func newSink(t *testing.T, status int, answer string) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, received{verify.Request{Method: r.Method, Header: r.Header, Body: body, At: time.Now()}, r.URL.Path})
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestSendSignsAsTheProviderDoes(t *testing.T) {
	unconfigured(t)
	body := writeFile(t, "body.json", `{"my":"own"}`)
	for _, c := range []struct {
		claim    string
		provider string
		args     []string
		header   map[string]string
		body     []string // parts of it
	}{
		{"GitHub's push", "github", nil, map[string]string{"X-Github-Event": "push"}, []string{`"ref": "refs/heads/main"`}},
		{"GitHub's other", "github", []string{"--type", "ping", "--id", "one"}, map[string]string{"X-Github-Event": "ping", "X-Github-Delivery": "one"}, nil},
		{"Stripe's payment", "stripe", nil, nil, []string{`"type": "payment_intent.succeeded"`}},
		{"Stripe's other", "stripe", []string{"--type", "payment_intent.created", "--id", "one", "--payment", "pi_two"}, nil,
			[]string{`"evt_one"`, `"payment_intent.created"`, `"pi_two"`}},
		{"a body of one's own", "stripe", []string{"--body-file", body}, nil, []string{`{"my":"own"}`}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s := newSink(t, http.StatusOK, `{"status":"accepted"}`)
			got := runCommand(append([]string{"send", c.provider, "--secret", testSecret, "--url", s.URL + "/in"}, c.args...)...)
			if got.code != 0 || !strings.Contains(got.stdout, "200 OK") || !strings.Contains(got.stdout, `{"status":"accepted"}`) {
				t.Errorf("got %+v, want the answer printed", got)
			}
			if len(s.got) != 1 || s.got[0].Method != "POST" || s.got[0].path != "/in" {
				t.Fatalf("received %+v, want one POST", s.got)
			}
			r := s.got[0]
			for secret, genuine := range map[string]bool{testSecret: true, "another": false} {
				spec, faults := verify.Spec{Provider: c.provider, Secrets: []string{secret}}.Resolve()
				if len(faults) > 0 {
					t.Fatal(faults)
				}
				v, err := spec.New(nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.Verify(t.Context(), &r.Request); (err == nil) != genuine {
					t.Errorf("verified with %q: %v, want it genuine: %v", secret, err, genuine)
				}
			}
			for name, want := range c.header {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			for _, part := range c.body {
				if !strings.Contains(strings.Join(strings.Fields(string(r.Body)), ""), strings.ReplaceAll(part, " ", "")) {
					t.Errorf("the body is %s, want %s in it", r.Body, part)
				}
			}
		})
	}
}

// Two sendings are two events, also at a source whose signed bytes count once; one
// delivery id is the same event.
func TestSendMakesANewDeliveryEachTime(t *testing.T) {
	unconfigured(t)
	t.Setenv("EVENTHOOK_SECRET", testSecret)
	for provider := range samples {
		s := newSink(t, http.StatusOK, "")
		for _, more := range [][]string{nil, nil, {"--id", "one"}, {"--id", "one"}} {
			if got := runCommand(append([]string{"send", provider, "--url", s.URL}, more...)...); got.code != 0 {
				t.Fatal(got)
			}
		}
		if a, b := string(s.got[0].Body), string(s.got[1].Body); a == b || !json.Valid([]byte(a)) {
			t.Errorf("%s: sent %s twice, want JSON that differs", provider, a)
		}
		if provider != "github" {
			continue
		}
		if a, b := s.got[0].Header.Get("X-Github-Delivery"), s.got[1].Header.Get("X-Github-Delivery"); a == b || a == "" {
			t.Errorf("deliveries %q and %q, want two", a, b)
		}
		if a, b := string(s.got[2].Body), string(s.got[3].Body); a != b {
			t.Errorf("one delivery has the bodies %s and %s, want one body", a, b)
		}
	}
}

func TestSendFailsUnlessItWasAccepted(t *testing.T) {
	unconfigured(t)
	for _, status := range []int{201, 204, 401, 404, 500, 503} {
		s := newSink(t, status, "")
		got := runCommand("send", "github", "--secret", testSecret, "--url", s.URL)
		if want := map[bool]int{true: 0, false: exitFailed}[status < 300]; got.code != want || strings.Contains(got.stdout+got.stderr, testSecret) {
			t.Errorf("answered %d: got %+v, want exit code %d and no secret", status, got, want)
		}
	}
	s := newSink(t, http.StatusOK, "")
	s.Close()
	if got := runCommand("send", "github", "--secret", testSecret, "--url", s.URL); got.code != exitFailed || got.stderr == "" {
		t.Errorf("nobody there: got %+v, want exit code %d and a reason", got, exitFailed)
	}
}
