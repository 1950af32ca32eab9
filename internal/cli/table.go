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

// answer prints the answer that was kept, or for a person what show prints.
func (s *session) answer(show func(w io.Writer) error) error {
	if s.JSON {
		return printJSON(s.Out, s.raw)
	}
	return show(s.Out)
}

// printJSON indents JSON and changes nothing else of it.
func printJSON(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
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

// printTable prints items as a table; without a title row if it continues one.
func printTable[T any](w io.Writer, columns []column[T], items []T, continued bool) error {
	t := tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0)
	row := make([]string, len(columns))
	print := func() { _, _ = fmt.Fprintln(t, strings.Join(row, "\t")) } // Flush tells of errors
	if !continued {
		for i, c := range columns {
			row[i] = c.title
		}
		print()
	}
	for _, item := range items {
		for i, c := range columns {
			row[i] = terminal.Cell(c.text(item), terminal.MaxWidth)
		}
		print()
	}
	return t.Flush()
}

// field is a line about one thing; without a value it is left out.
type field struct{ name, value string }

func printFields(w io.Writer, fields ...field) error {
	t := tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0)
	for _, f := range fields {
		if f.value != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", f.name, terminal.Printable(f.value)) // see printTable
		}
	}
	return t.Flush()
}

func momentOr(t *time.Time, absent string) string {
	if t == nil {
		return absent
	}
	return terminal.Time(*t)
}

// textOf is an optional text, "" without one.
func textOf[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

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

// inline is a value as JSON on one line, "" for nothing.
func inline(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil || b.String() == "null\n" {
		return ""
	}
	return strings.TrimSpace(b.String())
}
