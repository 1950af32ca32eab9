package portal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/internal/web"
)

// headersText returns headers as lines of a form.
func headersText(headers map[string]string) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&lines, "%s: %s\n", name, headers[name])
	}
	return lines.String()
}

// parseHeaders returns the headers of a form, which has one on each line. A line that is not a
// header becomes a fault; the API checks names and values.
func parseHeaders(f *web.Form) map[string]string {
	headers := map[string]string{}
	for line := range strings.Lines(f.Get("headers")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			f.AddFault("headers", "a line has no colon; write each header as Name: value")
			continue
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return headers
}
