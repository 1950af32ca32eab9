package console

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// curlCommand is a command that sends the request of an event again.
type curlCommand struct {
	Text string
	// LeftOut are headers whose values the gateway does not store.
	LeftOut []string
	// File is true if the command reads the body from the file that the page offers.
	File bool
}

// redacted stands for a credential in stored headers.
const redacted = "[redacted]"

// connectionHeaders belong to a connection or to a proxy, so that the command must not send them.
var connectionHeaders = []string{"accept-encoding", "connection", "content-length", "expect", "forwarded", "host", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "via", "x-real-ip"}

// CanCurl reports whether the page has a command that sends the event's request again.
func (s *story) CanCurl() bool { return s.Source != nil && s.Method != nil }

// curlOf returns a command for a webhook; nil for other events, and if the source is deleted.
func curlOf(s *story, body []byte) *curlCommand {
	if !s.CanCurl() {
		return nil
	}
	c := &curlCommand{}
	target := s.Source.IngestURL + s.PathSuffix
	if s.Query != "" {
		target += "?" + s.Query
	}
	lines := []string{"curl --globoff --request " + shellQuote(*s.Method), "--url " + shellQuote(target)}
	for _, h := range s.Payload.Headers {
		switch {
		case isConnectionHeader(h.Name):
		case strings.Contains(h.Value, redacted):
			c.LeftOut = append(c.LeftOut, h.Name)
		default:
			lines = append(lines, "--header "+shellQuote(h.Name+": "+h.Value))
		}
	}
	switch {
	case len(body) == 0:
	case len(body) <= copiedBody && isCopyable(body):
		lines = append(lines, "--data-raw "+shellQuote(string(body)))
	default:
		c.File = true
		lines = append(lines, "--data-binary "+shellQuote("@event-"+s.ID+extensionOf(s.ContentType)))
	}
	c.Text = strings.Join(lines, " \\\n  ")
	return c
}

func isConnectionHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(connectionHeaders, name) || strings.HasPrefix(name, "x-forwarded-")
}

// isHidden reports whether a terminal would interpret a character, or show the text around it in
// another order.
func isHidden(c rune) bool { return isControl(c) || unicode.Is(unicode.Bidi_Control, c) }

// isCopyable reports whether a body can be a word of a command without a change.
func isCopyable(body []byte) bool { return utf8.Valid(body) && !bytes.ContainsFunc(body, isHidden) }

// shellQuote returns a word of a POSIX shell with a text. Hidden characters become spaces, so that the
// command does what it shows.
func shellQuote(text string) string {
	text = strings.Map(func(c rune) rune {
		if isHidden(c) {
			return ' '
		}
		return c
	}, text)
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
