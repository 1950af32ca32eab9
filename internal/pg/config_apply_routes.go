package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/eventhook/eventhook"
)

func (a *configApply) applyRoutes(ctx context.Context, s eventhook.Source, have, want []eventhook.Route) error {
	left := make(map[string]eventhook.Route, len(have))
	for _, r := range have {
		left[r.Name] = r
	}
	if err := a.checkRouteLimits(s, left, want); err != nil {
		return err
	}
	ids := newIDsInOrder[eventhook.Route](a.db.now(), len(want)) // new routes of one priority are tried in the order of the configuration
	for i, r := range want {
		existing, exists := left[r.Name]
		delete(left, r.Name)
		r.ID = ids[i]
		if err := a.applyRoute(ctx, s, existing, exists, r); err != nil {
			return err
		}
	}
	if !a.prune {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		a.report(eventhook.ChangeDelete, "route", nil, s.Slug, name)
		if err := a.deleteRoute(ctx, s.Slug, left[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkRouteLimits returns a KindConflict if the configuration would bring a source above its
// maximum of routes, or of targets in all its routes. A source that is above a maximum already
// may stay there. Routes that are not named count, unless they are pruned.
func (a *configApply) checkRouteLimits(s eventhook.Source, have map[string]eventhook.Route, want []eventhook.Route) error {
	before, after := map[string]int{}, map[string]int{} // the numbers of targets by the route's name
	for name, r := range have {
		before[name] = len(r.Targets)
	}
	if !a.prune {
		maps.Copy(after, before)
	}
	for _, r := range want {
		after[r.Name] = len(r.Targets)
	}
	for _, c := range []struct {
		noun               string
		before, after, max int
	}{
		{"routes", len(before), len(after), eventhook.MaxRoutes},
		{"targets in all its routes", sum(before), sum(after), eventhook.MaxSourceTargets},
	} {
		if c.after > max(c.before, c.max) {
			return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf(
				"The source %q would have %d %s, including routes that the configuration does not name; at most %d are allowed.", s.Slug, c.after, c.noun, c.max)}
		}
	}
	return nil
}

func sum(counts map[string]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

func (a *configApply) applyRoute(ctx context.Context, s eventhook.Source, have eventhook.Route, exists bool, want eventhook.Route) error {
	if !exists {
		a.report(eventhook.ChangeCreate, "route", nil, s.Slug, want.Name)
		_, err := a.addRoute(ctx, s, want)
		return err
	}
	if sameJSON(have.Filter, want.Filter) {
		want.Filter = have.Filter
	}
	_, fields, err := a.updateRoute(ctx, s.Slug, have, want)
	a.report(eventhook.ChangeUpdate, "route", fields, s.Slug, want.Name)
	return err
}

// sameJSON reports whether two documents are equal, except for spacing and member order.
// Numbers are equal only if they are written alike.
func sameJSON(a, b json.RawMessage) bool {
	var values [2]any
	for i, raw := range []json.RawMessage{a, b} {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// pruneSources deletes the sources that were not named, with their routes.
func (a *configApply) pruneSources(ctx context.Context, left map[string]eventhook.Source, routes map[eventhook.SourceID][]eventhook.Route) error {
	if !a.prune {
		return nil
	}
	for _, slug := range slices.Sorted(maps.Keys(left)) {
		s := left[slug]
		for _, r := range routes[s.ID] {
			a.report(eventhook.ChangeDelete, "route", nil, slug, r.Name)
		}
		a.report(eventhook.ChangeDelete, "source", nil, slug)
		if err := a.deleteSource(ctx, s, routes[s.ID]); err != nil {
			return err
		}
	}
	return nil
}
