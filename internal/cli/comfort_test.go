package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// completions returns the completions of a command line, without the directive.
func completions(t *testing.T, args ...string) string {
	t.Helper()
	out := runCommand(append([]string{"__complete"}, args...)...)
	values, directive, _ := strings.Cut(out.Stdout, ":")
	if out.Code != 0 || !strings.HasPrefix(directive, "4") {
		t.Errorf("%v: got %+v, want completions without files", args, out)
	}
	return strings.Join(strings.Fields(values), " ")
}

func TestValuesAreCompleted(t *testing.T) {
	clitest.ClearEnvironment(t)
	answers := map[string]string{
		inShop + "/sources": `[{"slug":"stripe"},{"slug":"github"}]`, inShop + "/subscriptions": `[{"name":"billing"}]`, "/api/admin/tenants": `[{"slug":"shop"}]`, ofOperator: `[{"name":"ops"}]`,
		inShop + "/providers": `[{"id":"github"},{"id":"gitlab"},{"id":"stripe"}]`, inShop + "/event-types": `[{"name":"payment.made"}]`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":`+answers[r.URL.Path]+`,"next_cursor":null}`)
	}))
	t.Cleanup(s.Close)
	t.Setenv(input.ServerVariable, s.URL)
	t.Setenv(input.KeyVariable, testAdminKey)
	t.Setenv(input.TenantVariable, "shop")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"event", "list", "--source", ""}, "github stripe"},
		{[]string{"event", "list", "--source", "st"}, "stripe"},
		{[]string{"event", "list", "--type", ""}, "payment.made"},
		{[]string{"event", "list", "--status", ""}, "pending processing delivered unrouted failed dead duplicate"},
		{[]string{"delivery", "list", "--status", ""}, "pending acquired success failed dead"},
		{[]string{"event", "list", "--output", ""}, "table json"},
		{[]string{"event", "list", "--tenant", ""}, "shop"},
		{[]string{"event", "get", ""}, "latest"},
		{[]string{"source", "create", "x", "--provider", "git"}, "github gitlab"},
		{[]string{"source", "get", ""}, "github stripe"},
		{[]string{"source", "create", ""}, ""},
		{[]string{"subscription", "pause", ""}, "billing latest"},
		{[]string{"subscription", "pause", "--operator", ""}, "ops latest"},
		{[]string{"subscription", "create", "x", "--from-tenant", ""}, "shop"},
		{[]string{"delivery", "list", "--subscription", ""}, "billing"},
		{[]string{"tenant", "get", ""}, "shop"},
		{[]string{"key", "create", "x", "--scope", ""}, "read manage publish work deliver"},
	} {
		if got := completions(t, c.args...); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
	s.Close()
	if got := completions(t, "event", "list", "--source", ""); got != "" {
		t.Errorf("without a gateway: got %q", got)
	}
}

func TestSimilarCommandsAreSuggested(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"evnt"}, "did you mean event"},
		{[]string{"event", "lst"}, "or list?"},
		{[]string{"subscription", "resum"}, "did you mean resume"},
	} {
		if out := runCommand(c.args...); out.Code != ExitUsage || !strings.Contains(out.Stderr, c.says) {
			t.Errorf("%v: got %+v, want %q", c.args, out, c.says)
		}
	}
	if out := runCommand("zzzzzzzz"); strings.Contains(out.Stderr, "did you mean") {
		t.Errorf("got %+v, want no suggestion", out)
	}
}

func TestRefusalsNameTheFlags(t *testing.T) {
	for _, c := range []struct {
		location string
		args     []string
		want     string
	}{
		{"query.received_after", []string{"event", "list", "--since", "7d"}, "  --since: m\n"},
		{"query.event_type", []string{"event", "list", "--type", "a"}, "  --type: m\n"},
		{"body.filter_event_types[0]", []string{"route", "create", "r", "--source", "s", "--type", "a", "--task", "b"}, "  --type: m\n"},
		{"body.idempotency_key", []string{"publish", "a.b", "--data", "1", "--idempotency-key", "k"}, "  --idempotency-key: m\n"},
		{"body.timeout_seconds", []string{"subscription", "update", someID, "--timeout", "99"}, "  --timeout: m\n"},
		{"body.targets[0].url", []string{"route", "create", "r", "--source", "s", "--task", "b"}, "  body.targets[0].url: m\n"},
		{"query.limit", []string{"event", "list"}, "  query.limit: m\n"},
		{"path.id", []string{"event", "payload", "7"}, "  \"7\": m\n"},
		{"body.event_ids[1]", []string{"event", "reprocess", "7", "8"}, "  \"8\": m\n"},
		{"body.event_ids[2]", []string{"event", "reprocess", "7", "8"}, "  body.event_ids[2]: m\n"},
		{"query.trace_id", []string{"event", "list", "--trace", "x"}, "  --trace-id: m\n"},
		{"body.url", []string{"subscription", "create", "x"}, "  body.url: m\n"},
	} {
		startFakeGateway(t, 422, `{"title":"T","status":422,"detail":"D.","errors":[{"location":"`+c.location+`","message":"m"}]}`)
		if out := runCommand(c.args...); out.Code != ExitUsage || !strings.Contains(out.Stderr, c.want) {
			t.Errorf("%s: got %+v, want %q", c.location, out, c.want)
		}
	}
}

func TestAMissingMemberNamesItsFlag(t *testing.T) {
	startFakeGateway(t, 422, `{"title":"T","status":422,"detail":"D.","errors":[{"location":"body.url","message":"is required"},{"location":"body.event_types","message":"is required"}]}`)
	if out := runCommand("subscription", "create", "x"); !strings.Contains(out.Stderr, "  --url: is required\n  --type: is required\n") {
		t.Errorf("got %+v, want the flags --url and --type", out)
	}
}

func TestSimilarFlagsAreSuggested(t *testing.T) {
	for flag, says := range map[string]string{
		"--typ": "unknown flag: --typ: did you mean --type?; see eventhook event list --help", "--statuses": "did you mean --status?",
		"--zzz": "unknown flag: --zzz; see eventhook event list --help",
	} {
		if out := runCommand("event", "list", flag, "x"); out.Code != ExitUsage || !strings.Contains(out.Stderr, says) {
			t.Errorf("%s: got %+v, want %q", flag, out, says)
		}
	}
}

func TestARefusedDeletionNamesItsFlag(t *testing.T) {
	startFakeGateway(t, 409, `{"title":"Conflict","status":409,"detail":"The source has 1 route: delete it with ?cascade=true."}`)
	if out := runCommand("source", "delete", "x", "--yes"); out.Code != ExitFailed || !strings.Contains(out.Stderr, "delete it with --cascade.") {
		t.Errorf("got %+v, want the flag --cascade", out)
	}
}

func TestAServerNeedsNoScheme(t *testing.T) {
	clitest.ClearEnvironment(t)
	for text, want := range map[string]string{
		"localhost:8080": "http://localhost:8080", "127.0.0.1:1": "http://127.0.0.1:1", "[::1]:8080": "http://[::1]:8080", "localhost": "http://localhost",
		"hooks.example.com": "https://hooks.example.com", "hooks.example.com:8443/a": "https://hooks.example.com:8443/a", " http://x ": "http://x", "10.0.0.1:80": "https://10.0.0.1:80",
	} {
		t.Setenv(input.ServerVariable, text)
		if got := input.ServerURL(""); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestTheAdminKeyVariableIsTheLastVariable(t *testing.T) {
	clitest.ClearEnvironment(t)
	t.Setenv("EVENTHOOK_ADMIN_KEY", "newest, oldest")
	if got, err := findKey("", "https://hooks.example.com"); got.text != "newest" || err != nil {
		t.Errorf("got %q, %v, want the newest admin key", got.text, err)
	}
	t.Setenv(input.KeyVariable, "k")
	if got, _ := findKey("", "https://hooks.example.com"); got.text != "k" {
		t.Errorf("got %q, want EVENTHOOK_KEY", got.text)
	}
}
