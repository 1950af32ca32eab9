package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newRoute(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("route", "Create, list, update, test and delete routes of a source", `Create, list, update, test and delete routes. A route selects events of a source
and passes them to targets. NAME is the name or the id of a route.

  eventhook route create payments --source stripe --type 'payment_intent.*' --workflow process-payment --queue payments
  eventhook route list --source stripe
  eventhook route update payments --source stripe --priority 10
  eventhook route disable payments --source stripe
  eventhook route reorder large payments --source stripe
  eventhook route test --event latest              test the routes with a stored event
  eventhook route backtest payments --source stripe  test a route with past events`, r,
		newRouteList(r), newRouteGet(r), newRouteCreate(r), newRouteUpdate(r), newRouteDelete(r),
		newRouteSwitch(r, "enable", true), newRouteSwitch(r, "disable", false), newRouteReorder(r),
		newRouteTest(r), newRouteBacktest(r))
}

// withSource adds the required flag --source to a command.
func withSource(cmd *cobra.Command, source *string) *cobra.Command {
	cmd.Flags().StringVar(source, "source", "", "slug of the source (required)")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *source == "" {
			return input.Usagef("--source is required")
		}
		return run(cmd, args)
	}
	return cmd
}

var routeColumns = []column[client.Route]{
	{"NAME", func(r client.Route) string { return r.Name }},
	{"PRIORITY", func(r client.Route) string { return strconv.FormatInt(r.Priority, 10) }},
	{"ENABLED", func(r client.Route) string { return yesOrNo(r.IsEnabled) }},
	{"EVENT TYPES", func(r client.Route) string { return cmp.Or(strings.Join(r.FilterEventTypes, ","), "all") }},
	{"OTHER FILTERS", otherFilters},
	{"TARGETS", func(r client.Route) string { return targetTexts(r.Targets) }},
	{"ID", func(r client.Route) string { return r.ID }},
}

// otherFilters lists the conditions other than the event type.
func otherFilters(r client.Route) string {
	var names []string
	if len(r.Filter) > 0 {
		names = append(names, "filter")
	}
	if r.FilterExpression != nil {
		names = append(names, "expression")
	}
	if r.FilterFunction != nil {
		names = append(names, "function")
	}
	return strings.Join(names, ",")
}

// targetTexts describes the targets of a route on one line.
func targetTexts(targets []client.Target) string {
	texts := make([]string, len(targets))
	for i, t := range targets {
		detail := textOf(cmp.Or(t.TaskKind, t.WorkflowKind, t.EventType, t.Subject, t.Topic, t.RoutingKey, t.Stream, t.QueueURL, t.URL))
		if t.Type == client.TargetTypePromise {
			detail = textOf(t.IdempotencyKeyPrefix) + textOf(t.IdempotencyKeyPath)
		}
		texts[i] = string(t.Type) + " " + detail
		if t.Engine != nil && *t.Engine == client.TargetEngineTemporal {
			texts[i] += " on Temporal"
		}
	}
	return strings.Join(texts, ", ")
}

func newRouteList(r *remote) *cobra.Command {
	var f listFlags
	var source string
	cmd := r.verb("list", "List routes of a source, in the order of evaluation", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Route, *string, error) {
			p, err := s.ListRoutes(cmd.Context(), s.tenant, source, client.ListRoutesParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, routeColumns)
	})
	f.addTo(cmd)
	return withSource(cmd, &source)
}

// routeID returns the id of the route with this name or id, or of the newest one for latest.
func (s *session) routeID(ctx context.Context, source, name string) (string, error) {
	if name == latest {
		return s.newestRoute(ctx, source, name)
	}
	for r, err := range s.AllRoutes(ctx, s.tenant, source, client.ListRoutesParams{Limit: new(int64(maxPerPage))}) {
		if err != nil {
			return "", err
		}
		if r.Name == name || strings.EqualFold(r.ID, name) {
			return r.ID, nil
		}
	}
	return "", fmt.Errorf("the source %s has no route %q; eventhook route list --source %[1]s shows its routes", source, terminal.Printable(name))
}

func (s *session) showRoute(r client.Route, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		fields := []field{{"name", r.Name}, {"id", r.ID}, {"enabled", yesOrNo(r.IsEnabled)}, {"priority", strconv.FormatInt(r.Priority, 10)},
			{"event types", cmp.Or(strings.Join(r.FilterEventTypes, ", "), "all")}, {"filter", inlineMap(r.Filter)},
			{"expression", textOf(r.FilterExpression)}, {"function", textOf(r.FilterFunction)}, {"transform", inline(r.Transform)}}
		for _, t := range r.Targets {
			fields = append(fields, field{"target", inline(t)})
		}
		return printFields(w, append(fields, field{"updated", terminal.Time(r.UpdatedAt)})...)
	})
}

func newRouteGet(r *remote) *cobra.Command {
	var source string
	return withSource(r.verb("get NAME", "Show a route", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.routeID(cmd.Context(), source, args[0])
		if err != nil {
			return err
		}
		return s.showRoute(s.GetRoute(cmd.Context(), s.tenant, source, id, s.keepBody()))
	}), &source)
}

func newRouteDelete(r *remote) *cobra.Command {
	var source string
	return deletes("route", withSource(r.verb("delete NAME", "Delete a route; its earlier results are kept", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			id, err := s.routeID(cmd.Context(), source, args[0])
			if err != nil {
				return err
			}
			if err := s.DeleteRoute(cmd.Context(), s.tenant, source, id, client.DeleteRouteParams{}); err != nil {
				return err
			}
			s.Say("The route %s is deleted.", terminal.Printable(args[0]))
			return nil
		}), &source))
}

func newRouteSwitch(r *remote, verb string, on bool) *cobra.Command {
	var source string
	short := map[bool]string{true: "Enable a route", false: "Disable a route"}[on]
	return withSource(r.verb(verb+" NAME", short, cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.routeID(cmd.Context(), source, args[0])
		if err != nil {
			return err
		}
		return s.showRoute(s.UpdateRoute(cmd.Context(), s.tenant, source, id, client.UpdateRouteParams{}, client.RoutePatch{IsEnabled: &on}, s.keepBody()))
	}), &source)
}

func newRouteReorder(r *remote) *cobra.Command {
	var source string
	cmd := r.verb("reorder NAME[=PRIORITY]...", "Change the priorities of routes, in one transaction", cobra.MinimumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		order, err := s.routeOrder(cmd.Context(), source, args)
		if err != nil {
			return err
		}
		list, err := s.ReorderRoutes(cmd.Context(), s.tenant, source, order, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return printTable(w, routeColumns, list.Items, false) })
	})
	cmd.Long = cmd.Short + `. A name
without a priority gets one by its position, in steps of 10; the last name gets
10. Other routes keep their priorities.`
	return withSource(cmd, &source)
}

// routeOrder returns the priorities that the arguments of reorder describe.
func (s *session) routeOrder(ctx context.Context, source string, args []string) (client.RouteOrder, error) {
	const step = 10
	var order client.RouteOrder
	for i, arg := range args {
		name, priority := arg, int64(step*(len(args)-i))
		if at := strings.LastIndexByte(arg, '='); at > 0 {
			n, err := strconv.ParseInt(arg[at+1:], 10, 64)
			if err != nil {
				return order, input.Usagef("a priority must be a number: NAME=PRIORITY")
			}
			name, priority = arg[:at], n
		}
		id, err := s.routeID(ctx, source, name)
		if err != nil {
			return order, err
		}
		order.Order = append(order.Order, client.RoutePlace{ID: id, Priority: priority})
	}
	return order, nil
}
