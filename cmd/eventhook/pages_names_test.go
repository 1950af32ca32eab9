package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// readPages returns the pages of docs and the README, by their paths.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found the pages %v, error %v", paths, err)
	}
	pages := map[string]string{}
	for _, path := range append(paths, "../../README.md") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(raw)
	}
	return pages
}

func TestVariablesAndSettingsOfThePagesExist(t *testing.T) {
	example, err := os.ReadFile("../../configs/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	variables := regexp.MustCompile(`\bEVENTHOOK_[A-Z0-9_]*[A-Z0-9]\b`)
	settings := regexp.MustCompile("`([a-z]+)\\.([a-z_.]+)`")
	sections := regexp.MustCompile(`(?m)^([a-z]+): *(#.*)?$`)
	isSection := map[string]bool{}
	for _, m := range sections.FindAllStringSubmatch(string(example), -1) {
		isSection[m[1]] = true
	}
	if !isSection["retention"] {
		t.Fatalf("found the sections %v", isSection)
	}
	clitest.ClearEnvironment(t)
	log := ingest.DefaultLogConfig().Name // the streams and the bucket of the log are no variables
	notVariables := []string{log, log + "_DEAD", log + "_SOURCES"}
	for path, page := range readPages(t) {
		names := slices.DeleteFunc(variables.FindAllString(page, -1), func(name string) bool { return slices.Contains(notVariables, name) })
		for _, m := range settings.FindAllStringSubmatch(page, -1) {
			isOther := m[1] == "route" || m[0] == "`outbound.publish`" // an event, or a place of evaluations
			if isSection[m[1]] && !isOther {
				names = append(names, "EVENTHOOK_"+strings.ToUpper(m[1]+"_"+strings.ReplaceAll(m[2], ".", "_")))
			}
		}
		for _, name := range names {
			t.Setenv(name, "x")
		}
		for line := range strings.Lines(runCommand("check").Stderr) {
			if strings.Contains(line, "there is no such variable") {
				t.Errorf("%s: %s", path, strings.TrimSpace(line))
			}
		}
		for _, name := range names {
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMetricsOfThePagesExist(t *testing.T) {
	pages := readPages(t)
	metrics := pages["../../docs/metrics.md"]
	raw, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := string(raw)
	name := regexp.MustCompile(`eventhook_[a-z0-9_]+\b`)
	known := name.FindAllString(metrics, -1)
	for _, path := range []string{"../../docs/operations.md", "../../docs/scaling.md", "../../docs/security.md", "../../docs/workers.md", "../../README.md"} {
		for _, got := range name.FindAllString(pages[path], -1) {
			family := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(got, "")
			isRule := strings.Contains(rules, "job:"+got+":")
			if !isRule && !slices.Contains(known, got) && !slices.Contains(known, family) {
				t.Errorf("%s: there is no metric %s", path, got)
			}
		}
	}
}

// The test does not run the commands. It checks that the subcommand and its flags exist.
func TestInlineCommandsOfThePagesExist(t *testing.T) {
	inline := regexp.MustCompile("`eventhook ([a-z][^`]*)`")
	flag := regexp.MustCompile(`(?:^|\s)(--[a-z-]+)`)
	n := 0
	for path, page := range readPages(t) {
		for _, m := range inline.FindAllStringSubmatch(page, -1) {
			n++
			command := strings.Join(strings.Fields(m[1]), " ")
			help := helpOf(command)
			if help == "" {
				t.Errorf("%s: `eventhook %s` is no command", path, command)
			}
			for _, f := range flag.FindAllStringSubmatch(command, -1) {
				if !regexp.MustCompile(f[1]+`\b`).MatchString(help) && help != "" {
					t.Errorf("%s: `eventhook %s` has no flag %s", path, command, f[1])
				}
			}
		}
	}
	if n == 0 {
		t.Error("found no command")
	}
}

// helpOf returns the help of the command with the most words at the beginning of a command line, or "".
func helpOf(command string) string {
	words := strings.Fields(command)
	for end := min(len(words), 3); end > 0; end-- {
		name := strings.Join(words[:end], " ")
		if strings.HasPrefix(words[end-1], "-") {
			continue
		}
		help := runCommand(append(strings.Fields(name), "--help")...).Stdout
		if strings.Contains(help, "\n  eventhook "+name+" ") || strings.Contains(help, "\n  eventhook "+name+"\n") {
			isName := len(words) > end && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(words[end])
			if isName && strings.Contains(help, "Available Commands:") {
				return "" // a misspelled subcommand of a group
			}
			return help
		}
	}
	return ""
}
