package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook/ingest"
)

const (
	prometheusDir = "../prometheus"
	rulesFile     = prometheusDir + "/rules.yaml"
	runbookFile   = "../../docs/operations.md"
	runbookURL    = "https://github.com/eventhook/eventhook/blob/main/docs/operations.md#"
)

// rule is a rule of rules.yaml: a recording rule, or an alert.
type rule struct {
	Record      string
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	readYAML(t, rulesFile, &file)
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", rulesFile)
	}
	return rules
}

func readAlerts(t *testing.T) []rule {
	t.Helper()
	return slices.DeleteFunc(readRules(t), func(r rule) bool { return r.Alert == "" })
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// program returns the path of a program that `make servers` installs. Without it, the test is
// skipped, except in CI as root.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
		t.Fatalf("%s is missing; `make servers` installs it", name)
	}
	t.Skipf("%s is missing (Debian: sudo apt-get install prometheus)", name)
	return ""
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob(prometheusDir + "/rules*_test.yaml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("got the files %q, %v; want tests of the rules", tests, err)
	}
	run := func(name string, args ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command(program(t, "promtool"), args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		})
	}
	run("check rules", "check", "rules", rulesFile)
	run("check config", "check", "config", prometheusDir+"/prometheus.yml")
	_, example, ok := strings.Cut(readText(t, runbookFile), "```yaml\n# prometheus.yml\n")
	if !ok {
		t.Fatalf("%s has no example of prometheus.yml", runbookFile)
	}
	example, _, _ = strings.Cut(example, "```")
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	run("check config of the runbook", "check", "config", file)
	for _, file := range tests {
		run(filepath.Base(file), "test", "rules", file)
	}
}

// alertCase is a case of a test of promtool.
type alertCase struct {
	AlertName string `yaml:"alertname"`
	Expected  []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

func readCases(t *testing.T) (cases []alertCase) {
	t.Helper()
	for _, name := range []string{"rules_test.yaml", "rules_slow_test.yaml"} {
		var file struct {
			Tests []struct {
				Cases []alertCase `yaml:"alert_rule_test"`
			}
		}
		readYAML(t, filepath.Join(prometheusDir, name), &file)
		for _, test := range file.Tests {
			cases = append(cases, test.Cases...)
		}
	}
	return cases
}

// isFiring reports whether a case expects the alert of a rule. Rules with the same name differ
// in their labels.
func (c alertCase) isFiring(r rule) bool {
	for _, alert := range c.Expected {
		matches := true
		for name, value := range r.Labels {
			matches = matches && alert.Labels[name] == value
		}
		if matches {
			return true
		}
	}
	return false
}

func TestEachAlertHasCasesThatFireAndThatDoNot(t *testing.T) {
	t.Parallel()
	cases := readCases(t)
	for _, r := range readAlerts(t) {
		firing, silent := 0, 0
		for _, c := range cases {
			switch {
			case c.AlertName != r.Alert:
			case c.isFiring(r):
				firing++
			default:
				silent++
			}
		}
		if firing == 0 || silent == 0 {
			t.Errorf("%s %v has %d cases that fire and %d that do not, want both", r.Alert, r.Labels, firing, silent)
		}
	}
}

// A dead receiver causes no page: TestPromtoolAcceptsTheRules checks the cases, and this test
// that they name every page.
func TestTheCasesOfADeadReceiverNameEveryPage(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Name  string
			Cases []alertCase `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, prometheusDir+"/rules_test.yaml", &file)
	found := 0
	for _, test := range file.Tests {
		if !strings.Contains(test.Name, "and no page") || !strings.Contains(test.Name, "dead") {
			continue
		}
		found++
		for _, r := range readAlerts(t) {
			isSilent := func(c alertCase) bool { return c.AlertName == r.Alert && !c.isFiring(r) }
			if r.Labels["severity"] == "page" && !slices.ContainsFunc(test.Cases, isSilent) {
				t.Errorf("%q does not check that %s is silent", test.Name, r.Alert)
			}
		}
	}
	if found == 0 {
		t.Error("there is no test of a dead receiver")
	}
}

func TestEachAlertSaysWhatHappensAndHasASectionOfTheRunbook(t *testing.T) {
	t.Parallel()
	page := readText(t, runbookFile)
	_, alerts, _ := strings.Cut(page, "\n## Alerts\n")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	for _, r := range readAlerts(t) {
		if s := r.Labels["severity"]; !slices.Contains([]string{"page", "ticket", "test"}, s) {
			t.Errorf("%s has the severity %q, want page, ticket or test", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || !strings.Contains(r.Annotations["description"], "{{ $") && r.Alert != "EventhookNotScraped" {
			t.Errorf("%s has the annotations %v, want a summary and a description with values", r.Alert, r.Annotations)
		}
		if want := runbookURL + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s has the runbook %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		_, section, found := strings.Cut(alerts, "\n### "+r.Alert+"\n")
		if !found {
			t.Errorf("%s has no section %q under Alerts", runbookFile, "### "+r.Alert)
			continue
		}
		section, _, _ = strings.Cut(section, "\n### ")
		for _, part := range []string{"**Meaning.**", "**Check.**", "**Action.**"} {
			if !strings.Contains(section, part) {
				t.Errorf("the section %s of %s has no %q", r.Alert, runbookFile, part)
			}
		}
	}
}

func TestEachSectionOfTheRunbookBelongsToAnAlert(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, r := range readAlerts(t) {
		names[r.Alert] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Eventhook\w+)$`).FindAllStringSubmatch(readText(t, runbookFile), -1) {
		if !names[m[1]] {
			t.Errorf("%s has a section %s, and there is no such alert", runbookFile, m[1])
		}
	}
}

// The objective for accepting webhooks counts the outcomes that package ingest defines.
func TestTheRulesCountTheOutcomesOfIngest(t *testing.T) {
	t.Parallel()
	counted := map[string]bool{}
	for _, r := range readRules(t) {
		if !strings.HasPrefix(r.Record, "job:eventhook_accept_errors:ratio") {
			continue
		}
		lists := regexp.MustCompile(`outcome=~"([^"]*)"`).FindAllStringSubmatch(r.Expr, -1)
		if len(lists) != 2 {
			t.Fatalf("%s has %d lists of outcomes, want two", r.Record, len(lists))
		}
		faults, all := strings.Split(lists[0][1], "|"), strings.Split(lists[1][1], "|")
		for _, o := range ingest.Outcomes() {
			counted[string(o)] = true
			if got := slices.Contains(faults, string(o)); got != o.IsFault() {
				t.Errorf("%s: outcome %s is a fault: %v, want %v", r.Record, o, got, o.IsFault())
			}
			if got := slices.Contains(all, string(o)); got != (o.IsFault() || o.IsSuccess()) {
				t.Errorf("%s: outcome %s counts: %v, want %v", r.Record, o, got, o.IsFault() || o.IsSuccess())
			}
		}
		for _, o := range all {
			if !counted[o] {
				t.Errorf("%s: there is no outcome %s", r.Record, o)
			}
		}
	}
	if len(counted) == 0 {
		t.Error("no rule counts outcomes")
	}
}
