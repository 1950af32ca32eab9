package terminal

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// errSaid is returned by a command that failed and has printed the reason itself.
var ErrPrinted = errors.New("the command failed")

// printError prints an error of a command: of an invalid configuration or request
// each fault on a line of its own.
func PrintError(w io.Writer, err error) {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		printProblem(w, err, p)
		return
	}
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || len(e.Faults) == 0 {
		_, _ = fmt.Fprintln(w, "eventhook:", err)
		return
	}
	_, _ = fmt.Fprintf(w, "eventhook: %s:\n", e.Message)
	for _, f := range e.Faults {
		_, _ = fmt.Fprintf(w, "  %s: %s\n", f.Location, f.Message)
	}
}

// printProblem prints all that a gateway has said against a request.
func printProblem(w io.Writer, err error, p *client.Problem) {
	if len(p.Errors) == 0 {
		_, _ = fmt.Fprintln(w, "eventhook:", err)
		if p.Status >= http.StatusInternalServerError && p.RequestID != "" {
			_, _ = fmt.Fprintln(w, "  The gateway's log tells more, under request", p.RequestID)
		}
		return
	}
	_, _ = fmt.Fprintf(w, "eventhook: %d %s: %s\n", p.Status, p.Title, p.Detail)
	for _, f := range p.Errors {
		_, _ = fmt.Fprintf(w, "  %s: %s\n", f.Location, f.Message)
	}
}
