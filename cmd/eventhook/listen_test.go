package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/verify"
)

// localProgram is a program on a developer's machine, which verifies the webhooks that it gets.
type localProgram struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // path and verdict
}

// startLocalProgram starts a program that verifies the webhooks of each provider at /PROVIDER, and
// calls got after each.
func startLocalProgram(t *testing.T, got func(n int)) *localProgram {
	p := &localProgram{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider := strings.Split(r.URL.Path, "/")[1]
		body, _ := io.ReadAll(r.Body)
		resolved, _ := verify.Spec{Provider: provider, Secrets: []string{secretOf(provider)}}.Resolve()
		verdict := "verified"
		if v, err := verify.New(resolved.Config, nil); err != nil {
			verdict = err.Error()
		} else if err := v.Verify(r.Context(), &verify.Request{Method: r.Method, Header: r.Header, Body: body, At: time.Now()}); err != nil {
			verdict = err.Error()
			w.WriteHeader(http.StatusUnauthorized)
		}
		p.mu.Lock()
		p.got = append(p.got, r.RequestURI+" "+verdict)
		n := len(p.got)
		p.mu.Unlock()
		got(n)
	}))
	t.Cleanup(p.Close)
	return p
}

func secretOf(provider string) string {
	if provider == "github" {
		return testSecret
	}
	if provider == "standard-webhooks" {
		return "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	}
	return "secret-of-" + provider
}

func TestAProgramUnderListenVerifiesTheDeliveriesOfASubscription(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	clitest.ClearEnvironment(t)
	t.Setenv(input.ServerVariable, gateway.url)
	t.Setenv(input.KeyVariable, testAdminKey)
	t.Setenv(input.TenantVariable, "acme")
	program := startLocalProgram(t, func(int) {})
	t.Setenv("PROGRAM_SECRET", secretOf("standard-webhooks"))
	for _, args := range [][]string{
		{"subscription", "create", "orders", "--url", "https://nothing.invalid/hooks", "--type", "order.*", "--header", "X-Env: prod"},
		{"publish", "order.made", "--data", `{"n":1}`}, {"publish", "other", "--data", `{"n":2}`},
	} {
		if got := runCommand(args...); got.Code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	got := runCommand("listen", "--subscription", "orders", "--forward", program.URL+"/standard-webhooks", "--since", "5m", "--count", "1",
		"--secret-env", "PROGRAM_SECRET", "--print")
	if diff := cmp.Diff([]string{"/standard-webhooks verified"}, program.got); diff != "" || got.Code != 0 {
		t.Fatalf("the program got (-want +got):\n%s\n%+v", diff, got)
	}
	for _, want := range []string{"X-Env: prod", `"event_type":"order.made"`, `"data":{"n":1}`, "X-Eventhook-Signature: sha256=", "X-Eventhook-Delivery-Id: "} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("printed %s, want %s", got.Stdout, want)
		}
	}
}

// sendTo sends a signed webhook of a provider to a path below the URL of its source.
func (i *instance) sendTo(ctx context.Context, provider, suffix string) int {
	i.t.Helper()
	r, err := send.Sample{Provider: provider}.Request(ctx, i.url+ingest.Path("acme", provider)+suffix, secretOf(provider), time.Now())
	if err != nil {
		i.t.Error(err)
		return 0
	}
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Error(err)
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

func TestAProgramUnderListenVerifiesTheWebhooksOfProviders(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	clitest.ClearEnvironment(t)
	t.Setenv(input.ServerVariable, gateway.url)
	t.Setenv(input.KeyVariable, testAdminKey)
	t.Setenv(input.TenantVariable, "acme")
	for _, provider := range []string{"stripe", "slack"} {
		if got := runCommand("source", "create", provider, "--provider", provider, "--secret", secretOf(provider)); got.Code != 0 {
			t.Fatal(got)
		}
	}
	sent := []string{"/github/a%20b?c=d", "/stripe/", "/slack/x", "/github/live"}
	var live sync.WaitGroup
	program := startLocalProgram(t, func(n int) {
		if n == len(sent)-1 {
			live.Go(func() { gateway.sendTo(t.Context(), "github", "/live") })
		}
	})
	defer live.Wait()
	for _, path := range sent[:len(sent)-1] {
		provider := strings.Split(path, "/")[1]
		if status := gateway.sendTo(t.Context(), provider, strings.TrimPrefix(path, "/"+provider)); status != http.StatusOK {
			t.Fatalf("%s: answered %d, want 200", path, status)
		}
	}
	// Each source forwards to its own path of the program.
	var all []string
	for _, provider := range []string{"stripe", "slack", "github"} {
		count := map[string]string{"github": "2"}[provider]
		if count == "" {
			count = "1"
		}
		got := runCommand("listen", provider, "--forward", program.URL+"/"+provider, "--since", "5m", "--count", count)
		if got.Code != 0 || !strings.Contains(got.Stdout, "  200  ") {
			t.Fatalf("%s: got %+v, want an answer of 200", provider, got)
		}
		all = append(all, got.Stdout)
	}
	want := []string{"/stripe/ verified", "/slack/x verified", "/github/a%20b?c=d verified", "/github/live verified"}
	if diff := cmp.Diff(want, program.got); diff != "" {
		t.Errorf("the program got (-want +got):\n%s\n%s", diff, strings.Join(all, ""))
	}
	got := runCommand("listen", "--replay", "latest", "--forward", program.URL+"/github")
	if last := program.got[len(program.got)-1]; got.Code != 0 || last != want[3] || len(program.got) != len(want)+1 {
		t.Errorf("replay: got %+v and %q, want the last webhook again", got, last)
	}
	if got := runCommand("listen", "none", "--print"); got.Code != 1 || !strings.Contains(got.Stderr, "no such source") {
		t.Errorf("an unknown source: got %+v, want exit code 1 and the reason", got)
	}
}
