package pg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// ApplyOptions selects how ApplyTenant applies a configuration.
type ApplyOptions struct {
	DryRun bool // return the changes without making them
	Prune  bool // delete the tenant's sources, routes and subscriptions that the configuration does not name
}

// ApplyTenant changes a tenant to match a configuration, in one transaction. It returns one
// Change for each resource of the configuration and each pruned one. Resources that the
// configuration does not name stay, unless o.Prune is set; a tenant is never deleted. Applying
// a configuration twice changes nothing the second time. The error is KindConflict if the
// tenant is closed, if it would have too many routes, targets or subscriptions, or if several
// subscriptions have a name of the configuration. A dry run locks nothing. The caller must have
// validated the configuration.
func (db *DB) ApplyTenant(ctx context.Context, by eventhook.Actor, want eventhook.TenantConfig, o ApplyOptions) ([]eventhook.Change, error) {
	if !o.DryRun {
		if err := db.ensureSealing(ctx); err != nil {
			return nil, err
		}
	}
	var a configApply
	apply := func() (err error) {
		a, err = db.applyOnce(ctx, by, want, o)
		return err
	}
	err := db.retryDeadlocks(apply)
	if a.tenantExists {
		err = db.retryDeadlocks(apply)
	}
	return a.changes, err
}

func (db *DB) applyOnce(ctx context.Context, by eventhook.Actor, want eventhook.TenantConfig, o ApplyOptions) (configApply, error) {
	a := configApply{mutation: &mutation{db: db, by: by, batch: &pgx.Batch{}, dryRun: o.DryRun}, prune: o.Prune}
	run := db.inTx
	if o.DryRun {
		run = db.inSnapshot
	}
	err := run(ctx, "apply configuration", func(tx pgx.Tx) error {
		a.tx = tx
		if err := a.apply(ctx, want); err != nil {
			return err
		}
		return a.flush(ctx)
	})
	if err == nil && !o.DryRun {
		a.committed()
	}
	return a, err
}

// configApply is one run of ApplyTenant: it compares the stored configuration with the wanted
// one. It reads everything first, with a fixed number of queries, and sends its writes in
// batches, so that the cost of one source does not grow with their number.
type configApply struct {
	*mutation
	prune   bool
	changes []eventhook.Change
	// tenantExists is set if another transaction has created the tenant since this one
	// looked for it. The transaction then fails and can be retried.
	tenantExists bool
}

// report adds a change of a resource, which is named by its path below the tenant. An update
// without changed fields becomes ChangeUnchanged.
func (a *configApply) report(action eventhook.ChangeAction, kind string, fields []eventhook.FieldChange, path ...string) {
	if action == eventhook.ChangeUpdate && len(fields) == 0 {
		action, fields = eventhook.ChangeUnchanged, nil
	}
	name := strings.Join(append([]string{a.tenant.Slug}, path...), "/")
	a.changes = append(a.changes, eventhook.Change{Action: action, Kind: kind, Name: name, Fields: fields})
}

func (a *configApply) apply(ctx context.Context, want eventhook.TenantConfig) error {
	if err := a.applyTenant(ctx, want.Tenant); err != nil {
		return err
	}
	have, err := a.db.sourcesOf(ctx, a.tx, a.tenant.ID)
	if err != nil {
		return err
	}
	routes, err := a.db.routesOf(ctx, a.tx, a.tenant.ID)
	if err != nil {
		return err
	}
	left := make(map[string]eventhook.Source, len(have))
	for _, s := range have {
		left[s.Slug] = s
	}
	for _, s := range want.Sources {
		if existing, exists := left[s.Slug]; exists {
			err = a.applySource(ctx, existing, routes[existing.ID], s)
		} else {
			err = a.createSource(ctx, s)
		}
		if err != nil {
			return err
		}
		delete(left, s.Slug)
	}
	if err := a.pruneSources(ctx, left, routes); err != nil {
		return err
	}
	return a.applySubscriptions(ctx, want.Subscriptions)
}

// applyTenant locks the tenant's row: until the transaction ends, no other transaction changes
// resources of the tenant.
func (a *configApply) applyTenant(ctx context.Context, want eventhook.Tenant) error {
	find := lockTenant
	if a.dryRun {
		find = findTenant
	}
	have, err := find(ctx, a.tx, want.Slug)
	if eventhook.KindOf(err) == eventhook.KindNotFound {
		return a.createTenant(ctx, want)
	}
	if err != nil {
		return err
	}
	a.tenant = have
	if err := checkMutable(have, a.by); err != nil {
		return err
	}
	next := have
	next.Name = cmp.Or(want.Name, have.Name) // a name or quota that is not given stays
	if q := want.Quota.MaxEventsPerDay; q != nil {
		next.Quota.MaxEventsPerDay = q
	}
	if q := want.Quota.MaxStorageBytes; q != nil {
		next.Quota.MaxStorageBytes = q
	}
	fields, err := eventhook.Diff(recordOfTenant(have), recordOfTenant(next))
	if err != nil {
		return err
	}
	a.report(eventhook.ChangeUpdate, "tenant", fields)
	return a.updateTenant(ctx, next)
}

// createTenant sends its statement at once. It waits for a concurrent transaction that creates
// the same tenant, and then fails and sets
// tenantExists.
func (a *configApply) createTenant(ctx context.Context, want eventhook.Tenant) error {
	want.Name = cmp.Or(want.Name, want.Slug)
	a.tenant = newTenant(want, a.db.now())
	a.report(eventhook.ChangeCreate, "tenant", nil)
	err := a.insertTenant(ctx)
	if err == nil {
		err = a.sendBatch(ctx)
	}
	a.tenantExists = hasCode(err, codeUniqueViolation)
	return err
}

func (a *configApply) createSource(ctx context.Context, want eventhook.SourceConfig) error {
	if err := a.checkVerifier(eventhook.Source{}, want); err != nil {
		return err
	}
	a.report(eventhook.ChangeCreate, "source", nil, want.Slug)
	s, err := a.addSource(ctx, want.Source)
	if err != nil {
		return err
	}
	return a.applyRoutes(ctx, s, nil, want.Routes)
}

// checkVerifier returns the faults of the wanted verifier that the source's present verifier
// does not have. have is zero for a new source.
func (a *configApply) checkVerifier(have eventhook.Source, want eventhook.SourceConfig) error {
	var faults eventhook.Faults
	faults.Merge("sources["+want.Slug+"]", a.db.faultsOfNew(have.Verifier, want.Verifier))
	return faults.Err("the source cannot be applied")
}

func (a *configApply) applySource(ctx context.Context, have eventhook.Source, routes []eventhook.Route, want eventhook.SourceConfig) error {
	if err := a.checkVerifier(have, want); err != nil {
		return err
	}
	next := have
	next.Name, next.Provider, next.Verifier, next.SecretsCount = want.Name, want.Provider, want.Verifier, want.SecretsCount
	next.IsEnabled, next.SourceSettings, next.Consume = want.IsEnabled, want.SourceSettings, want.Consume
	s, fields, err := a.updateSource(ctx, have, next)
	if err != nil {
		return err
	}
	a.report(eventhook.ChangeUpdate, "source", fields, want.Slug)
	return a.applyRoutes(ctx, s, routes, want.Routes)
}

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
