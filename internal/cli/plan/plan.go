package plan

import (
	"fmt"
	"io"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// plan prints what applying does, or would do, like a diff, and counts it.
type Plan struct {
	w       io.Writer
	verbose bool // what is unchanged, too
	dry     bool
	counts  map[eventhook.ChangeAction]int
}

func New(w io.Writer, verbose, dry bool) *Plan {
	return &Plan{w: w, verbose: verbose, dry: dry, counts: map[eventhook.ChangeAction]int{}}
}

var planSigns = map[eventhook.ChangeAction]string{
	eventhook.ChangeCreate: "+", eventhook.ChangeUpdate: "~", eventhook.ChangeDelete: "-", eventhook.ChangeUnchanged: "=",
}

func (p *Plan) Add(changes []eventhook.Change) {
	for _, c := range changes {
		p.counts[c.Action]++
		if c.Action == eventhook.ChangeUnchanged && !p.verbose {
			continue
		}
		_, _ = fmt.Fprintf(p.w, "%s %s %s %s\n", planSigns[c.Action], c.Action, c.Kind, terminal.Quote(c.Name))
		for _, f := range c.Fields {
			_, _ = fmt.Fprintf(p.w, "    %s: %s\n", terminal.Quote(f.Field), shownChange(f))
		}
	}
}

// differs reports whether there is anything to do.
func (p *Plan) Differs() bool {
	return p.counts[eventhook.ChangeCreate]+p.counts[eventhook.ChangeUpdate]+p.counts[eventhook.ChangeDelete] > 0
}

func (p *Plan) Summary() string {
	format := "%d created, %d updated, %d deleted, %d unchanged"
	if p.dry {
		format = "%d to create, %d to update, %d to delete, %d unchanged"
	}
	return fmt.Sprintf(format, p.counts[eventhook.ChangeCreate], p.counts[eventhook.ChangeUpdate], p.counts[eventhook.ChangeDelete],
		p.counts[eventhook.ChangeUnchanged])
}

// shownChange is a field before and after. Of secrets, and of texts that are
// too long to be compared by eye, it says that they changed.
func shownChange(f eventhook.FieldChange) string {
	const longest = 200
	from, to := terminal.Quote(string(f.From)), terminal.Quote(string(f.To))
	switch {
	case f.Field == "secrets" || to == terminal.Quote(`"[redacted, changed]"`):
		return "changed"
	case len(from) > longest || len(to) > longest:
		return fmt.Sprintf("changed, %d -> %d bytes", len(f.From), len(f.To))
	}
	return from + " -> " + to
}
