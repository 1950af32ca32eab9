package consolebudgets_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// Budgets of a page, in compressed bytes.
const (
	maxHTML   = 80 << 10
	maxStyle  = 24 << 10
	maxScript = 60 << 10
	maxFiles  = 6 // the document, a style sheet, two scripts, an icon, and a stream
)

// seededEvents fill the first page of each list.
const seededEvents = 1000

// TestEachPageKeepsItsBudgets opens each page twice. The browser has no files before the first time,
// and loads only the document the second time.
func TestEachPageKeepsItsBudgets(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	p := g.SignIn(t, gatewaytest.AdminKey, "/console")
	for _, page := range fill(t, g, "budgets", seededEvents) {
		p.ForgetFiles()
		keepsBudgets(t, p, page.name, g.URL+page.path)
	}
}

func keepsBudgets(t *testing.T, p *browsertest.Page, name, url string) {
	t.Helper()
	before := len(p.Requests())
	p.Open(url)
	p.WaitVisible("main h1")
	got := p.Transferred()
	t.Logf("%-28s %6d bytes of HTML, %d of style, %d of script", name, got.Document, got.Style, got.Script)
	if got.Document > maxHTML || got.Style > maxStyle || got.Script > maxScript {
		t.Errorf("%s: got %+v compressed bytes, want at most %d, %d and %d", name, got, maxHTML, maxStyle, maxScript)
	}
	if got.Style == 0 || got.Script == 0 || networkBytes(p) == 0 {
		t.Errorf("%s: got %+v, want a style and scripts from the network", name, got)
	}
	files, streams := countRequests(p.Requests()[before:])
	if files > maxFiles || streams > 1 {
		t.Errorf("%s: got %d files, %d streams, want at most %d and 1: %v", name, files, streams, maxFiles, p.Requests()[before:])
	}
	p.Open(url)
	if bytes := networkBytes(p); bytes > 0 {
		t.Errorf("%s: the second view loaded %d bytes beside the document, want 0", name, bytes)
	}
}

// networkBytes returns what the document loaded from the network, not from the browser's cache, without
// the results that a search requests.
func networkBytes(p *browsertest.Page) int {
	return browsertest.Eval[int](p, `performance.getEntriesByType("resource").
		filter(e => e.initiatorType !== "xmlhttprequest").reduce((sum, e) => sum + e.transferSize, 0)`)
}

// countRequests returns how many URLs were requested from the gateway, and how often a stream. An icon
// that the browser already has counts once.
func countRequests(requests []browsertest.Request) (files, streams int) {
	seen := map[string]bool{}
	for _, r := range requests {
		if strings.HasPrefix(r.URL, "http") {
			seen[r.URL] = true
		}
		if r.Type == "EventSource" {
			streams++
		}
	}
	return len(seen), streams
}
