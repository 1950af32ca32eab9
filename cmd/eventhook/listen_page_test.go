package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const developmentPage = "docs/local-development.md"

// replaced replaces a text of commands, which must contain it.
func replaced(t *testing.T, commands, text, by string) string {
	t.Helper()
	if !strings.Contains(commands, text) {
		t.Fatalf("the commands do not contain %q:\n%s", text, commands)
	}
	return strings.ReplaceAll(commands, text, by)
}

// The commands run with libraries that are installed already, and with a free port.
func TestLocalDevelopmentPage(t *testing.T) {
	modules := libraries(t)
	gateway := startInstance(t, pgtest.New(t))
	_, port, _ := net.SplitHostPort(clitest.FreeAddress(t))
	block := replaced(t, pageBlocks(t, developmentPage, "## Five minutes")[0], "3000", port)
	block = replaced(t, block, "npm install --prefix app --silent stripe", "mkdir app; ln -s '"+modules+"' app/node_modules")
	got := gateway.shell(t, block)
	clitest.WantInOrder(t, got, "slug          laptop", "receives at      http://", `"status":"accepted"`, "Waiting for webhooks to forward to http://localhost:"+port+"/hooks")
	clitest.WantInOrder(t, got, "  stripe  invoice.paid  POST /hooks  200  ", "  stripe  customer.created  POST /hooks  200  ", "  customer.created  POST /hooks  200  ", "(again)",
		"listening", "verified invoice.paid", "verified customer.created", "verified customer.created")
}

func TestLocalDevelopmentPageOfASubscription(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	_, port, _ := net.SplitHostPort(clitest.FreeAddress(t))
	block := replaced(t, pageBlocks(t, developmentPage, "## Deliveries of a subscription")[0], "9000", port)
	got := gateway.shell(t, block)
	clitest.WantInOrder(t, got, "Published ", "to 1 subscription", "order.created  POST /")
	clitest.WantInOrder(t, got, "order.created", "  verified\n")
}

func TestLocalDevelopmentPageShowsWebhooks(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	if status, _, err := gateway.push(t.Context(), "one"); status != http.StatusOK {
		t.Fatal(status, err)
	}
	command := replaced(t, pageCommands(t, developmentPage, "## Show webhooks")[1], "stripe", "github")
	var shown map[string]any
	if err := json.Unmarshal([]byte(strings.SplitAfter(mustRun(t, command), "\n")[0]), &shown); err != nil {
		t.Fatal(err)
	}
	for _, member := range pageMembers(t, "## Show webhooks") {
		if _, exists := shown[member]; !exists && member != "body_base64" {
			t.Errorf("the page names the member %s, which is not in %v", member, shown)
		}
	}
}

// pageMembers returns the names of members in the text under a heading.
func pageMembers(t *testing.T, heading string) []string {
	t.Helper()
	raw, err := os.ReadFile("../../" + developmentPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "```")
	var members []string
	for _, m := range regexp.MustCompile("`([a-z][a-z_0-9]+)`").FindAllStringSubmatch(section, -1) {
		members = append(members, m[1])
	}
	if len(members) < 10 {
		t.Fatalf("found the members %v under %q", members, heading)
	}
	return members
}
