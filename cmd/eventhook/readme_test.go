package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// The test runs the commands of the README unchanged, in a folder like that of make
// run.
func TestREADMEFirstFiveMinutes(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	got := gateway.shell(t, pageBlocks(t, "README.md", "### The first five minutes")[0])
	clitest.WantInOrder(t, got,
		"slug          shop",
		"key      ehk_", "scopes   read,manage",
		"receives at      http://", "/api/tenants/shop/eventhook/in/stripe",
		`"workflow_kind":"process-payment"`,
		`"status":"accepted"`, "eventhook event get ",
		"origin           source stripe, verified", "status           unrouted",
		`payments does not match: event type "payment_intent.succeeded" matches none of payment_intent.created`,
		"eventhook event reprocess ",
		"event types  payment_intent.*",
		"Reprocessed: 1",
		"status           delivered", "payments  workflow  success", "payments matches, for workflow")
}

// The test runs the commands of the README with another port, in a gateway that may
// send to this host.
func TestREADMESubscriber(t *testing.T) {
	_, port, _ := net.SplitHostPort(clitest.FreeAddress(t))
	gateway := startInstance(t, pgtest.New(t), "EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8,::1/128")
	got := gateway.shell(t, strings.ReplaceAll(pageBlocks(t, "README.md", "### Deliver an event to a subscriber")[0], "9000", port))
	clitest.WantInOrder(t, got,
		"Published ", "to 1 subscription",
		"status        success",
		"status        failed", "refused the connection",
		"The previous secret also signs",
		"status        success", "refused the connection",
		"status        success")
	if n := strings.Count(got, "  verified\n"); n != 3 {
		t.Errorf("%d events were verified, want 3:\n%s", n, got)
	}
}

// The test runs the commands of the page unchanged.
func TestConfigurationAsCodePage(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	raw, err := os.ReadFile("../../docs/configuration-as-code.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(raw), "<!-- A test runs this block as it stands. -->\n```sh\n")
	block, _, ended := strings.Cut(block, "\n```\n")
	if !ended {
		t.Fatal("the page has no block of commands")
	}
	clitest.WantInOrder(t, gateway.shell(t, block),
		"+ create tenant shop", "2 to create", "2 created", "0 to create, 0 to update, 0 to delete, 2 unchanged", "#   SHOP_GITHUB_SECRET_1", `secrets: ["${SHOP_GITHUB_SECRET_1}"]`)
}

// shell runs commands as a new user does: the program is in ./bin and the admin key in
// ./data. Only the URL of the gateway and env are configured.
func (i *instance) shell(t *testing.T, commands string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"data/admin.key": testAdminKey + "\n",
		"bin/eventhook":  "#!/bin/sh\nEVENTHOOK_TEST_AS_MAIN=1 exec '" + os.Args[0] + "' \"$@\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-euc", commands)
	sh.Dir, sh.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "EVENTHOOK_SERVER=" + i.url}, env...)
	var out bytes.Buffer
	sh.Stdout, sh.Stderr = &out, &out
	if err := sh.Run(); err != nil {
		t.Fatalf("%v; it printed:\n%s", err, &out)
	}
	return out.String()
}
