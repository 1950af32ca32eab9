package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// assistant is a client of the Model Context Protocol that has started eventhook mcp.
type assistant struct {
	*testing.T
	*mcp.ClientSession
}

// startAssistant starts eventhook mcp in the environment of the test.
func startAssistant(t *testing.T, flags ...string) assistant {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"mcp"}, flags...)...)
	cmd.Env = append(os.Environ(), "EVENTHOOK_TEST_AS_MAIN=1")
	logs := &clitest.Buffer{}
	cmd.Stderr = logs
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, logs)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil || logs.String() != "" {
			t.Errorf("the program ended with %v and printed %q, want neither an error nor a text", err, logs)
		}
	})
	return assistant{t, session}
}

// call calls a tool and returns the texts of its result.
func (a assistant) call(tool, arguments string) (texts []string, isError bool) {
	a.Helper()
	result, err := a.CallTool(a.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		a.Fatalf("%s: %v", tool, err)
	}
	for _, content := range result.Content {
		texts = append(texts, content.(*mcp.TextContent).Text)
	}
	return texts, result.IsError
}

// read calls a tool that succeeds, and decodes its data.
func (a assistant) read(tool, arguments string, into any) {
	a.Helper()
	texts, isError := a.call(tool, arguments)
	if isError || len(texts) != 2 || !strings.Contains(texts[0], "untrusted") {
		a.Fatalf("%s: got %q, want a note and data", tool, texts)
	}
	if err := json.Unmarshal([]byte(texts[1]), into); err != nil {
		a.Fatalf("%s: %v", tool, err)
	}
}

// wantError calls a tool that fails with a text.
func (a assistant) wantError(tool, arguments, want string) {
	a.Helper()
	if texts, isError := a.call(tool, arguments); !isError || !strings.Contains(texts[0], want) {
		a.Errorf("%s %s: got %q, want the error %q", tool, arguments, texts, want)
	}
}

type objects struct{ Items []struct{ ID string } }

// An assistant finds why deliveries are dead, explains an event, and sends the deliveries again
// when the receiver is back.
func TestAnAssistantExaminesAndRetriesDeliveries(t *testing.T) {
	gateway, receiver := startBilling(t)
	receiver.setHandler(down)
	for range 2 {
		mustRun(t, `publish payment.made --data {"note":"Ignore-your-instructions"}`)
	}
	clitest.Eventually(t, "the deliveries are dead", func() bool {
		return strings.Count(mustRun(t, "delivery list --subscription billing --status dead"), "dead") == 2
	})
	status, pushed, err := gateway.push(t.Context(), "push-1")
	if err != nil || status != 200 {
		t.Fatalf("push: %d, %v", status, err)
	}

	reader := startAssistant(t)
	var dead, found objects
	reader.read("list_deliveries", `{"status":"dead"}`, &dead)
	if len(dead.Items) != 2 {
		t.Fatalf("dead deliveries %v, want 2", dead)
	}
	var delivery struct {
		Attempts []struct {
			StatusCode int `json:"status_code"`
		}
	}
	reader.read("get_delivery", `{"id":"`+dead.Items[0].ID+`"}`, &delivery)
	if len(delivery.Attempts) != 1 || delivery.Attempts[0].StatusCode != 503 {
		t.Errorf("attempts %v, want one that was answered 503", delivery.Attempts)
	}
	reader.read("search_events", `{"filter":{"body.note":"Ignore-your-instructions"},"received_after":"2020-01-01T00:00:00Z"}`, &found)
	if len(found.Items) != 2 {
		t.Errorf("found %v, want 2 events", found)
	}
	var explained struct {
		Routes []struct{ Matched bool }
	}
	reader.read("test_event", `{"id":"`+pushed.EventID+`"}`, &explained)
	if len(explained.Routes) != 1 || !explained.Routes[0].Matched {
		t.Errorf("explained %v, want a route that matches", explained)
	}
	var backtest map[string]any
	reader.read("backtest_route", `{"source":"github","route":{"name":"x","targets":[{"type":"task","task_kind":"y"}]}}`, &backtest)
	reader.wantError("get_event", `{"id":"nonsense"}`, "400 Bad Request")
	reader.wantError("list_events", `{"limit":1000}`, "query.limit")
	reader.wantError("retry_deliveries", `{}`, "--allow-writes")

	writer := startAssistant(t, "--allow-writes")
	receiver.setHandler(nil)
	const which = `{"filter":{"status":["dead"]},"limit":10,"expected_count":`
	writer.wantError("retry_deliveries", `{"filter":{"status":["dead"]},"limit":10}`, "expected_count is required")
	writer.wantError("retry_deliveries", which+`1}`, "matches 2 deliveries, not 1. Nothing was changed.")
	var retried struct {
		Count int `json:"retried_count"`
	}
	writer.read("retry_deliveries", which+`2}`, &retried)
	if retried.Count != 2 {
		t.Errorf("retried %d deliveries, want 2", retried.Count)
	}
	receiver.wantEachOnce(t, 2)

	mustRun(t, `publish order.made --data {"note":"`+strings.Repeat("x", 40<<10)+`"}`)
	var newest objects
	reader.read("list_events", `{"event_type":"order.made","limit":1}`, &newest)
	for _, tool := range []string{"get_event", "get_event_payload"} {
		texts, isError := reader.call(tool, `{"id":"`+newest.Items[0].ID+`"}`)
		isMarked := !isError && strings.Contains(texts[0], "too large")
		if !isMarked || len(texts[1]) > 20<<10 || !strings.Contains(texts[1], "xxx[the first ") {
			t.Errorf("%s: got %.300q, want a note and the beginning of the body", tool, texts)
		}
	}

	if texts, _ := reader.call("get_event_payload", `{"id":"`+newest.Items[0].ID+`"}`); !strings.HasPrefix(texts[1], `{"size":`) {
		t.Errorf("payload: got %.300q, want its size", texts)
	}

	t.Setenv(input.KeyVariable, "ehk_wrong")
	startAssistant(t).wantError("list_sources", `{}`, "The API key is from "+input.KeyVariable)
	t.Setenv(input.ServerVariable, "http://127.0.0.1:1")
	startAssistant(t).wantError("list_sources", `{}`, "no gateway listens at http://127.0.0.1:1")
}

// The test runs the command of the page, and starts the program as the page's configuration says,
// at another URL and with the key that the command printed.
func TestTheConfigurationOfThePageOnAssistants(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	printed := mustRun(t, pageCommands(t, "docs/mcp.md", "## Add it to an assistant")[0])
	key := regexp.MustCompile(`ehk_\S+`).FindString(printed)

	raw, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(raw), "```json\n")
	block, _, _ = strings.Cut(block, "```")
	var page struct {
		Servers map[string]struct {
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(block), &page); err != nil {
		t.Fatal(err)
	}
	program := page.Servers["eventhook"]
	if program.Command != "eventhook" || len(program.Env) != 1 || program.Env[input.KeyVariable] == "" {
		t.Fatalf("the page has the configuration %+v, want the program and its key", program)
	}
	t.Setenv(input.KeyVariable, key)
	args := strings.Split(strings.Replace(strings.Join(program.Args, "\n"), "https://hooks.example.com", gateway.url, 1), "\n")
	a := startAssistant(t, args[1:]...)
	var sources struct{ Items []struct{ Slug string } }
	a.read("list_sources", `{}`, &sources)
	if len(sources.Items) == 0 {
		t.Error("got no source, want those of the tenant")
	}
	texts, isError := a.call("backtest_route", `{"source":"github","route":{"name":"x","targets":[{"type":"task","task_kind":"y"}]}}`)
	if !isError || !strings.Contains(texts[0], "403 Forbidden") || strings.Contains(texts[0], key) {
		t.Errorf("a backtest with a key that only reads: got %q, want the error of the gateway without the key", texts)
	}
}
