package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// answer prints the body of the last answer if the output is JSON, and calls show
// otherwise.
func (s *session) answer(show func(w io.Writer) error) error {
	if s.JSON {
		return printJSON(s.Out, s.raw)
	}
	return show(s.Out)
}

// printJSON prints JSON with indentation and otherwise unchanged.
func printJSON(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// column is a column of a table.
type column[T any] struct {
	title string
	text  func(T) string
}

const columnGap = 2

// printTable prints items as a table. A continued table has no title row.
func printTable[T any](w io.Writer, columns []column[T], items []T, continued bool) error {
	t := terminal.Table{NoHead: continued}
	for _, c := range columns {
		t.Titles = append(t.Titles, c.title)
	}
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = terminal.Cell(c.text(item), terminal.MaxWidth)
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Print(w)
}

// field is a named value of an object. Fields without a value are not printed.
type field struct{ name, value string }

func printFields(w io.Writer, fields ...field) error {
	t := tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0)
	for _, f := range fields {
		if f.value != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", f.name, terminal.Printable(f.value)) // Flush returns the error
		}
	}
	return t.Flush()
}

// timeOr returns a time, or absent for nil.
func timeOr(t *time.Time, absent string) string {
	if t == nil {
		return absent
	}
	return terminal.Time(*t)
}

// textOf returns an optional text, "" for nil.
func textOf[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// numberOr returns a number, or absent for nil.
func numberOr(n *int64, absent string) string {
	if n == nil {
		return absent
	}
	return strconv.FormatInt(*n, 10)
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// inline returns a value as JSON on one line, "" for null.
func inline(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil || b.String() == "null\n" {
		return ""
	}
	return strings.TrimSpace(b.String())
}
