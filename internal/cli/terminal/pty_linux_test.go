package terminal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func TestAQuestionIsAnsweredOnTheTerminal(t *testing.T) {
	for answer, confirmed := range map[string]bool{"y\n": true, "YES\n": true, " yes \n": true, "n\n": false, "\n": false, "yeah\n": false} {
		user, program := clitest.OpenTerminal(t, 80)
		cmd := &cobra.Command{}
		cmd.SetIn(program)
		cmd.SetErr(program)
		var c terminal.Confirmation
		c.AddTo(cmd)
		if _, err := user.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		if err := c.Ask(cmd, "delete the source x\x1b[2J"); (err == nil) != confirmed {
			t.Errorf("%q: got %v, want confirmed %t", answer, err, confirmed)
		}
		clitest.ReadUntil(t, user, "Delete the source x [2J? [y/N] ")
	}
}

func TestNothingIsAskedWithYes(t *testing.T) {
	cmd := &cobra.Command{}
	var c terminal.Confirmation
	c.AddTo(cmd)
	if err := cmd.Flags().Set("yes", "true"); err != nil {
		t.Fatal(err)
	}
	if err := c.Ask(cmd, "delete it"); err != nil {
		t.Error(err)
	}
}

func TestOnlyATerminalHasAWidthAndColors(t *testing.T) {
	_, program := clitest.OpenTerminal(t, 57)
	null, err := os.Open(os.DevNull) // a character device, and no terminal
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	t.Setenv("TERM", "xterm")
	for _, c := range []struct {
		claim, noColor, term string
		w                    *os.File
		colors               bool
		columns              int
	}{
		{"a terminal", "", "xterm", program, true, 57},
		{"NO_COLOR", "1", "xterm", program, false, 57},
		{"a terminal without colors", "", "dumb", program, false, 57},
		{"/dev/null", "", "xterm", null, false, 0},
	} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got, columns := terminal.HasColors(c.w), terminal.Columns(c.w); got != c.colors || columns != c.columns {
			t.Errorf("%s: got colors %t and %d columns, want %t and %d", c.claim, got, columns, c.colors, c.columns)
		}
	}
}

// printed returns what a table prints on a terminal with a width.
func printed(t *testing.T, table terminal.Table, columns uint16) []string {
	t.Helper()
	user, program := clitest.OpenTerminal(t, columns)
	if err := table.Print(program); err != nil {
		t.Fatal(err)
	}
	if _, err := program.WriteString("<end>"); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(clitest.ReadUntil(t, user, "<end>"), "\r\n<end>"), "\r\n")
}

func TestATableFitsTheTerminalAndHasColors(t *testing.T) {
	const id = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
	table := terminal.Table{Titles: []string{"ID", "STATUS", "LAST ERROR"}, Rows: [][]string{{id, "dead", strings.Repeat("é", 70)}, {id, "pending", "x"}}}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	lines := printed(t, table, 70)
	if len(lines) != 3 || len([]rune(lines[1])) != 70 || !strings.HasPrefix(lines[1], id+"  dead     é") || !strings.HasSuffix(lines[1], "…") {
		t.Errorf("got %q, want lines of 70 characters with whole ids", lines)
	}
	if lines = printed(t, table, 20); !strings.Contains(lines[1], id) {
		t.Errorf("a narrow terminal: got %q, want whole ids", lines)
	}
	t.Setenv("NO_COLOR", "")
	lines = printed(t, table, 70)
	if !strings.Contains(lines[1], "\x1b[31mdead     \x1b[0m") || strings.Contains(lines[2], "\x1b") || !strings.HasPrefix(lines[0], "\x1b[1mID") {
		t.Errorf("got %q, want bold titles and a red status", lines)
	}
	var file strings.Builder
	if err := table.Print(&file); err != nil || strings.Contains(file.String(), "\x1b") || !strings.Contains(file.String(), strings.Repeat("é", 70)) {
		t.Errorf("a file: got %q, %v, want whole cells without colors", &file, err)
	}
}

func TestANarrowTableShortensTimesAndLeavesOutColumns(t *testing.T) {
	const id = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
	table := terminal.Table{Titles: []string{"ID", "RECEIVED", "EVENT TYPE", "STATUS", "RETRIES", "LAST ERROR"},
		Rows: [][]string{{id, "2026-11-23T07:12:02Z", "payment_intent.succeeded", "processing", "0", "-"}}}
	t.Setenv("NO_COLOR", "1")
	for columns, want := range map[uint16]string{
		140: id + "  2026-11-23T07:12:02Z  payment_intent.succeeded  processing  0        -",
		100: id + "  11-23 07:12  payment_intent.…  processing  0        -",
		80:  id + "  11-23 07:12  payment…  processing  0",
	} {
		lines := printed(t, table, columns)
		if len(lines) != 2 || lines[1] != want || len([]rune(lines[0])) > int(columns) {
			t.Errorf("%d columns: got %q, want %q", columns, lines, want)
		}
	}
}
