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

// listFlags are the flags for the pages of a list.
type listFlags struct {
	limit  int
	all    bool
	cursor string
}

const (
	defaultLimit = 50
	maxPerPage   = 250 // limit of the API
)

// addTo defines the flags.
func (f *listFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.limit, "limit", cmp.Or(f.limit, defaultLimit), "maximum number of items")
	cmd.Flags().BoolVar(&f.all, "all", false, "list all items")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "cursor that an earlier list printed, to continue it")
}

// readPage reads one page of a list, and stores its body in session.raw.
type readPage[T any] func(limit *int64, cursor *string) (items []T, next *string, err error)

// printList reads and prints a list page by page, so that a long list does not use
// more memory. The JSON output is one document, in the form of the API.
func printList[T any](s *session, f *listFlags, read readPage[T], columns []column[T]) error {
	if f.limit < 1 {
		return input.Usagef("--limit %d, want at least 1", f.limit)
	}
	var cursor *string
	if f.cursor != "" {
		cursor = &f.cursor
	}
	isFirst := true
	for printed := 0; ; {
		n := int64(maxPerPage)
		if !f.all {
			n = min(n, int64(f.limit-printed))
		}
		items, next, err := read(&n, cursor)
		if err != nil {
			return err
		}
		printed += len(items)
		isLast := next == nil || !f.all && printed >= f.limit
		if cursor = next; len(items) == 0 && !isLast { // the gateway searches on
			continue
		}
		if err := printPage(s, columns, items, isFirst, isLast); err != nil || isLast {
			s.printMore(next)
			return err
		}
		isFirst = false
	}
}

func printPage[T any](s *session, columns []column[T], items []T, isFirst, isLast bool) error {
	switch {
	case s.JSON:
		return joinPages(s.Out, s.raw, isFirst, isLast)
	case isFirst && len(items) == 0:
		s.Say("No items.")
		return nil
	case len(items) == 0:
		return nil
	}
	return printTable(s.Out, columns, items, !isFirst)
}

// printMore prints how to list the next page, unless the output is JSON.
func (s *session) printMore(next *string) {
	if next != nil && !s.JSON {
		_, _ = fmt.Fprintf(s.Hints, "There are more items: use --all, or --cursor %s\n", *next)
	}
}

// joinPages prints a page as a part of one JSON document. A single page is printed
// unchanged.
func joinPages(w io.Writer, raw []byte, isFirst, isLast bool) error {
	if isFirst && isLast {
		return printJSON(w, raw)
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
		Next  json.RawMessage   `json:"next_cursor"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return fmt.Errorf("the answer is not a list: %w", err)
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
