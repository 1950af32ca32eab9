package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// violation is an element that breaks a rule of axe-core.
type violation struct{ Rule, Target, Help string }

// axeScript returns the violations. It preloads no style sheets, which would be requests of the page.
const axeScript = `axe.run(document, {resultTypes: ["violations"], preload: false}).then(result =>
	result.violations.flatMap(v => v.nodes.map(n => ({Rule: v.id, Help: v.help,
		Target: n.target.join(" ") + "  " + n.html.slice(0, 200)}))))`

// Axe fails the test for each accessibility rule that the page breaks in its present state and
// variant. Without axe-core it skips the rest of the test; in CI it fails the test.
func (p *Page) Axe() {
	p.t.Helper()
	source := axeSource(p.t)
	for _, v := range run(p, "check the accessibility", axe(source)) {
		p.t.Errorf("axe: %s: %s\n\tat %s", v.Rule, v.Help, v.Target)
	}
}

// axe runs axe-core in an isolated world, in which the page's Content-Security-Policy does not apply
// and which the page's scripts do not see.
func axe(source string) chromedp.Action[[]violation] {
	return func(ctx context.Context, t *chromedp.Target) ([]violation, error) {
		tree, err := cdp.Call(ctx, t, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return nil, err
		}
		world, err := cdp.Call(ctx, t, page.CreateIsolatedWorld,
			page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
		if err != nil {
			return nil, err
		}
		inWorld := func(e *runtime.EvaluateParams) { e.ContextID = world.ExecutionContextID }
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](source+"\n;true", inWorld)); err != nil {
			return nil, fmt.Errorf("load axe-core: %w", err)
		}
		return chromedp.Run(ctx, chromedp.Evaluate[[]violation](axeScript, inWorld, chromedp.EvalAwaitPromise))
	}
}

// axeSource returns the script axe-core, which `make axe` installs. The rules for a missing axe-core
// are those of the other libraries from npm.
func axeSource(t testing.TB) string {
	t.Helper()
	pattern := filepath.Join(Root(t), ".cache", "axe-core-*[0-9]", "node_modules", "axe-core", "axe.min.js")
	found, _ := filepath.Glob(pattern) // the pattern is valid
	if len(found) > 0 {
		source, err := os.ReadFile(found[len(found)-1])
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(source))
	}
	const message = "axe-core is missing; `make test-programs` installs it with npm"
	_, err := exec.LookPath("npm")
	if err == nil && os.Getenv("CI") == "true" && os.Geteuid() == 0 && os.Getenv("EVENTHOOK_TEST_LIBRARIES") != "none" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}
