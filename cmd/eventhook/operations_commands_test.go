package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const runbook = "docs/operations.md"

// runbookBlock is a block of shell commands of the runbook. The comment after the block says
// how it is tested:
//
//   - none: TestTheCommandsOfTheRunbook runs the block as it stands, after the blocks before the
//     first section and the earlier blocks of its section, in one shell with runbookVariables.
//   - <!-- run by: TestName --> another test runs the block; TestName must exist.
//   - <!-- not run: REASON --> no test can run the block.
type runbookBlock struct {
	section, commands, runBy, notRun string
}

var runbookFence = regexp.MustCompile("(?ms)^```sh\n(.*?)\n```\n(?:\n*<!-- (run by|not run): (.*?) -->)?")

// runbookBlocks returns the blocks of a page in their order.
func runbookBlocks(page string) (blocks []runbookBlock) {
	for i, part := range strings.Split("\n"+page, "\n## ") {
		section, text, _ := strings.Cut(part, "\n")
		if i == 0 {
			section = ""
		}
		for _, b := range runbookFence.FindAllStringSubmatch(text+"\n", -1) {
			block := runbookBlock{section: section, commands: b[1]}
			switch b[2] {
			case "run by":
				block.runBy = b[3]
			case "not run":
				block.notRun = b[3]
			}
			blocks = append(blocks, block)
		}
	}
	return blocks
}

func TestBlocksOfARunbook(t *testing.T) {
	got := runbookBlocks("# Page\n```sh\nzero\n```\n## A\n```sh\none\ntwo\n```\ntext\n```sh\nthree\n```\n<!-- run by: TestX -->\n## B\n```yaml\nfour\n```\n```sh\nfive\n```\n\n<!-- not run: it ends\nthe machine -->\n")
	want := []runbookBlock{{commands: "zero"}, {section: "A", commands: "one\ntwo"}, {section: "A", commands: "three", runBy: "TestX"}, {section: "B", commands: "five", notRun: "it ends\nthe machine"}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("block %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

// Each section has a folder of its own. All sections use one gateway with the tenant acme, which
// has a source, an event, a subscription with a dead delivery, and a worker's task.
func TestTheCommandsOfTheRunbook(t *testing.T) {
	raw, err := os.ReadFile("../../" + runbook)
	if err != nil {
		t.Fatal(err)
	}
	blocks := runbookBlocks(string(raw))
	if fences := strings.Count(string(raw), "```sh"); len(blocks) == 0 || len(blocks) != fences {
		t.Fatalf("%s: found %d of %d blocks of commands; a block must not be indented", runbook, len(blocks), fences)
	}
	tests := testNames(t)
	var sections []string
	commands := map[string]string{}
	for _, b := range blocks {
		switch {
		case b.notRun != "":
		case b.runBy != "":
			if !tests[b.runBy] {
				t.Errorf("%s, %q: there is no test %s, which should run\n%s", runbook, b.section, b.runBy, b.commands)
			}
		default:
			if commands[b.section] == "" && b.section != "" {
				sections = append(sections, b.section)
			}
			commands[b.section] += b.commands + "\n"
		}
	}
	dsn := pgtest.New(t)
	gateway := startRunbookGateway(t, dsn)
	for _, section := range sections {
		t.Run(section, func(t *testing.T) {
			t.Log(gateway.shell(t, "PATH=$PWD/bin:$PATH\n"+commands[""]+commands[section], runbookVariables(gateway, dsn)...))
		})
	}
}

// runbookVariables are the variables of the page's shells.
func runbookVariables(i *instance, dsn string) []string {
	return []string{"EVENTHOOK_KEY=" + testAdminKey, "EVENTHOOK_TENANT=acme", "EVENTHOOK_ENCRYPTION_KEYS=" + testEncryptionKey,
		"DATABASE_URL=" + dsn, "MANAGEMENT=" + strings.TrimSuffix(i.metrics, "/metrics"), "EVENTHOOK_ADMIN_KEY=" + testAdminKey}
}

func startRunbookGateway(t *testing.T, dsn string) *instance {
	t.Helper()
	gateway, receiver := startDelivering(t, dsn, "EVENTHOOK_PPROF=true"), newSubscriber(t)
	gateway.at(t, testAdminKey)
	mustRun(t, `subscription create billing --type 'payment.*' --retry {"max_retries":0} --url `+receiver.url)
	mustRun(t, "send github --secret "+testSecret)
	receiver.setHandler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	gateway.mustPublish("payment.made", 1)
	clitest.Eventually(t, "a delivery is dead", func() bool {
		return strings.Contains(mustRun(t, "delivery list --status dead"), "payment.made")
	})
	receiver.setHandler(nil)
	return gateway
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testNames returns the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	const top = "../.."
	names := map[string]bool{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(path)
		for _, f := range testFunction.FindAllSubmatch(raw, -1) {
			names[string(f[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
