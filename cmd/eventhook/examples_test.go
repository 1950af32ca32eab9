package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/verify"
)

const examplesFolder = "../../configs/examples"

// examples returns the example files and folders that can be applied.
func examples(t *testing.T) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir(examplesFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) == ".yaml" {
			paths = append(paths, filepath.Join(examplesFolder, e.Name()))
		}
	}
	if len(paths) == 0 {
		t.Fatal("there is no example")
	}
	return paths
}

// variableIn matches the variables of an example. It skips comments, which contain
// shell commands.
var variableIn = regexp.MustCompile(`(?m)^[^#\n]*"\$\{([A-Z0-9_]+)\}"`)

// exampleVariables sets each variable of an example to a different value.
func exampleVariables(t *testing.T, path string) (env []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		for _, m := range variableIn.FindAllSubmatch(raw, -1) {
			env = append(env, string(m[1])+"=secret-of-"+string(m[1]))
			t.Setenv(string(m[1]), "secret-of-"+string(m[1]))
		}
		return err
	})
	if err != nil || len(env) == 0 {
		t.Fatalf("%s names no variables (%v)", path, err)
	}
	return env
}

// Each example can be applied, is unchanged by a second apply, and routes signed
// webhooks of its providers.
func TestExamples(t *testing.T) {
	sent := map[string]bool{}
	for _, path := range examples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dsn := pgtest.New(t)
			configured(t, dsn)
			env := exampleVariables(t, path)
			if got := runCommand("apply", "--database", "-f", path); got.Code != 0 || !strings.Contains(got.Stdout, " 0 unchanged\n") {
				t.Fatalf("got %+v, want the example to be applied", got)
			}
			if got := runCommand("apply", "--database", "-f", path, "--check", "--prune"); got.Code != 0 {
				t.Errorf("the applied example differs: %+v", got)
			}
			tenants, err := configs.LoadTenants(path, os.LookupEnv)
			if err != nil {
				t.Fatal(err)
			}
			gateway := startCommand(t, append(env, "DATABASE_URL="+dsn, "EVENTHOOK_ADMIN_KEY="+testAdminKey, "EVENTHOOK_ENCRYPTION_KEYS="+testEncryptionKey),
				"serve", "--apply", path)
			var accepted []string
			for _, c := range tenants {
				for _, s := range c.Sources {
					for _, r := range exampleRequests(t, s.Source, gateway.url+ingest.Path(c.Slug, s.Slug)) {
						accepted = append(accepted, wantAccepted(t, r))
						sent[s.Provider] = true
					}
				}
			}
			conn := connect(t, dsn)
			clitest.Eventually(t, "no event is open", func() bool {
				return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE due_at IS NOT NULL`) == 0
			})
			if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = ANY($1::uuid[]) AND status = 'delivered'`, accepted); n != len(accepted) {
				t.Errorf("%d of %d webhooks were delivered", n, len(accepted))
			}
		})
	}
	for _, provider := range []string{"github", "stripe", "slack"} {
		if !sent[provider] {
			t.Errorf("no example has a source of %s", provider)
		}
	}
}

// exampleRequests returns webhooks to a source, signed as its provider does.
func exampleRequests(t *testing.T, s eventhook.Source, to string) []*http.Request {
	t.Helper()
	secret := firstSecret(t, s)
	if s.Provider == "slack" {
		command := url.Values{"command": {"/deploy"}, "channel_name": {"ops"}, "trigger_id": {"1"}}.Encode()
		return []*http.Request{
			slackRequest(t, to, secret, "application/json", `{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention","text":"hi"}}`),
			slackRequest(t, to, secret, "application/x-www-form-urlencoded", command),
		}
	}
	if s.Provider != "github" && s.Provider != "stripe" {
		return nil
	}
	r, err := send.Sample{Provider: s.Provider, ID: s.TenantSlug + "-1"}.Request(t.Context(), to, secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return []*http.Request{r}
}

// slackRequest signs a request, see "Verifying requests from Slack" on docs.slack.dev.
func slackRequest(t *testing.T, to, secret, contentType, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Slack-Request-Timestamp", at)
	r.Header.Set("X-Slack-Signature", "v0="+hexHMAC(secret, fmt.Appendf(nil, "v0:%s:%s", at, body)))
	return r
}

func firstSecret(t *testing.T, s eventhook.Source) (first string) {
	t.Helper()
	spec, err := verify.ReadSpec(s.Verifier)
	if err != nil {
		t.Fatal(err)
	}
	spec.MapSecrets(func(_, secret string) string {
		if first == "" {
			first = secret
		}
		return secret
	})
	return first
}

// wantAccepted sends a request and returns the id of its event.
func wantAccepted(t *testing.T, r *http.Request) string {
	t.Helper()
	resp, err := testClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	var answer send.Answer
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil || resp.StatusCode != http.StatusOK || answer.Status != "accepted" {
		t.Fatalf("%s answered %d %s (%v), want a 2xx with an event id", r.URL.Path, resp.StatusCode, raw, err)
	}
	return answer.EventID
}
