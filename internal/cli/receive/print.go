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

// mostPrinted is how much of a body is shown to a person, and mostInline how
// much is in a line of JSON, in bytes.
const (
	mostPrinted = 8 << 10
	mostInline  = 1 << 20
)

// print prints a request: a block for a person, a line for a program.
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
	b.WriteString(shownBody(a.body))
	b.WriteString("\n\n")
	_, _ = r.Out.Write([]byte(b.String()))
}

// note tells of a request that is no event.
func (r *receiver) note(req *http.Request, status int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := ""
	if status != 0 {
		answer = fmt.Sprintf(" is answered %d", status)
	}
	_, _ = fmt.Fprintf(r.told, "(%s %s%s: %s.)\n", terminal.Cell(req.Method, terminal.MaxWidth), terminal.Cell(req.URL.Path, terminal.MaxWidth), answer, terminal.Printable(why))
}

// verdict tells whether it is verified, and whether it came before.
func (a *arrival) verdict() string {
	text := "not verified: " + a.judged.why
	if a.Verified {
		text = "verified"
		if by := a.judged.by; by != "secret" {
			text += " by " + by
		}
	}
	if a.Times > 1 {
		text += fmt.Sprintf("; again, for the %d. time", a.Times)
	}
	return terminal.Printable(text)
}

// plainNote tells why the plain signature is not one, where the other is.
func (a *arrival) plainNote() string {
	if !a.Verified || a.judged.plain == "" {
		return ""
	}
	return plainHeader + " is of another secret (during a rotation it is of the new one): " + a.judged.plain
}

func attemptText(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

type jsonArrival struct {
	*arrival
	Body json.RawMessage `json:"body"`
}

// inlineBody is a body as a JSON value: itself, or the text that it is; null if
// it is too long.
func inlineBody(body []byte) json.RawMessage {
	switch {
	case len(body) > mostInline:
		return nil
	case json.Valid(body):
		return body
	}
	text, _ := json.Marshal(string(body)) // a string
	return text
}

// shownBody is the beginning of a body as a person reads it: JSON on many
// lines, else the text. Nothing in it moves the cursor.
func shownBody(body []byte) string {
	if len(body) == 0 {
		return "  (no body)"
	}
	shown, whole := body[:min(len(body), mostPrinted)], len(body) <= mostPrinted
	if json.Valid(body) {
		shown, whole = indent(body, mostPrinted)
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

// indent puts JSON on many lines, as json.Indent does, but stops when most bytes
// are written: depth can make much of little. It reports whether that is all.
func indent(raw []byte, most int) (out []byte, whole bool) {
	depth, inString, escaped := 0, false, false
	newline := func() { out = append(append(out, '\n'), bytes.Repeat([]byte("  "), min(depth, most))...) }
	for i, c := range raw {
		if len(out) >= most {
			return out[:most], false
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
	return out[:min(len(out), most)], len(out) <= most
}

// closes reports whether an object or list ends where it has begun.
func closes(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

func opens(out []byte) bool { return out[len(out)-1] == '{' || out[len(out)-1] == '[' }
