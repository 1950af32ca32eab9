package browsertest

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// problems collects the faults of a page. The zero value is ready for use.
type problems struct {
	mu      sync.Mutex
	found   []string
	allowed []string
	origins []string
}

// Allow permits problems whose text contains a string, such as "console: Failed to load resource".
// The test fails if no problem contains it.
func (p *Page) Allow(text string) {
	p.problems.mu.Lock()
	defer p.problems.mu.Unlock()
	p.problems.allowed = append(p.problems.allowed, text)
}

// Problems returns the texts of the problems until now, also of those that Allow permits.
func (p *Page) Problems() []string {
	p.problems.mu.Lock()
	defer p.problems.mu.Unlock()
	return slices.Clone(p.problems.found)
}

// own adds the origin of a URL to the test's own.
func (p *problems) own(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.origins = append(p.origins, origin(address))
}

// permit adds an origin to the test's own, also for the requests until now.
func (p *problems) permit(origin string) {
	p.own(origin)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = slices.DeleteFunc(p.found, func(problem string) bool {
		return strings.HasPrefix(problem, foreign+origin+"/")
	})
}

// report returns the problems that are not allowed, and the allowed ones that did not occur.
func (p *problems) report() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var report []string
	for _, problem := range p.found {
		if !slices.ContainsFunc(p.allowed, func(text string) bool { return strings.Contains(problem, text) }) {
			report = append(report, problem)
		}
	}
	for _, text := range p.allowed {
		if !slices.ContainsFunc(p.found, func(problem string) bool { return strings.Contains(problem, text) }) {
			report = append(report, fmt.Sprintf("no problem contains %q, which the test allows", text))
		}
	}
	return report
}

func (p *problems) observe(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			p.add("console: %s", consoleText(e.Args))
		}
	case *runtime.EventExceptionThrown:
		p.add("exception: %s", exceptionText(e.ExceptionDetails))
	case *log.EventEntryAdded:
		p.addEntry(e.Entry)
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			by := cmp.Or(d.BlockedURL, string(d.ContentSecurityPolicyViolationType))
			p.add("csp: %s violated by %s", d.ViolatedDirective, by)
		}
	case *network.EventRequestWillBeSent:
		p.addForeign(e.Request.URL)
	case *network.EventWebSocketCreated:
		p.addForeign(e.URL)
	}
}

// foreign begins the text of a request to an origin that the test did not open.
const foreign = "foreign request: "

func (p *problems) add(format string, args ...any) {
	p.found = append(p.found, fmt.Sprintf(format, args...))
}

// addEntry adds errors of the browser's log.
func (p *problems) addEntry(e *log.Entry) {
	switch {
	case e.Source == log.EntrySourceSecurity && strings.Contains(e.Text, "Content Security Policy"):
		// The issue tells it too, and also of violations that are not logged.
	case e.Level == log.EntryLevelError:
		p.add("console: %s (%s)", e.Text, e.URL)
	}
}

func (p *problems) addForeign(address string) {
	at := origin(address)
	if at != "" && !slices.Contains(p.origins, at) {
		p.add("%s%s", foreign, address)
	}
}

// origin returns scheme and host of a URL, "" for URLs without a host such as data: and about:.
func origin(address string) string {
	at, err := url.Parse(address)
	if err != nil || at.Host == "" {
		return ""
	}
	return strings.Replace(at.Scheme, "ws", "http", 1) + "://" + at.Host // a WebSocket is of the page's origin
}

func consoleText(args []*runtime.RemoteObject) string {
	texts := make([]string, 0, len(args))
	for _, a := range args {
		text := a.Description
		if text == "" {
			text = strings.Trim(string(a.Value), `"`)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

func exceptionText(d *runtime.ExceptionDetails) string {
	text := d.Text
	if d.Exception != nil && d.Exception.Description != "" {
		text += " " + d.Exception.Description
	}
	return fmt.Sprintf("%s (%s:%d)", text, d.URL, d.LineNumber+1)
}
