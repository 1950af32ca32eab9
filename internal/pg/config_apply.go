package pg

import (
	"context"
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
	a, err := db.applyOnce(ctx, by, want, o)
	if a.tenantExists {
		a, err = db.applyOnce(ctx, by, want, o)
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
	if err == nil {
		db.notifyAnnounced(a.announced)
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
	next.Name = want.Name
	if q := want.Quota.MaxEventsPerDay; q != nil { // a quota that is not named stays
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
	next.IsEnabled, next.SourceSettings = want.IsEnabled, want.SourceSettings
	s, fields, err := a.updateSource(ctx, have, next)
	if err != nil {
		return err
	}
	a.report(eventhook.ChangeUpdate, "source", fields, want.Slug)
	return a.applyRoutes(ctx, s, routes, want.Routes)
}
