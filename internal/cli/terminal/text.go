package terminal

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// widest is how much of a text a table shows; what is longer is cut.
const MaxWidth = 80

// cell is a text in a table: on one line, of bearable width, never empty.
func Cell(s string, most int) string {
	if s = Printable(s); s == "" {
		return "-"
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// printable is a text that moves no cursor: what senders chose is in it.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// shownText is a text as a terminal may see it: a name can hold what moves its
// cursor.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// reachable is a listener's address as one would type it on this machine.
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

func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
