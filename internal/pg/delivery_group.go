package pg

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// deadStepSQL counts the next @rows dead deliveries, newest first, by destination and error. It
// reads one index, which condition selects.
func deadStepSQL(condition string) string {
	return `
WITH examined AS MATERIALIZED (
    SELECT d.id, d.destination_id, d.route_id, d.target_index, d.status_code, d.last_error, d.completed_at
    FROM eventhook.delivery d WHERE ` + condition + ` ORDER BY d.id DESC LIMIT @rows
)
SELECT destination_id, route_id, target_index, coalesce(last_error, ''), count(*)::int,
    min(completed_at), max(completed_at), (array_agg(id ORDER BY id DESC))[1:5], (array_agg(id ORDER BY id))[1],
    (destination_id = ANY(` + operatorSubscriptions + `)) IS TRUE
FROM examined GROUP BY destination_id, route_id, target_index, coalesce(last_error, '')`
}

// Indexes delivery_status and delivery_destination_status.
var (
	deadOfTenantSQL       = deadStepSQL(byDeliveryStatus)
	deadOfSubscriptionSQL = deadStepSQL(byDeliverySubscriptionStatus + ` AND (d.tenant_id = @tenant) IS TRUE`)
)

// maxDeadGroups ends a count, so that errors that differ for each delivery take little memory.
const maxDeadGroups = 5000

// deadRow has the deliveries of one destination with one error.
type deadRow struct {
	to        destinationColumns
	lastError string
	count     int
	first     time.Time
	last      time.Time
	samples   [][16]byte
	oldest    eventhook.DeliveryID
	isHidden  bool // of an operator subscription
}

func scanDeadRow(row pgx.CollectableRow) (r deadRow, err error) {
	var first, last *time.Time
	err = row.Scan(&r.to.id, &r.to.route, &r.to.index, &r.lastError, &r.count, &first, &last, &r.samples, (*[16]byte)(&r.oldest), &r.isHidden)
	if first != nil && last != nil {
		r.first, r.last = *first, *last
	}
	return r, err
}

// DeadGroups counts the dead deliveries of a tenant, or of one of its subscriptions, by
// destination and cause, newest first, within the budget of a page of a list. It reads
// SubscriptionID, CreatedAfter and CreatedBefore of the filter.
func (db *DB) DeadGroups(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter) (found eventhook.DeadGroups, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		found, err = lists.deadGroups(ctx, tenant, f, listScan, db.now)
		return err
	})
	return found, translate("group dead deliveries", err)
}

func (p *listPool) deadGroups(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter, limits scanLimits,
	now func() time.Time) (found eventhook.DeadGroups, err error) {
	from, before := deliveryBounds(f)
	args := pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "status": string(eventhook.DeliveryDead), "from": [16]byte(from), "rows": limits.step}
	sql := deadOfTenantSQL
	if !f.SubscriptionID.IsZero() {
		sql, args["subscription"] = deadOfSubscriptionSQL, [16]byte(f.SubscriptionID)
	}
	end, groups := now().Add(limits.time), deadGroups{}
	for {
		args["before"] = [16]byte(before)
		rows, err := readPlannedOnce(ctx, p, sql, scanDeadRow, args)
		if err != nil {
			return found, err
		}
		examined := 0
		for _, r := range rows {
			examined += r.count
			before = earlier(before, r.oldest)
			groups.add(r)
		}
		found.Scanned += examined
		if examined < limits.step {
			break
		}
		if found.Scanned >= limits.rows || len(groups) >= maxDeadGroups || !now().Before(end) {
			found.ScannedUntil = before.Time()
			break
		}
	}
	found.Groups = groups.sorted()
	return found, nil
}

// deadGroups are groups by their keys.
type deadGroups map[string]*eventhook.DeadGroup

// add adds deliveries that are older than those added before, or have another error.
func (all deadGroups) add(r deadRow) {
	if r.isHidden {
		return
	}
	cause, status := eventhook.DeadCause(r.lastError)
	key := eventhook.DeadGroupKey(r.to.id, cause)
	g := all[key]
	if g == nil {
		var d eventhook.Delivery
		r.to.set(&d)
		g = &eventhook.DeadGroup{Key: key, SubscriptionID: d.SubscriptionID, RouteID: d.RouteID, TargetIndex: d.TargetIndex,
			Cause: cause, StatusCode: status, FirstAt: r.first, LastAt: r.last}
		all[key] = g
	}
	g.Count += r.count
	if r.first.Before(g.FirstAt) {
		g.FirstAt = r.first
	}
	if r.last.After(g.LastAt) {
		g.LastAt = r.last
	}
	for _, id := range r.samples {
		g.Samples = append(g.Samples, eventhook.DeliveryID(id))
	}
	slices.SortFunc(g.Samples, newerDelivery)
	g.Samples = g.Samples[:min(len(g.Samples), eventhook.MaxDeadSamples)]
}

func (all deadGroups) sorted() []eventhook.DeadGroup {
	list := make([]eventhook.DeadGroup, 0, len(all))
	for _, g := range all {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(x, y eventhook.DeadGroup) int {
		return cmp.Or(y.Count-x.Count, y.LastAt.Compare(x.LastAt), strings.Compare(x.Key, y.Key))
	})
	return list
}

// groupStepSQL reads the next @rows dead deliveries of a destination, newest first. Index
// delivery_destination_status.
const groupStepSQL = `
SELECT d.id, coalesce(d.last_error, '') FROM eventhook.delivery d
WHERE ` + byDeliverySubscriptionStatus + ` AND (d.tenant_id = @tenant AND (d.destination_id = ANY(` + operatorSubscriptions + `)) IS NOT TRUE) IS TRUE
ORDER BY d.id DESC LIMIT @rows`

// groupScan is the budget of the selection of a group: as many deliveries as can be counted.
var groupScan = scanLimits{step: 10_000, rows: eventhook.MaxExpectedCount}

var errGroupTooLarge = &eventhook.Error{Kind: eventhook.KindConflict,
	Message: "The destination has too many dead deliveries to count a group. Nothing was changed: narrow the filter with created_after and created_before, or omit expected_count."}

// groupDeliveries returns the newest limit deliveries of the group of a selection, and whether
// all deliveries that may belong to the group were examined.
func groupDeliveries(ctx context.Context, lists batcher, tenant eventhook.TenantID, which eventhook.DeliverySelection,
	limit int) (found []rowKey, isAll bool, err error) {
	destination, isKey := eventhook.ParseDeadGroupKey(which.Group)
	if !isKey || !slices.Contains(restartableStatuses(which.Statuses), string(eventhook.DeliveryDead)) {
		return nil, true, nil
	}
	_, from, before := selectionFilter(which)
	args := pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "status": string(eventhook.DeliveryDead), "subscription": [16]byte(destination),
		"from": [16]byte(from), "rows": groupScan.step}
	isOfGroup := map[string]bool{} // by error
	for examined := 0; examined < groupScan.rows; examined += groupScan.step {
		args["before"] = [16]byte(before)
		rows, err := readPlannedOnce(ctx, lists, groupStepSQL, scanGroupRow, args)
		if err != nil {
			return nil, false, err
		}
		for _, r := range rows {
			before = r.id
			of, known := isOfGroup[r.lastError]
			if !known {
				cause, _ := eventhook.DeadCause(r.lastError)
				of = eventhook.DeadGroupKey(destination, cause) == which.Group
				if len(isOfGroup) < maxDeadGroups {
					isOfGroup[r.lastError] = of
				}
			}
			if of {
				found = append(found, rowKey{tenant, r.id})
			}
			if len(found) == limit {
				return found, false, nil
			}
		}
		if len(rows) < groupScan.step {
			return found, true, nil
		}
	}
	return found, false, nil
}

type groupRow struct {
	id        eventhook.DeliveryID
	lastError string
}

func scanGroupRow(row pgx.CollectableRow) (r groupRow, err error) {
	return r, row.Scan((*[16]byte)(&r.id), &r.lastError)
}

// expectedGroup returns the newest which.Limit deliveries of a group, if it has as many as the
// caller expects.
func expectedGroup(ctx context.Context, lists batcher, tenant eventhook.TenantID, which eventhook.DeliverySelection) ([]rowKey, error) {
	rows, isAll, err := groupDeliveries(ctx, lists, tenant, which, eventhook.MaxExpectedCount+1)
	if err != nil {
		return nil, err
	}
	if !isAll {
		return nil, errGroupTooLarge
	}
	if err := eventhook.CheckExpectedCount(which.ExpectedCount, len(rows), "deliveries"); err != nil {
		return nil, err
	}
	return rows[:min(len(rows), which.Limit, maxRestarted)], nil
}

// DestinationNames returns the names and hosts of the destinations of groups, in their order. It
// returns empty texts for a destination of another tenant, and for one that was deleted; Host is
// empty if the secrets do not open. Primary keys.
func (db *DB) DestinationNames(ctx context.Context, tenant eventhook.TenantID, groups []eventhook.DeadGroup) ([]eventhook.DestinationName, error) {
	names := make([]eventhook.DestinationName, len(groups))
	var subscriptions, routes [][16]byte
	for _, g := range groups {
		if g.RouteID.IsZero() {
			subscriptions = append(subscriptions, g.SubscriptionID)
		} else {
			routes = append(routes, g.RouteID)
		}
	}
	of := map[eventhook.DestinationID]eventhook.DestinationName{}
	if err := db.nameSubscriptions(ctx, tenant, subscriptions, of); err != nil {
		return nil, translate("name destinations", err)
	}
	if err := db.nameTargets(ctx, tenant, routes, of); err != nil {
		return nil, translate("name destinations", err)
	}
	for i, g := range groups {
		names[i] = of[eventhook.Destination{SubscriptionID: g.SubscriptionID, RouteID: g.RouteID, TargetIndex: g.TargetIndex}.ID()]
	}
	return names, nil
}

func (db *DB) nameSubscriptions(ctx context.Context, tenant eventhook.TenantID, ids [][16]byte,
	names map[eventhook.DestinationID]eventhook.DestinationName) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.lists.Query(ctx, `SELECT `+subscriptionColumns+subscriptionTables+` WHERE s.id = ANY($2) AND (s.tenant_id = $1) IS TRUE`,
		[16]byte(tenant), ids)
	if err != nil {
		return err
	}
	list, err := db.collectSubscriptions(rows)
	for _, s := range list {
		names[eventhook.DestinationID(s.ID)] = eventhook.DestinationName{Name: s.Name, Host: hostOf(s.URL.Reveal())}
	}
	return err
}

func (db *DB) nameTargets(ctx context.Context, tenant eventhook.TenantID, ids [][16]byte,
	names map[eventhook.DestinationID]eventhook.DestinationName) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.lists.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route WHERE id = ANY($2) AND (tenant_id = $1) IS TRUE`,
		[16]byte(tenant), ids)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, db.scanRoute)
	for _, r := range list {
		for i, t := range r.Targets {
			if host, isDestination := destinationHost(t); isDestination {
				names[eventhook.Destination{RouteID: r.ID, TargetIndex: i}.ID()] = eventhook.DestinationName{Name: r.Name, Host: host}
			}
		}
	}
	return err
}

// hostsOf returns the hosts of a list of URLs, separated by commas.
func hostsOf(urls string) string {
	var hosts []string
	for text := range strings.SplitSeq(urls, ",") {
		hosts = append(hosts, hostOf(strings.TrimSpace(text)))
	}
	return strings.Join(hosts, ", ")
}

// hostOf returns the host of a URL, with its port if it has one, in lower case; "" if the text
// is no URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
