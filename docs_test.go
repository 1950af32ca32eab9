package eventhook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestPagesNameTheDefaults(t *testing.T) {
	for page, texts := range map[string][]string{
		"README.md": {
			fmt.Sprintf("| `burst_size` | %d |", eventhook.DefaultBurstSize),
			fmt.Sprintf("| `requests_per_second` | %d |", eventhook.DefaultRequestsPerSecond),
			fmt.Sprintf("| `requests_per_minute` | %d |", eventhook.DefaultRequestsPerMinute),
			fmt.Sprintf("`max_body_bytes` (%d MiB by default, at most %d MiB", eventhook.DefaultMaxBodyBytes>>20, eventhook.LargestMaxBodyBytes>>20),
		},
		"docs/receiving.md": {
			fmt.Sprintf("after %d dead deliveries in a row (`disable_after_failures`)", eventhook.DefaultDisableAfterFailures),
			fmt.Sprintf("for up to %d h (`recovery.max_age_hours`)", eventhook.DefaultRecoveryHours),
		},
		"docs/operations.md": {fmt.Sprintf("at most %d operator subscriptions", eventhook.MaxOperatorSubscriptions)},
		"docs/targets.md":    {fmt.Sprintf("more than %d gateways", eventhook.MaxHops)},
	} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(raw), text) {
				t.Errorf("%s does not have %q", page, text)
			}
		}
	}
}

var (
	pageCode    = regexp.MustCompile("(?s)```.*?```")
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^a-z0-9_ -]`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	list := map[string]bool{}
	for _, h := range pageHeading.FindAllStringSubmatch(pageCode.ReplaceAllString(page, ""), -1) {
		list[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return list
}

func TestLinksBetweenPagesExist(t *testing.T) {
	pages, _ := filepath.Glob("docs/*.md") // the patterns are valid
	decisions, _ := filepath.Glob("docs/adr/*.md")
	for _, page := range append(append(pages, decisions...), "README.md", "CHANGELOG.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range pageLink.FindAllStringSubmatch(pageCode.ReplaceAllString(string(raw), ""), -1) {
			if !strings.Contains(link[1], "://") {
				checkLink(t, page, link[1])
			}
		}
	}
}

// checkLink checks that the file and the heading of a link exist.
func checkLink(t *testing.T, page, link string) {
	t.Helper()
	path, anchor, _ := strings.Cut(link, "#")
	target := page
	if path != "" {
		target = filepath.Join(filepath.Dir(page), path)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s: %s does not exist", page, link)
		return
	}
	if anchor == "" {
		return
	}
	if text, err := os.ReadFile(target); err != nil || !anchors(string(text))[anchor] {
		t.Errorf("%s: %s has no heading for the link %s", page, target, link)
	}
}

// pageCurl finds a command of curl that sends a body, up to the beginning of the body.
var pageCurl = regexp.MustCompile(`(?m)^curl (?:[^\n]*\\\n)*?[^\n]*?\s(-d|--data|--data-binary)\s`)

// The API answers 415 to a body without a content type. The management port reads any.
func TestCommandsOfPagesNameTheContentType(t *testing.T) {
	pages, _ := filepath.Glob("docs/*.md") // the pattern is valid
	found := 0
	for _, page := range append(pages, "README.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range pageCurl.FindAllString(string(raw), -1) {
			if found++; !strings.Contains(strings.ToLower(command), "content-type:") && !strings.Contains(command, "$MANAGEMENT") {
				t.Errorf("%s: a command has no Content-Type before its body:\n%s", page, command)
			}
		}
	}
	if found == 0 {
		t.Error("no page has a command of curl with a body: the test reads nothing")
	}
}
