package main

import (
	"os"
	"strings"
	"testing"
)

// pageBlocks returns the blocks of shell commands of a page between a heading and the next one.
func pageBlocks(t *testing.T, page, heading string) (blocks []string) {
	t.Helper()
	raw, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut("\n"+string(raw), "\n"+heading+"\n")
	for i, part := range strings.Split("\n"+section, "\n```") { // texts and blocks by turns
		isText := i%2 == 0
		if isText && strings.Contains(part, "\n#") {
			break
		}
		if block, isShell := strings.CutPrefix(part, "sh\n"); isShell && !isText {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no commands under %q", page, heading)
	}
	return blocks
}

// pageCommands returns the commands of the program under a heading, without their comments.
func pageCommands(t *testing.T, page, heading string) (commands []string) {
	t.Helper()
	for line := range strings.Lines(strings.Join(pageBlocks(t, page, heading), "\n")) {
		if command, isOne := strings.CutPrefix(line, "eventhook "); isOne {
			command, _, _ = strings.Cut(command, "#")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// mustRun runs a command whose words may be quoted.
func mustRun(t *testing.T, command string) string {
	t.Helper()
	args := strings.Fields(command)
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	got := runCommand(args...)
	if got.Code != 0 {
		t.Fatalf("eventhook %s: got %+v", command, got)
	}
	return got.Stdout + got.Stderr
}

// runPage runs a command of a page, which must be its next one.
func runPage(t *testing.T, rest *[]string, command string) string {
	t.Helper()
	if len(*rest) == 0 || (*rest)[0] != command {
		t.Fatalf("the next commands of the page are %q, want %q", *rest, command)
	}
	*rest = (*rest)[1:]
	return mustRun(t, command)
}
