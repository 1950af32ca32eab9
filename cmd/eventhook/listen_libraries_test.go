package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// libraries returns the folder node_modules with the libraries of webhook providers. It skips the
// test without them. In CI, where make installs them, it fails the test.
func libraries(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("../../.cache/libraries-*[0-9]/node_modules") // the pattern is valid
	if len(found) > 0 {
		path, err := filepath.Abs(found[len(found)-1])
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, err := exec.LookPath("npm")
	if err == nil && os.Getenv("CI") == "true" && os.Getuid() == 0 && os.Getenv("EVENTHOOK_TEST_LIBRARIES") != "none" {
		t.Fatal("the libraries of webhook providers are missing; `make libraries` installs them")
	}
	t.Skip("the libraries of webhook providers are missing; `make libraries` installs them")
	return ""
}

// startLibraries starts testdata/libraries.mjs and returns its URL.
func startLibraries(t *testing.T) *url.URL {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(libraries(t), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("testdata/libraries.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libraries.mjs"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	secrets, _ := json.Marshal(map[string]string{"github": secretOf("github"), "slack": secretOf("slack"), "stripe": secretOf("stripe")}) // cannot fail
	cmd := exec.Command("node", "libraries.mjs")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, []string{"PATH=" + os.Getenv("PATH"), "SECRETS=" + string(secrets)}, t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the program has not started: ", err)
	}
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + strings.TrimSpace(port)}
}

// A body whose bytes change if a program parses and writes it again.
const unusualBody = "{ \"id\": \"evt_1\",\r\n\t\"object\": \"event\", \"type\": \"invoice.paid\", \"n\": 1.50e3, \"text\": \"gr\u00f6\u00dfe \\u00e9 <>&\\/ \u2028\" }\n"

// signedByLibrary returns a webhook with a signature of the provider's library. Slack's library signs nothing.
func signedByLibrary(t *testing.T, provider, gateway, program string) *http.Request {
	t.Helper()
	r, err := send.Sample{Provider: provider, Body: []byte(unusualBody)}.Request(t.Context(), gateway+ingest.Path("acme", provider), secretOf(provider), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	name := map[string]string{"github": "X-Hub-Signature-256", "stripe": "Stripe-Signature"}[provider]
	if name == "" {
		return r
	}
	resp, err := testClient.Post(program+"/sign/"+provider, "application/json", strings.NewReader(unusualBody))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	signature, err := io.ReadAll(resp.Body)
	if err != nil || len(signature) < 64 {
		t.Fatalf("the library of %s signed %q, %v", provider, signature, err)
	}
	r.Header.Set(name, string(signature))
	return r
}

func TestLibrariesOfProvidersVerifyForwardedWebhooks(t *testing.T) {
	program := startLibraries(t)
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	var tampers atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(program)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if tampers.Load() {
			body[len(body)/2] ^= 1
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	for _, provider := range []string{"github", "stripe", "slack"} {
		if provider != "github" {
			mustRun(t, "source create "+provider+" --provider "+provider+" --secret "+secretOf(provider))
		}
		resp, err := testClient.Do(signedByLibrary(t, provider, gateway.url, program.String()))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: the gateway answered %d to a webhook that the provider's library signed, want 200", provider, resp.StatusCode)
		}
		tampers.Store(false)
		clitest.WantInOrder(t, mustRun(t, "listen "+provider+" --since 5m --count 1 --forward "+between.URL+"/"+provider), "  200  ")
		tampers.Store(true)
		got := runCommand("listen", "--replay", "latest", "--forward", between.URL+"/"+provider)
		if got.Code != 1 || !strings.Contains(got.Stdout, "  401  ") {
			t.Errorf("%s with a changed byte: got %+v, want exit code 1 and the answer 401", provider, got)
		}
	}
}
