package terminal

import (
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// MaxWidth is the maximum length of a cell in a table, in characters.
const MaxWidth = 80

// Cell returns a printable text for a cell of a table. It cuts a text of more than
// maxLength characters and returns "-" for an empty text.
func Cell(s string, maxLength int) string {
	if s = Printable(s); s == "" {
		return "-"
	}
	if r := []rune(s); len(r) > maxLength {
		return string(r[:maxLength-1]) + "…"
	}
	return s
}

// Printable replaces control characters and bidirectional controls by spaces: a
// text that a sender chose must not move the cursor of a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Time formats a time in UTC as RFC 3339.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Quote quotes a text that contains characters which are not printable, and
// returns other texts as they are.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Address returns the address of a listener for a URL on this host: localhost
// instead of an unspecified address.
func Address(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
