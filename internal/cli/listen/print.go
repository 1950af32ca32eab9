package listen

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// note prints a line for the user.
func (f *forwarder) note(format string, args ...any) {
	_, _ = fmt.Fprintln(f.Printer.Hints, terminal.Printable(fmt.Sprintf(format, args...)))
}

// print prints an exchange on a line, and with Prints its content.
func (f *forwarder) print(x *exchange) error {
	if f.Printer.JSON {
		return terminal.PrintLine(f.Printer.Out, f.jsonOf(x))
	}
	if _, err := fmt.Fprintln(f.Printer.Out, x.line()); err != nil || !f.Prints || x.request == nil {
		return err
	}
	return printContent(f.Printer.Out, "", x.request.Header, x.body)
}

// line returns: time, source, event type, method and path, result, and id.
func (x *exchange) line() string {
	result := "printed"
	switch {
	case x.Error != nil && x.StatusCode != nil:
		result = fmt.Sprintf("%d, then %s", *x.StatusCode, *x.Error)
	case x.Error != nil:
		result = "failed: " + *x.Error
	case x.StatusCode != nil:
		result = fmt.Sprint(*x.StatusCode)
	}
	if x.DurationMS != nil {
		result += fmt.Sprintf("  %d ms", *x.DurationMS)
	}
	if x.Replayed {
		result += "  (again)"
	}
	sent := ""
	if x.request != nil {
		sent = x.Method + " " + cmp.Or(x.request.URL.RequestURI(), "/") + "  "
	}
	return fmt.Sprintf("%s  %s  %s  %s%s  %s", x.ReceivedAt.Local().Format("15:04:05"), terminal.Cell(text(x.Source), terminal.MaxWidth), terminal.Cell(x.EventType, terminal.MaxWidth),
		terminal.Printable(sent), terminal.Printable(result), x.EventID)
}

// printDetails prints the request and the answer of an exchange.
func (f *forwarder) printDetails(x *exchange) error {
	w := f.Printer.Hints
	if _, err := fmt.Fprintln(w, x.line()); err != nil || x.request == nil {
		return err
	}
	if err := printContent(w, "> ", x.request.Header, x.body); err != nil || x.answer == nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "< %s\n", terminal.Printable(x.answer.Status)); err != nil {
		return err
	}
	return printContent(w, "< ", x.answer.Header, x.excerpt)
}

// maxPrinted limits a printed body, in bytes.
const maxPrinted = 8 << 10

// printContent prints headers and the beginning of a body, each line after a prefix.
func printContent(w io.Writer, prefix string, header http.Header, body []byte) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if value != "" {
				fmt.Fprintf(&b, "%s%s: %s\n", prefix, terminal.Printable(name), terminal.Printable(value))
			}
		}
	}
	fmt.Fprintln(&b, prefix)
	shown := body[:min(len(body), maxPrinted)]
	if !utf8.Valid(body) {
		shown = fmt.Appendf(nil, "(%d bytes that are not text)", len(body))
	}
	for line := range strings.Lines(string(shown)) {
		fmt.Fprintln(&b, prefix+terminal.Printable(strings.TrimSuffix(line, "\n")))
	}
	if len(body) > maxPrinted && utf8.Valid(body) {
		fmt.Fprintf(&b, "%s… (%d bytes in all)\n", prefix, len(body))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// jsonExchange is the JSON output for an exchange.
type jsonExchange struct {
	*exchange
	Headers    http.Header     `json:"headers,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 string          `json:"body_base64,omitempty"`
}

// jsonOf returns an exchange for the JSON output, with Prints also its headers and its body: JSON as
// it is, other text as a string, and other bytes in base64.
func (f *forwarder) jsonOf(x *exchange) jsonExchange {
	out := jsonExchange{exchange: x}
	if !f.Prints || x.request == nil {
		return out
	}
	out.Headers = x.request.Header
	switch {
	case json.Valid(x.body):
		out.Body = x.body
	case utf8.Valid(x.body):
		out.Body, _ = json.Marshal(string(x.body)) // cannot fail for a string
	default:
		out.BodyBase64 = base64.StdEncoding.EncodeToString(x.body)
	}
	return out
}
