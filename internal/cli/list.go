package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// listFlags say how much of a list is wanted.
type listFlags struct {
	limit  int
	all    bool
	cursor string
}

const (
	defaultLimit = 50
	mostPerPage  = 250 // what the API gives at once
)

// addTo gives a command the flags of lists.
func (f *listFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.limit, "limit", cmp.Or(f.limit, defaultLimit), "how many, newest first")
	cmd.Flags().BoolVar(&f.all, "all", false, "all of them")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "go on where a list has ended")
}

// readPage reads one page of a list, and keeps it.
type readPage[T any] func(limit *int64, cursor *string) (items []T, next *string, err error)

// printList prints a list page by page, so that its length costs no memory. In
// JSON it is one document of the API's form.
func printList[T any](s *session, f *listFlags, read readPage[T], columns []column[T]) error {
	if f.limit < 1 {
		return input.Usagef("--limit %d, want at least 1", f.limit)
	}
	var cursor *string
	if f.cursor != "" {
		cursor = &f.cursor
	}
	for printed := 0; ; {
		n := int64(mostPerPage)
		if !f.all {
			n = min(n, int64(f.limit-printed))
		}
		items, next, err := read(&n, cursor)
		if err != nil {
			return err
		}
		isFirst := printed == 0
		printed += len(items)
		isLast := next == nil || !f.all && printed >= f.limit
		if err := printPage(s, columns, items, isFirst, isLast); err != nil || isLast {
			s.tellMore(next)
			return err
		}
		cursor = next
	}
}

func printPage[T any](s *session, columns []column[T], items []T, isFirst, isLast bool) error {
	switch {
	case s.JSON:
		return joinPages(s.Out, s.raw, isFirst, isLast)
	case isFirst && len(items) == 0:
		s.Say("There are none.")
		return nil
	}
	return printTable(s.Out, columns, items, !isFirst)
}

// tellMore tells a person how to go on.
func (s *session) tellMore(next *string) {
	if next != nil && !s.JSON {
		_, _ = fmt.Fprintf(s.Hints, "There are more: --all, or --cursor %s\n", *next)
	}
}

// joinPages prints a page as a part of one document. A page that is alone is
// printed as it is.
func joinPages(w io.Writer, raw []byte, isFirst, isLast bool) error {
	if isFirst && isLast {
		return printJSON(w, raw)
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
		Next  json.RawMessage   `json:"next_cursor"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return fmt.Errorf("the answer is no list: %w", err)
	}
	var b bytes.Buffer
	if isFirst {
		b.WriteString("{\n  \"items\": [")
	}
	for i, item := range page.Items {
		if !isFirst || i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		if err := json.Indent(&b, item, "    ", "  "); err != nil {
			return err
		}
	}
	if isLast {
		fmt.Fprintf(&b, "\n  ],\n  \"next_cursor\": %s\n}\n", page.Next)
	}
	_, err := b.WriteTo(w)
	return err
}
