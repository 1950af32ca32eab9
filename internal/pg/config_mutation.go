package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// mutation changes what one tenant owns, within one transaction and for one
// actor, and records each change beside it. Those that the catalogue of the
// gateway's own events has are published, too.
type mutation struct {
	db      *DB
	tx      pgx.Tx
	by      eventhook.Actor
	tenant  eventhook.Tenant
	entries []eventhook.AuditEntry
	// made are the subscriptions that this act makes: they are told of what
	// comes after it.
	created map[eventhook.SubscriptionID]bool
	// announced is what has been published.
	announced announced
	// correlation is shared by all entries; "" unless one act changes several.
	correlation string
	// later holds statements back, to send many of them together; nil sends
	// each at once.
	batch *pgx.Batch
	// sealing is how the database's secrets are sealed; nil before seal read it.
	sealing *sealing
	// dryRun changes nothing: what would be is recorded and not written.
	dryRun bool
}

// exec runs a statement of a change, now or, if later is there, not later than
// flush.
func (m *mutation) exec(ctx context.Context, sql string, args ...any) error {
	const most = 1000 // bounds what is held back
	switch {
	case m.dryRun:
		return nil
	case m.batch == nil:
		_, err := m.tx.Exec(ctx, sql, args...)
		return err
	}
	m.batch.Queue(sql, args...)
	if m.batch.Len() < most {
		return nil
	}
	return m.sendBatch(ctx)
}

// send runs what was held back.
func (m *mutation) sendBatch(ctx context.Context) error {
	if m.batch == nil || m.batch.Len() == 0 {
		return nil
	}
	batch := m.batch
	m.batch = &pgx.Batch{}
	return m.tx.SendBatch(ctx, batch).Close()
}

// mutate runs do in a transaction that nobody can close the tenant in, and
// records what do has changed. A tenant that is closed is a KindConflict, and
// one that is suspended is KindForbidden for its own keys.
//
// Changes of one tenant wait for each other's locks, so that few of them may hold
// connections at once.
func (db *DB) mutate(ctx context.Context, act string, by eventhook.Actor, tenant eventhook.TenantID, do func(*mutation) error) error {
	if err := db.ensureSealing(ctx); err != nil {
		return err
	}
	if err := db.changes.Acquire(ctx, tenant, maxChangeWait); err != nil {
		return slotError(act, err)
	}
	defer db.changes.Release(tenant)
	m := &mutation{db: db, by: by}
	return m.run(ctx, act, func() (err error) {
		m.tenant, err = scanTenant(m.tx.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE id = $1 FOR SHARE`, [16]byte(tenant)))
		if err != nil {
			return notFound(err, "tenant")
		}
		if err := checkMutable(m.tenant, by); err != nil {
			return err
		}
		return do(m)
	})
}

// How many changes of one tenant wait for their turn, and how long.
const (
	maxWaitingChanges = 64
	maxChangeWait     = 5 * time.Second
)

func slotError(act string, err error) error {
	switch {
	case errors.Is(err, roundrobin.ErrFull):
		return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: time.Second, Message: "Too many changes of this tenant wait for their turn; try again, with fewer at once."}
	case errors.Is(err, roundrobin.ErrTimeout):
		return &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second, Message: "The change has waited too long for its turn; try again."}
	}
	return fmt.Errorf("%s: %w", act, err)
}

// act runs do in a transaction, writes what it has recorded, and wakes whom
// that concerns when all of it is done.
func (m *mutation) run(ctx context.Context, act string, do func() error) error {
	err := m.db.inTx(ctx, act, func(tx pgx.Tx) error {
		m.tx = tx
		if err := do(); err != nil {
			return err
		}
		return m.flush(ctx)
	})
	if err == nil {
		m.db.notifyAnnounced(m.announced)
	}
	return err
}

func checkMutable(t eventhook.Tenant, by eventhook.Actor) error {
	switch {
	case t.Status == eventhook.TenantClosed:
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The tenant %q is closed; nothing of it can be changed.", t.Slug)}
	case t.Status == eventhook.TenantSuspended && by.Type == eventhook.ActorKey:
		return &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The tenant is suspended: its keys can read, and change nothing."}
	}
	return nil
}

// flush sends what was held back and writes what was recorded.
func (m *mutation) flush(ctx context.Context) error {
	if m.dryRun {
		return nil
	}
	if err := m.sendBatch(ctx); err != nil {
		return err
	}
	if err := m.announce(ctx); err != nil {
		return err
	}
	entries := m.entries
	m.entries = nil
	return m.db.insertAudit(ctx, m.tx, m.by, entries)
}

// resource names what a change is about.
type resource struct {
	kind, id, name string
}

// record notes a change of a resource from one state to another; nil is none.
// It reports whether there is a difference at all.
func (m *mutation) record(action string, of resource, before, after any) (changed bool, err error) {
	changes, err := eventhook.Diff(before, after)
	if err != nil {
		return false, err
	}
	return m.recordChanges(action, of, changes), nil
}

func (m *mutation) recordChanges(action string, of resource, changes []eventhook.FieldChange) bool {
	if len(changes) == 0 {
		return false
	}
	m.entries = append(m.entries, eventhook.AuditEntry{TenantID: m.tenant.ID, Actor: m.by, Action: action, ResourceType: of.kind, ResourceID: of.id,
		ResourceName: of.name, Changes: changes, CorrelationID: m.correlation})
	return true
}

// recordBulk records one act on many of a kind, by their ids.
func recordBulk[ID any](m *mutation, action, kind, kinds string, ids []ID) error {
	raw, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	m.recordChanges(action, resource{kind: kind, name: fmt.Sprintf("%d %s", len(ids), kinds)},
		[]eventhook.FieldChange{{Field: kind + "_ids", From: json.RawMessage("null"), To: raw}})
	return nil
}

// fresh refuses a change that names a version which is not the current one;
// 0 names none.
func checkVersion(wanted, current int64) error {
	if wanted != 0 && wanted != current {
		return eventhook.ErrStale
	}
	return nil
}

// taken says that a name is in use, if that is what went wrong.
func nameTaken(err error, format string, args ...any) error {
	if hasCode(err, codeUniqueViolation) {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf(format, args...)}
	}
	return err
}

// jsonColumn is a value as a json parameter; nil is NULL.
func jsonColumn(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil || string(raw) == "null" {
		return nil, err
	}
	return string(raw), nil
}
