package console_test

import (
	"strings"
	"testing"
)

// policy is the Content-Security-Policy of each page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// htmxConfig is the configuration of htmx in each page: htmx evaluates no text as a script, writes no
// style element, which the policy forbids, and keeps no page in the browser's storage.
const htmxConfig = `{"includeIndicatorStyles":false,"allowEval":false,"historyCacheSize":0,"defaultSettleDelay":0}`

func TestEveryPageHasThePolicyAndTheConfigurationOfHtmx(t *testing.T) {
	f, _ := newDocumented(t, adminOf)
	eachPattern(t, isEach, func(t *testing.T, pattern, _ string) {
		f.T = t
		page := f.open(pattern)
		if got := page.header.Get("Content-Security-Policy"); got != policy {
			t.Errorf("Content-Security-Policy, got %q, want %q", got, policy)
		}
		if strings.HasPrefix(page.header.Get("Content-Type"), "text/html") && page.header.Get("Location") == "" &&
			page.meta("htmx-config") != htmxConfig {
			t.Errorf("htmx-config, got %q, want %q", page.meta("htmx-config"), htmxConfig)
		}
	})
}

// meta returns the content of a meta element; "" without one.
func (r reply) meta(name string) string {
	r.Helper()
	for _, e := range r.elements() {
		if e.name == "meta" && e.attributes["name"] == name {
			return e.attributes["content"]
		}
	}
	return ""
}
