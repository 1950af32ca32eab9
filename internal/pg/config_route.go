package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

const routeColumns = `id, tenant_id, source_id, name, priority, is_enabled, filter_event_types, filter, filter_expression, filter_function, transform,
targets, target_secrets, version, created_at, updated_at`

func (db *DB) scanRoute(row pgx.CollectableRow) (eventhook.Route, error) { return db.scanRouteRow(row) }

// scanRouteRow scans a route with the secrets of its targets. If these do not open, because
// their encryption key is lost, it logs that, sets SecretsLost and returns the rest of the
// route.
func (db *DB) scanRouteRow(row pgx.Row) (r eventhook.Route, err error) {
	var filter, transform, targets []byte
	var sealed *string
	err = row.Scan((*[16]byte)(&r.ID), (*[16]byte)(&r.TenantID), (*[16]byte)(&r.SourceID), &r.Name, &r.Priority, &r.IsEnabled,
		&r.FilterEventTypes, &filter, &r.FilterExpression, &r.FilterFunction, &transform, &targets, &sealed, &r.Version, &r.CreatedAt, &r.UpdatedAt)
	if err != nil {
		return r, err
	}
	r.Filter = filter
	if transform != nil {
		if err := json.Unmarshal(transform, &r.Transform); err != nil {
			return r, err
		}
	}
	if err := json.Unmarshal(targets, &r.Targets); err != nil {
		return r, err
	}
	if unopened := db.openTargets(&r, sealed); unopened != nil {
		r.SecretsLost = true
		db.log.Error("the secrets of a route's targets cannot be opened", "route", r.ID, "error", unopened)
	}
	return r, nil
}

// SourceRouting returns the routes of a tenant's source with their generation, all from one
// snapshot. If the source does not exist or the tenant is closed, it returns no routes, so
// that the source's remaining events end unrouted.
func (db *DB) SourceRouting(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID) (r route.SourceRoutes, err error) {
	err = db.inSnapshot(ctx, "read routing", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, generationSQL, [16]byte(tenant)).Scan(&r.Generation); err != nil {
			return err
		}
		r.Retry, r.Routes, err = db.sourceRouting(ctx, tx, source)
		return err
	})
	return r, err
}

func (db *DB) sourceRouting(ctx context.Context, tx pgx.Tx, source eventhook.SourceID) (eventhook.RetryPolicy, []eventhook.Route, error) {
	var settings []byte
	err := tx.QueryRow(ctx, `SELECT s.settings FROM eventhook.source s JOIN eventhook.tenant t ON t.id = s.tenant_id
		WHERE s.id = $1 AND t.status <> 'closed'`, [16]byte(source)).Scan(&settings)
	if err != nil {
		if err = notFound(err, "source"); eventhook.KindOf(err) == eventhook.KindNotFound {
			return eventhook.RetryPolicy{}, nil, nil
		}
		return eventhook.RetryPolicy{}, nil, err
	}
	var s eventhook.SourceSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return s.Retry, nil, fmt.Errorf("read routing: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route
		WHERE source_id = $1 AND is_enabled ORDER BY priority DESC, id`, [16]byte(source))
	if err != nil {
		return s.Retry, nil, err
	}
	routes, err := pgx.CollectRows(rows, db.scanRoute)
	return s.Retry, routes, err
}

// Routes lists a source's routes, newest first. Index on source and id.
func (db *DB) Routes(ctx context.Context, source eventhook.SourceID, before eventhook.RouteID, limit int) ([]eventhook.Route, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route
		WHERE source_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`, [16]byte(source), uuidArg(before), limit)
	if err != nil {
		return nil, translate("list routes", err)
	}
	list, err := pgx.CollectRows(rows, db.scanRoute)
	return list, translate("list routes", err)
}

// Route returns one of a source's routes, or KindNotFound. Primary key.
func (db *DB) Route(ctx context.Context, source eventhook.SourceID, id eventhook.RouteID) (eventhook.Route, error) {
	r, err := db.scanRouteRow(db.work.QueryRow(ctx, `SELECT `+routeColumns+` FROM eventhook.route WHERE id = $1 AND source_id = $2`, [16]byte(id), [16]byte(source)))
	return r, translate("find route", notFound(err, "route"))
}

// routeRecord is the part of a route that audit entries show.
type routeRecord struct {
	Name             string               `json:"name"`
	Priority         int                  `json:"priority"`
	IsEnabled        bool                 `json:"is_enabled"`
	FilterEventTypes []string             `json:"filter_event_types,omitempty"`
	Filter           json.RawMessage      `json:"filter,omitempty"`
	FilterExpression string               `json:"filter_expression,omitempty"`
	FilterFunction   string               `json:"filter_function,omitempty"`
	Transform        *eventhook.Transform `json:"transform,omitempty"`
	Targets          []eventhook.Target   `json:"targets"`
}

func recordOfRoute(r eventhook.Route) routeRecord {
	return routeRecord{r.Name, r.Priority, r.IsEnabled, r.FilterEventTypes, r.Filter, r.FilterExpression, r.FilterFunction, r.Transform, r.Targets}
}

func resourceOfRoute(source string, r eventhook.Route) resource {
	return resource{"route", r.ID.String(), source + "/" + r.Name}
}

// countRoutesSQL reads a source's routes by the index on source and id.
const countRoutesSQL = `SELECT count(*), coalesce(sum(jsonb_array_length(targets)), 0) FROM eventhook.route WHERE source_id = $1`

// checkRouteCapacity returns a KindConflict if a source would have more than its maximum of
// routes, or of targets in all its routes. The caller holds the lock of the source.
func (m *mutation) checkRouteCapacity(ctx context.Context, s eventhook.SourceID, moreRoutes, moreTargets int) error {
	if moreRoutes <= 0 && moreTargets <= 0 {
		return nil
	}
	var routes, targets int
	if err := m.tx.QueryRow(ctx, countRoutesSQL, [16]byte(s)).Scan(&routes, &targets); err != nil {
		return err
	}
	switch {
	case routes+moreRoutes > eventhook.MaxRoutes:
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The source has %d routes, the maximum.", routes)}
	case targets+moreTargets > eventhook.MaxSourceTargets:
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The source's routes would have %d targets in total; at most %d are allowed.",
			targets+moreTargets, eventhook.MaxSourceTargets)}
	}
	return nil
}

// CreateRoute creates a route of the source with a slug. The error is KindConflict if the
// route's name is in use, or if the source would have too many routes or targets. The caller
// must have validated the route.
func (db *DB) CreateRoute(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, r eventhook.Route) (eventhook.Route, error) {
	err := db.mutate(ctx, "add route", by, tenant, func(m *mutation) error {
		s, err := m.lockSource(ctx, source)
		if err != nil {
			return err
		}
		r.ID = eventhook.NewID[eventhook.Route](db.now())
		if err := m.checkRouteCapacity(ctx, s.ID, 1, len(r.Targets)); err != nil {
			return err
		}
		r, err = m.addRoute(ctx, s, r)
		return err
	})
	return r, err
}

// addRoute inserts a route, which has its id. The caller holds the lock of the source.
func (m *mutation) addRoute(ctx context.Context, s eventhook.Source, r eventhook.Route) (eventhook.Route, error) {
	now := m.db.now()
	r.TenantID, r.SourceID, r.Version, r.CreatedAt, r.UpdatedAt = s.TenantID, s.ID, 1, now, now
	args, err := m.routeArgs(ctx, r)
	if err != nil {
		return r, err
	}
	args["tenant"], args["source"] = [16]byte(s.TenantID), [16]byte(s.ID)
	err = m.exec(ctx, `INSERT INTO eventhook.route (id, name, priority, is_enabled, filter_event_types, filter, filter_expression, filter_function,
		transform, targets, version, updated_at, target_secrets, tenant_id, source_id, created_at)
		VALUES (@id, @name, @priority, @is_enabled, @filter_event_types, @filter, @filter_expression, @filter_function,
		@transform, @targets, @version, @updated_at, @target_secrets, @tenant, @source, @updated_at)`, args)
	if err != nil {
		return r, nameTaken(err, "The source has a route %q already.", r.Name)
	}
	_, err = m.record("route.created", resourceOfRoute(s.Slug, r), nil, recordOfRoute(r))
	return r, err
}

// routeArgs returns the parameters that INSERT and UPDATE share.
func (m *mutation) routeArgs(ctx context.Context, r eventhook.Route) (pgx.StrictNamedArgs, error) {
	targets, err := json.Marshal(r.Targets)
	if err != nil {
		return nil, err
	}
	sealed, err := m.sealTargets(ctx, r)
	if err != nil {
		return nil, err
	}
	transform, err := jsonColumn(r.Transform)
	if err != nil {
		return nil, err
	}
	types := r.FilterEventTypes
	if types == nil {
		types = []string{}
	}
	return pgx.StrictNamedArgs{"id": [16]byte(r.ID), "name": r.Name, "priority": r.Priority, "is_enabled": r.IsEnabled,
		"filter_event_types": types, "filter": jsonArg(r.Filter), "filter_expression": r.FilterExpression,
		"filter_function": r.FilterFunction, "transform": transform, "targets": string(targets), "version": r.Version,
		"updated_at": r.UpdatedAt, "target_secrets": textArg(sealed)}, nil
}

// UpdateRoute updates a route in one transaction, as UpdateSource does with a source. The
// error is KindConflict if the source would have too many targets.
func (db *DB) UpdateRoute(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, id eventhook.RouteID, version int64, change func(eventhook.Route) (eventhook.Route, error)) (r eventhook.Route, err error) {
	err = db.mutate(ctx, "change route", by, tenant, func(m *mutation) error {
		have, err := m.lockRoute(ctx, source, id)
		if err != nil {
			return err
		}
		if err := checkVersion(version, have.Version); err != nil {
			return err
		}
		want, err := change(have)
		if err != nil {
			return err
		}
		if err := m.checkRouteCapacity(ctx, have.SourceID, 0, len(want.Targets)-len(have.Targets)); err != nil {
			return err
		}
		r, _, err = m.updateRoute(ctx, source, have, want)
		return err
	})
	return r, err
}

// lockRoute reads and locks a route of a source. It locks the source first.
func (m *mutation) lockRoute(ctx context.Context, source string, id eventhook.RouteID) (eventhook.Route, error) {
	s, err := m.lockSource(ctx, source)
	if err != nil {
		return eventhook.Route{}, err
	}
	r, err := m.db.scanRouteRow(m.tx.QueryRow(ctx, `SELECT `+routeColumns+` FROM eventhook.route WHERE id = $1 AND source_id = $2 FOR UPDATE`, [16]byte(id), [16]byte(s.ID)))
	return r, notFound(err, "route")
}

// updateRoute stores the wanted state of a route, and returns the changes. The caller holds
// the lock of the route.
func (m *mutation) updateRoute(ctx context.Context, source string, have, want eventhook.Route) (eventhook.Route, []eventhook.FieldChange, error) {
	changes, err := diffRoutes(have, want)
	if err != nil || !m.recordChanges("route.updated", resourceOfRoute(source, have), changes) {
		return have, nil, err
	}
	want.ID, want.TenantID, want.SourceID, want.CreatedAt = have.ID, have.TenantID, have.SourceID, have.CreatedAt
	want.Version, want.UpdatedAt = have.Version+1, m.db.now()
	want.SecretsLost = have.SecretsLost && slices.EqualFunc(have.Targets, want.Targets, sameTarget) // the lost key may be restored later
	args, err := m.routeArgs(ctx, want)
	if err != nil {
		return have, nil, err
	}
	args["keep_secrets"] = want.SecretsLost
	err = m.exec(ctx, `UPDATE eventhook.route SET name = @name, priority = @priority, is_enabled = @is_enabled,
		filter_event_types = @filter_event_types, filter = @filter, filter_expression = @filter_expression,
		filter_function = @filter_function, transform = @transform, targets = @targets, version = @version, updated_at = @updated_at,
		target_secrets = CASE WHEN @keep_secrets THEN target_secrets ELSE @target_secrets END WHERE id = @id`, args)
	return want, changes, nameTaken(err, "The source has a route %q already.", want.Name)
}

// DeleteRoute deletes a route. Deliveries and executions that it has created stay; events that
// wait for a retry are settled without it. A version other than 0 must be the current one,
// otherwise the error is ErrStale.
func (db *DB) DeleteRoute(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, id eventhook.RouteID, version int64) error {
	return db.mutate(ctx, "delete route", by, tenant, func(m *mutation) error {
		r, err := m.lockRoute(ctx, source, id)
		if err != nil {
			return err
		}
		if err := checkVersion(version, r.Version); err != nil {
			return err
		}
		return m.deleteRoute(ctx, source, r)
	})
}

func (m *mutation) deleteRoute(ctx context.Context, source string, r eventhook.Route) error {
	if err := m.exec(ctx, `DELETE FROM eventhook.route WHERE id = $1`, [16]byte(r.ID)); err != nil {
		return err
	}
	_, err := m.record("route.deleted", resourceOfRoute(source, r), recordOfRoute(r), nil)
	return err
}

// ReorderRoutes sets the priorities of routes of a source, all of them together. If an id is
// not a route of the source, the error names its position in the list.
func (db *DB) ReorderRoutes(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, order []eventhook.RoutePriority) error {
	return db.mutate(ctx, "reorder routes", by, tenant, func(m *mutation) error {
		s, err := m.lockSource(ctx, source)
		if err != nil {
			return err
		}
		routes, err := m.routes(ctx, s.ID)
		if err != nil {
			return err
		}
		byID := make(map[eventhook.RouteID]eventhook.Route, len(routes))
		for _, r := range routes {
			byID[r.ID] = r
		}
		var faults eventhook.Faults
		for i, o := range order {
			if _, ok := byID[o.ID]; !ok {
				faults.Add(fmt.Sprintf("body.order[%d].id", i), "is not a route of this source")
			}
		}
		if err := faults.Err("The order is not valid."); err != nil {
			return err
		}
		m.batch = &pgx.Batch{} // one round trip, since other transactions wait for these locks
		for _, o := range order {
			want := byID[o.ID]
			want.Priority = o.Priority
			if _, _, err := m.updateRoute(ctx, source, byID[o.ID], want); err != nil {
				return err
			}
		}
		return nil
	})
}

// routes reads all routes of a source and locks them.
func (m *mutation) routes(ctx context.Context, source eventhook.SourceID) ([]eventhook.Route, error) {
	rows, err := m.tx.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route WHERE source_id = $1 ORDER BY id FOR UPDATE`, [16]byte(source))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, m.db.scanRoute)
}
