package terminal

import (
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	columnGap = 2
	minColumn = 8 // a column is not made narrower
)

// Table prints rows of cells in columns. On a terminal, it shortens the widest columns until a
// row fits, but never a column of ids or statuses, and colors the titles and statuses. Times lose
// their year and seconds. If that is not enough, it leaves out columns, the last one first.
type Table struct {
	Titles []string
	Rows   [][]string // printable cells
	NoHead bool       // the titles are not printed
}

// Print writes the table to w.
func (t Table) Print(w io.Writer) error {
	columns := Columns(w)
	widths := t.widths(columns)
	for last := t.lastOptional(); columns > 0 && rowWidth(widths) > columns && last > 0; last = t.lastOptional() {
		t = t.without(last)
		widths = t.widths(columns)
	}
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
		cell = Cell(shortTime(cell, widths[i]), widths[i])
		if i < len(cells)-1 {
			cell += strings.Repeat(" ", widths[i]+columnGap-utf8.RuneCountInString(cell))
		}
		b.WriteString(paint(t.Titles[i], cell))
	}
	b.WriteByte('\n')
}

// isFixed reports whether the cells of a column are of use only as a whole.
func isFixed(title string) bool { return title == "ID" || title == "STATUS" }

// lastOptional returns the index of the last column that may be left out, or -1.
func (t Table) lastOptional() int {
	for i := len(t.Titles) - 1; i >= 0; i-- {
		if !isFixed(t.Titles[i]) {
			return i
		}
	}
	return -1
}

// without returns a copy of t without the column i.
func (t Table) without(i int) Table {
	cut := func(cells []string) []string { return slices.Concat(cells[:i], cells[i+1:]) }
	rows := make([][]string, len(t.Rows))
	for n, row := range t.Rows {
		rows[n] = cut(row)
	}
	return Table{Titles: cut(t.Titles), Rows: rows, NoHead: t.NoHead}
}

// rowWidth returns the number of characters of a row with columns of these widths.
func rowWidth(widths []int) int {
	total := columnGap * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	return total
}

// shortTime returns month, day, hour and minute of a time that does not fit, and other texts as
// they are.
func shortTime(cell string, width int) string {
	if at, err := time.Parse(time.RFC3339, cell); err == nil && len(cell) > width {
		return at.Format(shortTimes)
	}
	return cell
}

const shortTimes = "01-02 15:04"

// least returns the width below which the column i is not narrowed.
func (t Table) least(i, width int) int {
	if isFixed(t.Titles[i]) {
		return width
	}
	for _, row := range t.Rows {
		if _, err := time.Parse(time.RFC3339, row[i]); err == nil {
			return len(shortTimes)
		}
	}
	return minColumn
}

// widths returns the widths of the columns. If columns is not 0, rows have at most this many
// characters, as far as isFixed and least allow it.
func (t Table) widths(columns int) []int {
	widths, least := make([]int, len(t.Titles)), make([]int, len(t.Titles))
	for i, title := range t.Titles {
		if !t.NoHead {
			widths[i] = utf8.RuneCountInString(title)
		}
		for _, row := range t.Rows {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(row[i]), MaxWidth))
		}
		least[i] = t.least(i, widths[i])
	}
	for columns > 0 && rowWidth(widths) > columns {
		widest := -1
		for i, width := range widths {
			if width > least[i] && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		if least[widest] == len(shortTimes) {
			widths[widest] = least[widest]
		}
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
