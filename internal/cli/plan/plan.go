package plan

import (
	"fmt"
	"io"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// Plan prints the changes of an apply like a diff, and counts them by action.
type Plan struct {
	w       io.Writer
	verbose bool // print unchanged objects
	dry     bool
	counts  map[eventhook.ChangeAction]int
}

// New returns a plan that prints to w. A dry plan describes changes that are not
// applied.
func New(w io.Writer, verbose, dry bool) *Plan {
	return &Plan{w: w, verbose: verbose, dry: dry, counts: map[eventhook.ChangeAction]int{}}
}

var signs = map[eventhook.ChangeAction]string{
	eventhook.ChangeCreate: "+", eventhook.ChangeUpdate: "~", eventhook.ChangeDelete: "-", eventhook.ChangeUnchanged: "=",
}

// Add prints and counts changes.
func (p *Plan) Add(changes []eventhook.Change) {
	for _, c := range changes {
		p.counts[c.Action]++
		if c.Action == eventhook.ChangeUnchanged && !p.verbose {
			continue
		}
		_, _ = fmt.Fprintf(p.w, "%s %s %s %s\n", signs[c.Action], c.Action, c.Kind, terminal.Quote(c.Name))
		for _, f := range c.Fields {
			_, _ = fmt.Fprintf(p.w, "    %s: %s\n", terminal.Quote(f.Field), fieldChange(f))
		}
	}
}

// AddUnchanged counts objects that are not changed and that no change names.
func (p *Plan) AddUnchanged(n int) { p.counts[eventhook.ChangeUnchanged] += n }

// Differs reports whether a change would create, update or delete an object.
func (p *Plan) Differs() bool {
	return p.counts[eventhook.ChangeCreate]+p.counts[eventhook.ChangeUpdate]+p.counts[eventhook.ChangeDelete] > 0
}

// Summary returns a line with the number of changes by action.
func (p *Plan) Summary() string {
	format := "%d created, %d updated, %d deleted, %d unchanged"
	if p.dry {
		format = "%d to create, %d to update, %d to delete, %d unchanged"
	}
	return fmt.Sprintf(format, p.counts[eventhook.ChangeCreate], p.counts[eventhook.ChangeUpdate], p.counts[eventhook.ChangeDelete],
		p.counts[eventhook.ChangeUnchanged])
}

// fieldChange returns the old and the new value of a field. For secrets and for
// long values it only states that the value changed.
func fieldChange(f eventhook.FieldChange) string {
	const maxLength = 200
	from, to := terminal.Quote(string(f.From)), terminal.Quote(string(f.To))
	switch {
	case f.Field == "secrets" || to == terminal.Quote(`"[redacted, changed]"`):
		return "changed"
	case len(from) > maxLength || len(to) > maxLength:
		return fmt.Sprintf("changed, %d -> %d bytes", len(f.From), len(f.To))
	}
	return from + " -> " + to
}
