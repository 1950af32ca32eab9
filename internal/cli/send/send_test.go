package send

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/verify"
)

// received is a request that a sink received.
type received struct {
	verify.Request
	path, query string // the query begins with ?
}

// sink is a server that records requests and gives the same answer to each.
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
		query := ""
		if r.URL.RawQuery != "" {
			query = "?" + r.URL.RawQuery
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, received{verify.Request{Method: r.Method, Header: r.Header, Body: body, At: time.Now()}, r.URL.Path, query})
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestSendSignsLikeTheProvider(t *testing.T) {
	clitest.ClearEnvironment(t)
	body := clitest.WriteFile(t, "body.json", `{"my":"own"}`)
	for _, c := range []struct {
		claim    string
		provider string
		args     []string
		header   map[string]string
		body     []string // parts of it
	}{
		{"GitHub push", "github", nil, map[string]string{"X-Github-Event": "push"}, []string{`"ref": "refs/heads/main"`}},
		{"GitHub with another type", "github", []string{"--type", "ping", "--id", "one"}, map[string]string{"X-Github-Event": "ping", "X-Github-Delivery": "one"}, nil},
		{"Stripe payment", "stripe", nil, nil, []string{`"type": "payment_intent.succeeded"`}},
		{"Stripe with another type", "stripe", []string{"--type", "payment_intent.created", "--id", "one", "--payment", "pi_two"}, nil,
			[]string{`"evt_one"`, `"payment_intent.created"`, `"pi_two"`}},
		{"another body", "stripe", []string{"--body-file", body}, nil, []string{`{"my":"own"}`}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s := newSink(t, http.StatusOK, `{"status":"accepted"}`)
			got := runCommand(append([]string{"send", c.provider, "--secret", testSecret, "--url", s.URL + "/in"}, c.args...)...)
			if got.Code != 0 || !strings.Contains(got.Stdout, "200 OK") || !strings.Contains(got.Stdout, `{"status":"accepted"}`) {
				t.Errorf("got %+v, want the answer printed", got)
			}
			if len(s.got) != 1 || s.got[0].Method != "POST" || s.got[0].path != "/in" {
				t.Fatalf("received %+v, want one POST", s.got)
			}
			r := s.got[0]
			for secret, isValid := range map[string]bool{testSecret: true, "another": false} {
				spec, faults := verify.Spec{Provider: c.provider, Secrets: []string{secret}}.Resolve()
				if len(faults) > 0 {
					t.Fatal(faults)
				}
				v, err := spec.New(nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.Verify(t.Context(), &r.Request); (err == nil) != isValid {
					t.Errorf("verified with %q: %v, want success: %v", secret, err, isValid)
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

func TestSendFailsUnlessTheAnswerIs2xx(t *testing.T) {
	clitest.ClearEnvironment(t)
	for _, status := range []int{201, 204, 401, 404, 500, 503} {
		s := newSink(t, status, "")
		got := runCommand("send", "github", "--secret", testSecret, "--url", s.URL)
		if want := map[bool]int{true: 0, false: cli.ExitFailed}[status < 300]; got.Code != want || strings.Contains(got.Stdout+got.Stderr, testSecret) {
			t.Errorf("answered %d: got %+v, want exit code %d and no secret", status, got, want)
		}
	}
}

func TestSendToAServerThatCannotBeReached(t *testing.T) {
	clitest.ClearEnvironment(t)
	s := newSink(t, http.StatusOK, "")
	s.Close()
	dropped := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer dropped.Close()
	for _, c := range []struct {
		claim string
		args  []string
		code  int
		says  string
	}{
		{"no server", []string{"--url", s.URL + "/in?token=t"}, cli.ExitFailed, "no server listens at " + s.URL},
		{"no gateway", []string{"--server", s.URL, "--tenant", "shop"}, cli.ExitFailed,
			"no gateway listens at " + s.URL + ": start one with eventhook serve, or choose another with --server or EVENTHOOK_SERVER"},
		{"a connection that is closed", []string{"--url", dropped.URL + "/in"}, cli.ExitFailed, "cannot connect to " + dropped.URL + ": EOF"},
		{"no scheme", []string{"--url", "localhost:9000"}, cli.ExitUsage, `--url "localhost:9000", want a URL such as https://hooks.example.com/in`},
		{"no host", []string{"--url", "http://:9000"}, cli.ExitUsage, `--url "http://:9000", want a URL such as https://hooks.example.com/in`},
		{"no URL", []string{"--url", "http://a b"}, cli.ExitUsage, `--url "http://a b", want a URL such as https://hooks.example.com/in`},
	} {
		got := runCommand(append([]string{"send", "github", "--secret", testSecret}, c.args...)...)
		if got.Code != c.code || got.Stderr != "eventhook: "+c.says+"\n" {
			t.Errorf("%s: got %+v, want exit code %d and %q", c.claim, got, c.code, c.says)
		}
	}
}
