package pg

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// lookupSQL joins the parts of a lookup. Each part has the columns of scanLookup, and reads the
// tenants of t: one, or all of them.
func lookupSQL(parts ...string) string {
	for i, part := range parts {
		parts[i] = `(SELECT ` + strings.Join(strings.Fields(part), ` `) + ` LIMIT 20)`
	}
	return `WITH t AS MATERIALIZED (SELECT id FROM eventhook.tenant WHERE $1::uuid IS NULL OR id = $1)
` + strings.Join(parts, `
UNION ALL
`)
}

// Labels and other columns of the parts.
const (
	lookupEvent = `'event', e.id::text, concat_ws(', ', nullif(e.event_type, ''), e.status), NULL::timestamptz, e.tenant_id, '', NULL::uuid`
	lookupWork  = `'execution', x.id::text, concat_ws(', ', x.type || ' ' || x.kind, x.status), x.created_at, x.tenant_id, '', NULL::uuid` //nolint:gosec // a statement
	lookupOf    = `'promise', p.id::text, concat_ws(', ', 'promise ' || p.idempotency_key, p.status), p.created_at, p.tenant_id, '', NULL::uuid`
)

// lookupIDSQL finds resources by id. Primary keys: for all tenants, one read of events and of
// deliveries for each tenant, in one partition. The LIMIT keeps the planner from reading the index of
// a partition without the tenant.
var lookupIDSQL = lookupSQL(
	lookupEvent+` FROM t CROSS JOIN LATERAL (SELECT e.* FROM eventhook.event e WHERE e.tenant_id = t.id AND e.id = $2 LIMIT 1) e`,
	`'delivery', d.id::text, concat_ws(', ', nullif(d.event_type, ''), d.status, 'to ' || coalesce(s.name, r.name)), NULL, d.tenant_id, '', NULL
		FROM t CROSS JOIN LATERAL (SELECT d.* FROM eventhook.delivery d WHERE d.tenant_id = t.id AND d.id = $2 LIMIT 1) d
		LEFT JOIN eventhook.subscription s ON s.id = d.destination_id LEFT JOIN eventhook.route r ON r.id = d.route_id
		WHERE $1 IS NULL OR (d.destination_id = ANY(`+operatorSubscriptions+`)) IS NOT TRUE`,
	lookupWork+` FROM eventhook.execution x JOIN t ON t.id = x.tenant_id WHERE x.id = $2`,
	lookupOf+` FROM eventhook.promise p JOIN t ON t.id = p.tenant_id WHERE p.id = $2 AND NOT p.is_held`,
	`'subscription', s.id::text, concat_ws(', ', s.name, s.status), s.created_at, s.tenant_id, '', NULL
		FROM eventhook.subscription s JOIN t ON t.id = s.tenant_id WHERE s.id = $2`,
	`'source', s.slug, concat_ws(', ', s.name, s.provider), s.created_at, s.tenant_id, s.slug, NULL
		FROM eventhook.source s JOIN t ON t.id = s.tenant_id WHERE s.id = $2`,
	`'route', r.id::text, concat(r.name, ' of ', s.slug), r.created_at, r.tenant_id, s.slug, NULL
		FROM eventhook.route r JOIN t ON t.id = r.tenant_id JOIN eventhook.source s ON s.id = r.source_id WHERE r.id = $2`,
	`'replay', r.id::text, concat_ws(', ', r.kind || ' to ' || s.name, r.status), r.created_at, r.tenant_id, '', r.subscription_id
		FROM eventhook.replay r JOIN t ON t.id = r.tenant_id JOIN eventhook.subscription s ON s.id = r.subscription_id WHERE r.id = $2`,
	`'agent', a.id::text, a.name, a.created_at, a.tenant_id, '', NULL FROM eventhook.agent a JOIN t ON t.id = a.tenant_id WHERE a.id = $2`,
)

// lookupKeySQL finds the events, executions and promises with an idempotency key. The primary key
// of idempotency_key, the unique index of promises, and primary keys.
var lookupKeySQL = lookupSQL(
	lookupEvent+` FROM t JOIN eventhook.idempotency_key k ON k.tenant_id = t.id AND k.key = $2
		JOIN eventhook.event e ON e.tenant_id = t.id AND e.id = k.made WHERE e.idempotency_key = $2`,
	lookupWork+` FROM t JOIN eventhook.idempotency_key k ON k.tenant_id = t.id AND k.key = $2
		JOIN eventhook.execution x ON x.id = k.made WHERE x.tenant_id = t.id`,
	lookupOf+` FROM t JOIN eventhook.promise p ON p.tenant_id = t.id AND p.idempotency_key = $2 WHERE NOT p.is_held`,
)

// lookupNameSQL finds configuration by the beginning of a name. It reads the configuration of the
// tenant, whose size is limited; exact names come first.
var lookupNameSQL = lookupSQL(
	`'source', s.slug, concat_ws(', ', s.name, s.provider), s.created_at, s.tenant_id, s.slug, NULL::uuid
		FROM t JOIN eventhook.source s ON s.tenant_id = t.id WHERE starts_with(s.slug, lower($2)) ORDER BY s.slug <> lower($2), s.slug`,
	`'subscription', s.id::text, concat_ws(', ', s.name, s.status), s.created_at, s.tenant_id, '', NULL
		FROM t JOIN eventhook.subscription s ON s.tenant_id = t.id
		WHERE starts_with(lower(s.name), lower($2)) ORDER BY lower(s.name) <> lower($2), s.name, s.id`,
	`'event_type', y.name, coalesce(nullif(y.description, ''), y.name), y.created_at, y.tenant_id, '', NULL
		FROM t JOIN eventhook.event_type y ON y.tenant_id = t.id WHERE starts_with(y.name, $2) ORDER BY y.name <> $2, y.name`,
	`'event_type', $2, $2 || ', a type of stored events', NULL, t.id, '', NULL FROM t
		WHERE NOT EXISTS (SELECT FROM eventhook.event_type y WHERE y.tenant_id = t.id AND y.name = $2)
		AND EXISTS (SELECT FROM eventhook.event e WHERE e.tenant_id = t.id AND e.event_type = $2 AND e.body_size >= 0)`,
)

func scanLookup(row pgx.CollectableRow) (x eventhook.LookupItem, err error) {
	var at *time.Time
	var replayed *[16]byte
	err = row.Scan((*string)(&x.Type), &x.ID, &x.Label, &at, (*[16]byte)(&x.TenantID), &x.SourceSlug, &replayed)
	if replayed != nil {
		x.SubscriptionID = *replayed
	}
	if at != nil {
		x.At = *at
	} else if id, err := eventhook.ParseID[eventhook.Event](x.ID); err == nil {
		x.At = id.Time() // of an event or a delivery
	}
	return x, err
}

// lookupScan is the budget of the search for trace, request and correlation ids.
var lookupScan = scanLimits{step: 10_000, rows: 2_000_000, time: time.Second}

// Lookup returns the resources of a tenant, or of all tenants if tenant is zero, that a text
// identifies: first by id, then by idempotency key, then by the beginning of a slug or name, then
// the newest events with that trace, request or correlation id. It looks for the last ones only if
// nothing has the text as its id or key, or if the text may be a trace id.
func (db *DB) Lookup(ctx context.Context, tenant eventhook.TenantID, text string) (found eventhook.Lookup, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		found, err = lists.lookup(ctx, tenant, text, db.now)
		return err
	})
	return found, translate("look up", err)
}

func (p *listPool) lookup(ctx context.Context, tenant eventhook.TenantID, text string, now func() time.Time) (found eventhook.Lookup, err error) {
	id, isID := lookupID(text)
	if isID {
		if err := p.lookUp(ctx, &found, lookupIDSQL, tenant, [16]byte(id)); err != nil {
			return found, err
		}
	}
	if err := p.lookUp(ctx, &found, lookupKeySQL, tenant, text); err != nil {
		return found, err
	}
	isExact := len(found.Items) > 0
	if !isID {
		if err := p.lookUp(ctx, &found, lookupNameSQL, tenant, text); err != nil {
			return found, err
		}
	}
	if !isExact || isTraceID(text) {
		err = p.lookupTrace(ctx, &found, tenant, text, now)
	}
	return found, err
}

// lookUp adds the results of a statement, up to eventhook.MaxLookup items.
func (p *listPool) lookUp(ctx context.Context, found *eventhook.Lookup, sql string, tenant eventhook.TenantID, text any) error {
	rows, err := p.Query(ctx, sql, pgx.QueryExecModeCacheDescribe, uuidArg(tenant), text)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, scanLookup)
	for _, x := range list {
		addLookup(found, x)
	}
	return err
}

// addLookup adds an item, unless the result is full or has it.
func addLookup(found *eventhook.Lookup, x eventhook.LookupItem) {
	isSame := func(y eventhook.LookupItem) bool { return x.Type == y.Type && x.ID == y.ID && x.TenantID == y.TenantID }
	if len(found.Items) < eventhook.MaxLookup && !slices.ContainsFunc(found.Items, isSame) {
		found.Items = append(found.Items, x)
	}
}

// lookupTrace adds the newest events with a trace, request or correlation id. No index has these:
// it examines events, newest first, within a budget.
func (p *listPool) lookupTrace(ctx context.Context, found *eventhook.Lookup, tenant eventhook.TenantID, text string, now func() time.Time) error {
	f := eventhook.EventFilter{TraceID: "-", Limit: eventhook.MaxLookup}
	l := newEventScan(tenant, nil, f)
	l.matches = `(e.trace_id = @trace OR e.request_id = @id OR e.correlation_id = @id OR e.trace_id IS NULL AND coalesce(e.payload_of, e.id) = @trace_event)`
	trace := strings.ToLower(text)
	l.args["id"], l.args["trace"], l.args["trace_event"] = text, trace, traceEvent(trace)
	s := scan{scanLimits: lookupScan, limit: f.Limit, now: now}
	if tenant.IsZero() {
		s.window = firstWindow
	}
	sql := scanRows{"event", "e", l.where, l.matches}.sql(tenant.IsZero())
	s.read = func(ctx context.Context, from, before [16]byte, rows int) (scanStep, error) {
		l.args["from"], l.args["before"], l.args["rows"] = from, before, rows
		return p.readScanStep(ctx, sql, l.args)
	}
	from := eventhook.EventID{}
	if isTraceID(text) {
		from = firstOfTrace(trace)
	}
	out, err := s.run(ctx, from, cursorArg(eventhook.EventID{}).([16]byte)) //nolint:forcetypeassert // cursorArg always returns this type
	if err != nil {
		return err
	}
	events, err := p.eventsByKey(ctx, out.rows)
	for _, e := range events {
		addLookup(found, eventhook.LookupItem{Type: eventhook.LookupEvent, ID: e.ID.String(), Label: strings.TrimPrefix(e.EventType+", "+string(e.Status), ", "),
			At: e.ID.Time(), TenantID: e.TenantID})
	}
	if next := eventhook.EventID(out.next); !next.IsZero() {
		found.ScannedUntil = next.Time()
	}
	return err
}

// lookupID parses a UUID, also one without hyphens: a trace id may derive from an event's id.
func lookupID(text string) (id eventhook.EventID, ok bool) {
	if id, err := eventhook.ParseID[eventhook.Event](strings.ToLower(text)); err == nil {
		return id, !id.IsZero()
	}
	if !isTraceID(text) {
		return id, false
	}
	id = eventhook.EventID(traceEvent(strings.ToLower(text)))
	return id, !id.IsZero()
}

// isTraceID reports whether a text is a W3C trace id: 32 hexadecimal digits.
func isTraceID(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 16
}
