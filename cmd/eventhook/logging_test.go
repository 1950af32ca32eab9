package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// wantJSONLines checks that each line is a JSON object with a level and a message.
func wantJSONLines(t *testing.T, claim, text string) {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		t.Errorf("%s: nothing was written to stderr", claim)
	}
	for line := range strings.Lines(text) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "" || entry.Msg == "" {
			t.Errorf("%s: the line %q is no JSON object with level and msg", claim, line)
		}
	}
}

// The log of serve is JSON from its first line, also if the command or the configuration is wrong.
func TestErrorsAtTheStartAreJSON(t *testing.T) {
	clitest.ClearEnvironment(t)
	bad := clitest.WriteFile(t, "bad.yaml", "log: {format: json}\nlistn: \":1\"\nadmin_key: short-s3cr3t\n")
	for _, c := range []struct {
		claim, format string
		args          []string
		code          int
	}{
		{"an unknown flag", "", []string{"serve", "--log-format", "json", "--listn", ":1"}, 2},
		{"an unknown command", "json", []string{"srve"}, 2},
		{"an extra argument", "json", []string{"serve", "now"}, 2},
		{"an invalid flag", "", []string{"serve", "--log-format=json", "--listen", "here"}, 2},
		{"an unknown setting in a file that wants JSON", "", []string{"serve", "--config", bad}, 2},
		{"a missing file", "json", []string{"check", "--config", "nowhere.yaml"}, 2},
		{"a database that cannot be reached", "json", []string{"migrate", "--database-url", "postgres://u:s3cr3t@127.0.0.1:1/x"}, 1},
	} {
		t.Setenv("EVENTHOOK_LOG_FORMAT", c.format)
		got := runCommand(c.args...)
		if got.Code != c.code || strings.Contains(got.Stderr, "s3cr3t") {
			t.Errorf("%s: exit code %d, want %d; stderr: %s", c.claim, got.Code, c.code, got.Stderr)
		}
		wantJSONLines(t, c.claim, got.Stderr)
	}
	t.Setenv("EVENTHOOK_LOG_FORMAT", "json")
	if got := runCommand("event", "list", "--wrong"); !strings.HasPrefix(got.Stderr, "eventhook: ") {
		t.Errorf("a command that calls the API wrote %q, want text", got.Stderr)
	}
}

func TestTheLogOfAGatewayIsJSONAndItsLevelFollowsTheFile(t *testing.T) {
	file := clitest.WriteFile(t, "gateway.yaml", "log: {level: info, format: json}\n")
	gateway := startInstance(t, pgtest.New(t), "EVENTHOOK_CONFIG="+file)
	level := func(method, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, strings.Replace(gateway.metrics, "/metrics", "/log-level", 1), bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := testClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		var view struct{ Level string }
		raw, _ := io.ReadAll(answer.Body)
		if err := json.Unmarshal(raw, &view); err != nil {
			t.Fatalf("%d %s", answer.StatusCode, raw)
		}
		return view.Level
	}
	if got := level(http.MethodPut, `{"level":"debug","for_seconds":600}`); got != "debug" {
		t.Errorf("the level is %s, want debug", got)
	}
	if err := os.WriteFile(file, []byte("log: {level: warn, format: json}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway.signal(syscall.SIGHUP)
	clitest.Eventually(t, "SIGHUP sets the level of the file", func() bool { return level(http.MethodGet, "") == "warn" })
	if err := os.WriteFile(file, []byte("log: {level: loud}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway.signal(syscall.SIGHUP)
	clitest.Eventually(t, "a broken file is logged", func() bool { return strings.Contains(gateway.logs.String(), "the log keeps its level") })
	if got := level(http.MethodGet, ""); got != "warn" {
		t.Errorf("after a broken file the level is %s, want warn", got)
	}
	gateway.stop()
	wantJSONLines(t, "a gateway", gateway.logs.String())
}
