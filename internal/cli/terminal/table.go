package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

const (
	columnGap = 2
	minColumn = 8 // a column is not made narrower
)

// Table prints rows of cells in columns. On a terminal, it shortens the widest columns until a
// row fits, but never a column of ids, and colors the titles and statuses.
type Table struct {
	Titles []string
	Rows   [][]string // printable cells
	NoHead bool       // the titles are not printed
}

// Print writes the table to w.
func (t Table) Print(w io.Writer) error {
	widths := t.widths(Columns(w))
	var b strings.Builder
	colors := HasColors(w)
	if !t.NoHead {
		t.line(&b, t.Titles, widths, func(_, padded string) string { return painted(colors, bold, padded) })
	}
	for _, row := range t.Rows {
		t.line(&b, row, widths, func(title, padded string) string {
			if title != "STATUS" {
				return padded
			}
			return painted(colors, statusColors[strings.TrimSpace(padded)], padded)
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line writes one row. paint may color a padded cell.
func (t Table) line(b *strings.Builder, cells []string, widths []int, paint func(title, padded string) string) {
	for i, cell := range cells {
		cell = Cell(cell, widths[i])
		if i < len(cells)-1 {
			cell += strings.Repeat(" ", widths[i]+columnGap-utf8.RuneCountInString(cell))
		}
		b.WriteString(paint(t.Titles[i], cell))
	}
	b.WriteByte('\n')
}

// widths returns the widths of the columns. If columns is not 0, rows have at most this many
// characters, as far as ids and minColumn allow it.
func (t Table) widths(columns int) []int {
	widths, total := make([]int, len(t.Titles)), columnGap*(len(t.Titles)-1)
	for i, title := range t.Titles {
		if !t.NoHead {
			widths[i] = utf8.RuneCountInString(title)
		}
		for _, row := range t.Rows {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(row[i]), MaxWidth))
		}
		total += widths[i]
	}
	for columns > 0 && total > columns {
		widest := -1
		for i, width := range widths {
			if t.Titles[i] != "ID" && width > minColumn && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// Escape sequences of ECMA-48 for a text.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// statusColors has the colors of statuses.
var statusColors = map[string]string{
	"dead": red, "failed": red, "rejected": red, "disabled": red, "closed": red,
	"success": green, "delivered": green, "completed": green, "resolved": green, "active": green,
	"unrouted": yellow, "suspended": yellow, "paused": yellow, "expired": yellow, "cancelled": yellow,
}

// painted returns a text in a color. The color "" changes nothing.
func painted(colors bool, color, text string) string {
	if !colors || color == "" {
		return text
	}
	return color + text + reset
}
