package receive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// The maximum size of a printed body in bytes: as text, and in a line of JSON.
const (
	maxPrinted = 8 << 10
	maxInline  = 1 << 20
)

// print prints a request as a block of text or as a line of JSON.
func (r *receiver) print(a *arrival) {
	if r.JSON {
		_ = terminal.PrintLine(r.Out, jsonArrival{a, inlineBody(a.body)})
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s\n", terminal.Time(a.At), terminal.Cell(a.EventType, terminal.MaxWidth), a.verdict())
	for _, f := range []struct{ name, value string }{{"event", a.EventID}, {"delivery", a.DeliveryID}, {"attempt", attemptText(a.Attempt)},
		{"signature", a.plainNote()}, {"answered", fmt.Sprint(a.Answered, " ", http.StatusText(a.Answered))}} {
		if f.value != "" {
			fmt.Fprintf(&b, "  %-10s %s\n", f.name, terminal.Printable(f.value))
		}
	}
	b.WriteString(bodyText(a.body))
	b.WriteString("\n\n")
	_, _ = r.Out.Write([]byte(b.String()))
}

// note prints a line about a request that is not an event. status 0 means that the
// request was not answered.
func (r *receiver) note(req *http.Request, status int, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := ""
	if status != 0 {
		answer = fmt.Sprintf(" is answered %d", status)
	}
	_, _ = fmt.Fprintf(r.notes, "(%s %s%s: %s.)\n", terminal.Cell(req.Method, terminal.MaxWidth), terminal.Cell(req.URL.Path, terminal.MaxWidth), answer, terminal.Printable(reason))
}

// verdict says whether the request is verified and whether it is a duplicate.
func (a *arrival) verdict() string {
	text := "not verified: " + a.result.failure
	if a.Verified {
		text = "verified"
		if by := a.result.verifiedBy; by != "secret" {
			text += " by " + by
		}
	}
	if a.Times > 1 {
		text += fmt.Sprintf("; duplicate, received %d times", a.Times)
	}
	return terminal.Printable(text)
}

// plainNote explains a plain signature that does not match although the request is
// verified.
func (a *arrival) plainNote() string {
	if !a.Verified || a.result.plainFailure == "" {
		return ""
	}
	return plainHeader + " was computed with another secret (during a rotation, with the new secret): " + a.result.plainFailure
}

func attemptText(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// jsonArrival is the JSON output for a request.
type jsonArrival struct {
	*arrival
	Body json.RawMessage `json:"body"`
}

// inlineBody returns a body as a JSON value: the body if it is JSON, else a string;
// null if it is too long.
func inlineBody(body []byte) json.RawMessage {
	switch {
	case len(body) > maxInline:
		return nil
	case json.Valid(body):
		return body
	}
	text, _ := json.Marshal(string(body)) // cannot fail for a string
	return text
}

// bodyText returns the beginning of a body for a terminal, indented if it is JSON.
func bodyText(body []byte) string {
	if len(body) == 0 {
		return "  (no body)"
	}
	shown, whole := body[:min(len(body), maxPrinted)], len(body) <= maxPrinted
	if json.Valid(body) {
		shown, whole = indent(body, maxPrinted)
	}
	lines := strings.Split(string(shown), "\n")
	for i := range lines {
		lines[i] = "  " + terminal.Printable(lines[i])
	}
	if !whole {
		lines = append(lines, fmt.Sprintf("  … (%d bytes in all)", len(body)))
	}
	return strings.Join(lines, "\n")
}

// indent formats JSON as json.Indent does, but stops after maxBytes bytes: the
// indentation of deeply nested JSON can be much larger than the JSON itself. whole
// reports whether the result is complete.
func indent(raw []byte, maxBytes int) (out []byte, whole bool) {
	depth, inString, escaped := 0, false, false
	newline := func() { out = append(append(out, '\n'), bytes.Repeat([]byte("  "), min(depth, maxBytes))...) }
	for i, c := range raw {
		if len(out) >= maxBytes {
			return out[:maxBytes], false
		}
		switch {
		case inString:
			out = append(out, c)
			inString = escaped || c != '"'
			escaped = !escaped && c == '\\'
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '"':
			out, inString = append(out, c), true
		case c == '{' || c == '[':
			out = append(out, c)
			if depth++; !closes(raw[i+1:]) {
				newline()
			}
		case c == '}' || c == ']':
			if depth--; !opens(out) {
				newline()
			}
			out = append(out, c)
		case c == ',':
			out = append(out, c)
			newline()
		case c == ':':
			out = append(out, ':', ' ')
		default:
			out = append(out, c)
		}
	}
	return out[:min(len(out), maxBytes)], len(out) <= maxBytes
}

// closes reports whether the rest begins with the end of an object or array.
func closes(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

// opens reports whether the output ends with the beginning of an object or array.
func opens(out []byte) bool { return out[len(out)-1] == '{' || out[len(out)-1] == '[' }
