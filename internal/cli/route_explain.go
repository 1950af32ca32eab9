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
	cmd := r.verb("test [NAME]", "Test routes with a stored event, without effects", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if event == "" {
			return input.Usagef("--event is required: the id of an event, or latest")
		}
		id, err := s.eventID(cmd.Context(), event, "")
		if err != nil {
			return err
		}
		x, err := s.TestEvent(cmd.Context(), s.tenant, id, s.keepBody())
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
	cmd.Example = `  eventhook route test --event latest             test all routes with the newest webhook
  eventhook route test payments --event 0199…     test one route, and show the inputs of its targets
  eventhook route test --event 0199… -o json`
	cmd.Flags().StringVar(&event, "event", "", "id of a stored event, or latest for the newest webhook (required)")
	return cmd
}

// onlyRoute returns the route with this name or id, and removes the other routes
// from the stored answer.
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

// showRouteTest prints the result of one route and the inputs of its targets.
func showRouteTest(w io.Writer, r client.RouteExplanation) error {
	if err := showRoutes(w, []client.RouteExplanation{r}); err != nil || isUndecided(r) {
		return err
	}
	return showActions(w, r.Actions, terminal.Printable)
}

// showActions prints the input of each target, or why the target would fail. fit
// shortens a line.
func showActions(w io.Writer, actions []client.ActionExplanation, fit func(string) string) error {
	for _, a := range actions {
		text := a.TargetType + " gets " + cmp.Or(inline(a.Input), "null")
		switch failure := textOf(a.Error); {
		case failure != "":
			text = a.TargetType + " would fail: " + failure
		case a.InputLeftOut != nil && *a.InputLeftOut:
			text = a.TargetType + " gets an input that is too large to show"
		}
		if _, err := fmt.Fprintf(w, "    %s\n", fit(text)); err != nil {
			return err
		}
	}
	return nil
}
