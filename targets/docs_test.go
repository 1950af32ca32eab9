package targets

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```(go|json)\n(.*?)\n```$")
	section   = regexp.MustCompile("(?m)^## `([a-z_]+)`")
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/targets.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePageDescribesEachKindAndItsSettings(t *testing.T) {
	text := page(t)
	var names []string
	for _, m := range section.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		names = append(names, name)
		k, ok := kinds.find(name)
		if !ok {
			t.Errorf("the page has a section for %q, which is not a kind of target", name)
			continue
		}
		description, _, _ := strings.Cut(text[m[1]:], "\n## ")
		if strings.Contains(description, "\n| `engine` |") {
			_, temporal, _ := strings.Cut(text, "\n## Temporal\n")
			shared, _, _ := strings.Cut(temporal, "\n## ")
			description += shared
		}
		for _, member := range k.members() {
			if !regexp.MustCompile("\n\\| [^|]*`" + member.name + "`").MatchString(description) {
				t.Errorf("%s: the page does not describe %s", name, member.name)
			}
		}
	}
	if !slices.Equal(names, kinds.Names()) {
		t.Errorf("got sections for %v, want %v", names, kinds.Names())
	}
}

func TestTheTargetsOfThePageAreValid(t *testing.T) {
	checked := 0
	for _, block := range codeBlock.FindAllStringSubmatch(page(t), -1) {
		if block[1] != "json" || !strings.HasPrefix(block[2], `{"type"`) {
			continue
		}
		for all := json.NewDecoder(strings.NewReader(block[2])); all.More(); checked++ {
			var target json.RawMessage
			if err := all.Decode(&target); err != nil {
				t.Fatalf("%s: %v", block[2], err)
			}
			if _, faults := Parse(target, nil); len(faults) > 0 {
				t.Errorf("%s: got %v", target, faults)
			}
		}
	}
	if checked < len(kinds) {
		t.Errorf("got %d targets, want at least one of each kind", checked)
	}
}

// TestTheExampleOfThePageWorks checks that the code on the page equals reminder_test.go, and that the
// line on the page adds the example as a kind.
func TestTheExampleOfThePageWorks(t *testing.T) {
	source, err := os.ReadFile("reminder_test.go")
	if err != nil {
		t.Fatal(err)
	}
	const line = `	{"reminder", func() Settings { return new(reminder) }},`
	var code []string
	for _, block := range codeBlock.FindAllStringSubmatch(page(t), -1) {
		if block[1] == "go" {
			code = append(code, block[2])
		}
	}
	if len(code) != 2 || code[1] != line || !strings.HasSuffix(string(source), "\n\n"+code[0]+"\n") {
		t.Fatalf("got %d blocks of code, want the code of reminder_test.go and %s", len(code), line)
	}
	all := Table[Settings]{
		{"reminder", func() Settings { return new(reminder) }},
	}
	target, faults := all.Parse([]byte(`{"type":"reminder","assignee":"ops","token":"hush"}`), nil)
	if len(faults) > 0 || string(target.Settings) != `{"assignee":"ops","token":"[redacted]"}` {
		t.Fatalf("got %s, %v", target.Settings, faults)
	}
	if _, faults := all.Parse([]byte(`{"type":"reminder"}`), nil); len(faults) != 1 || faults[0].Location != "assignee" {
		t.Errorf("without its settings: got %v", faults)
	}
	x, err := compile(all, target, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	effect, err := x.Effect(&eventhook.Event{}, payload.New(nil, payload.HeaderBlock(nil), "", nil), time.Unix(0, 0))
	if err != nil || effect.Execution.Queue != "ops" {
		t.Errorf("got %+v, %v", effect, err)
	}
	target.Settings = []byte(`{"token":"[redacted]","assignee":"sales"}`)
	target.Secrets = eventhook.Secret{}
	stored, _ := all.Parse([]byte(`{"type":"reminder","assignee":"ops","token":"hush"}`), nil)
	if _, faults := all.KeepSecrets([]eventhook.Target{target}, []eventhook.Target{stored}); len(faults) != 1 || !strings.Contains(faults[0].Message, "assignee") {
		t.Errorf("another recipient of the secret: got %v, want a fault that names who", faults)
	}
}
