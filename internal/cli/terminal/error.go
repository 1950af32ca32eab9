package terminal

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// ErrPrinted is the error of a command that failed and has printed the reason
// already. The program prints nothing more.
var ErrPrinted = errors.New("the command failed")

// PrintError prints the error of a command. The faults of an invalid configuration
// or request are printed one on a line.
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

// printProblem prints the refusal of a gateway with all its faults.
func printProblem(w io.Writer, err error, p *client.Problem) {
	if len(p.Errors) == 0 {
		_, _ = fmt.Fprintln(w, "eventhook:", err)
		if p.Status == http.StatusInternalServerError && p.RequestID != "" {
			_, _ = fmt.Fprintln(w, "  The gateway's log has the cause: request_id="+p.RequestID)
		}
		return
	}
	_, _ = fmt.Fprintf(w, "eventhook: %d %s: %s\n", p.Status, p.Title, p.Detail)
	for _, f := range p.Errors {
		_, _ = fmt.Fprintf(w, "  %s: %s\n", f.Location, f.Message)
	}
}
