package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newRouteTest(r *remote) *cobra.Command {
	var event string
	cmd := r.verb("test [NAME]", "Tell what today's routes would do with a stored event; nothing is done", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if event == "" {
			return input.Usagef("which event? Name it with --event, by its id or latest")
		}
		id, err := s.eventID(cmd.Context(), event, "")
		if err != nil {
			return err
		}
		x, err := s.TestEvent(cmd.Context(), s.tenant, id, s.keep())
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return s.answer(func(w io.Writer) error { return showRoutes(w, x.Routes) })
		}
		one, err := s.onlyRoute(x.Routes, args[0])
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showRouteTest(w, one) })
	})
	cmd.Example = `  eventhook route test --event latest             what would happen now with the newest webhook?
  eventhook route test payments --event 0199…     why not, or what would its targets get?
  eventhook route test --event 0199… -o json`
	cmd.Flags().StringVar(&event, "event", "", "a stored event, by its id, or latest: the newest that a source has brought (required)")
	return cmd
}

// onlyRoute finds the route that is named, or given by its id, and keeps of the
// answer what is about it.
func (s *session) onlyRoute(routes []client.RouteExplanation, name string) (one client.RouteExplanation, err error) {
	i := slices.IndexFunc(routes, func(r client.RouteExplanation) bool { return r.Name == name || strings.EqualFold(r.ID, name) })
	if i < 0 {
		return one, fmt.Errorf("the event's source has no route %q", terminal.Printable(name))
	}
	var answer struct {
		Routes []json.RawMessage `json:"routes"`
	}
	if err := json.Unmarshal(s.raw, &answer); err != nil {
		return one, err
	}
	answer.Routes = answer.Routes[i : i+1]
	s.raw, err = json.Marshal(answer)
	return routes[i], err
}

// showRouteTest tells of one route what its targets would get, too.
func showRouteTest(w io.Writer, r client.RouteExplanation) error {
	if err := showRoutes(w, []client.RouteExplanation{r}); err != nil || isUntold(r) {
		return err
	}
	return showActions(w, r.Actions, terminal.Printable)
}

// showActions tells what each target would get, or why it would fail, in lines
// that are made to fit.
func showActions(w io.Writer, actions []client.ActionExplanation, fit func(string) string) error {
	for _, a := range actions {
		text := a.TargetType + " gets " + cmp.Or(inline(a.Input), "null")
		switch why := textOf(a.Error); {
		case why != "":
			text = a.TargetType + " would fail: " + why
		case a.InputLeftOut != nil && *a.InputLeftOut:
			text = a.TargetType + " gets what is too large to be shown"
		}
		if _, err := fmt.Fprintf(w, "    %s\n", fit(text)); err != nil {
			return err
		}
	}
	return nil
}
