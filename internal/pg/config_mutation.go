package pg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// mutation changes resources of one tenant within one transaction, on behalf of one actor. It
// writes an audit entry for each change, and publishes a system event for each entry whose
// action is in the catalogue of system events.
type mutation struct {
	db      *DB
	tx      pgx.Tx
	by      eventhook.Actor
	tenant  eventhook.Tenant
	entries []eventhook.AuditEntry
	// disabled counts the subscriptions that the flushed entries disable.
	disabled map[eventhook.DisabledBy]int
	// created holds the subscriptions that this mutation creates: they receive the system
	// events of later mutations only.
	created map[eventhook.SubscriptionID]bool
	// announced holds the system events that were stored, for notifyAnnounced.
	announced announced
	// correlation is shared by all entries; "" unless the mutation changes several resources.
	correlation string
	// batch collects statements, to send many together. If it is nil, each statement is sent
	// at once.
	batch *pgx.Batch
	// sealing is the row of eventhook.sealing that the transaction has locked; nil until seal
	// reads the row.
	sealing *sealing
	// consumers is the number of the tenant's sources that consume messages, with the changes of this
	// mutation; nil until a change needs it.
	consumers *int
	// dryRun records changes without writing them.
	dryRun bool
}

// exec runs a statement at once, or queues it if there is a batch. Queued statements
// have run when flush returns.
func (m *mutation) exec(ctx context.Context, sql string, args ...any) error {
	const maxBatch = 1000 // statements
	switch {
	case m.dryRun:
		return nil
	case m.batch == nil:
		_, err := m.tx.Exec(ctx, sql, args...)
		return err
	}
	m.batch.Queue(sql, args...)
	if m.batch.Len() < maxBatch {
		return nil
	}
	return m.sendBatch(ctx)
}

// sendBatch runs the statements of the batch.
func (m *mutation) sendBatch(ctx context.Context) error {
	if m.batch == nil || m.batch.Len() == 0 {
		return nil
	}
	batch := m.batch
	m.batch = &pgx.Batch{}
	return m.tx.SendBatch(ctx, batch).Close()
}

// mutate runs do in a transaction and records the changes that do makes. The tenant cannot be
// closed meanwhile. The error is KindRateLimited if too many changes of the tenant are waiting,
// KindUnavailable if this change waited too long, KindConflict if the tenant is closed, and
// KindForbidden if the tenant is suspended and the actor is one of its keys.
//
// Changes of one tenant wait for each other's row locks, so mutate limits the connections that
// they hold at once. If PostgreSQL ends the transaction because of a deadlock, mutate begins
// again: do is then called more than once, each time with a new mutation.
func (db *DB) mutate(ctx context.Context, act string, by eventhook.Actor, tenant eventhook.TenantID, do func(*mutation) error) error {
	if err := db.ensureSealing(ctx); err != nil {
		return err
	}
	if err := db.changes.Acquire(ctx, tenant, maxChangeWait); err != nil {
		return slotError(act, err)
	}
	defer db.changes.Release(tenant)
	return db.retryDeadlocks(func() error {
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
	})
}

// retryDeadlocks calls change, which runs one transaction, until PostgreSQL does not end it because
// of a deadlock.
func (db *DB) retryDeadlocks(change func() error) error {
	for {
		err := change()
		if !hasCode(err, codeDeadlock) {
			return err
		}
		db.log.Warn("a change conflicted with another transaction; trying again", "error", err)
	}
}

// The limits of changes of one tenant that wait for a slot.
const (
	maxWaitingChanges = 64
	maxChangeWait     = 5 * time.Second
)

func slotError(act string, err error) error {
	switch {
	case errors.Is(err, roundrobin.ErrFull):
		return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: time.Second, Message: "Too many changes of this tenant are waiting; try again with fewer at once."}
	case errors.Is(err, roundrobin.ErrTimeout):
		return &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second, Message: "The change has waited too long for other changes of this tenant; try again."}
	}
	return fmt.Errorf("%s: %w", act, err)
}

// run runs do in a transaction, writes the entries that do has recorded, and notifies watchers
// after the commit.
func (m *mutation) run(ctx context.Context, act string, do func() error) error {
	err := m.db.inTx(ctx, act, func(tx pgx.Tx) error {
		m.tx = tx
		if err := do(); err != nil {
			return err
		}
		return m.flush(ctx)
	})
	if err == nil {
		m.countDisabled()
		m.committed()
	}
	return err
}

// committed tells this instance about the changes of the transaction.
func (m *mutation) committed() {
	m.db.subscriptionsChanged(m.tenant.ID)
	m.db.notifyAnnounced(m.announced)
}

// checkMutable returns an error if the actor may not change the tenant's resources.
func checkMutable(t eventhook.Tenant, by eventhook.Actor) error {
	switch {
	case t.Status == eventhook.TenantClosed:
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The tenant %q is closed; its resources cannot be changed.", t.Slug)}
	case t.Status == eventhook.TenantSuspended && by.IsOfTenant():
		return &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The tenant is suspended: its keys can only read."}
	}
	return nil
}

// flush sends the batch and writes the recorded entries and system events.
func (m *mutation) flush(ctx context.Context) error {
	if m.dryRun {
		return nil
	}
	if err := m.sendBatch(ctx); err != nil {
		return err
	}
	m.setTrace()
	if err := m.announce(ctx); err != nil {
		return err
	}
	entries := m.entries
	m.entries = nil
	m.noteDisabled(entries)
	return m.db.insertAudit(ctx, m.tx, m.by, entries)
}

// setTrace sets the trace id of all entries: the id of the request, or a new one.
func (m *mutation) setTrace() {
	trace := cmp.Or(m.by.TraceID, eventhook.NewTraceID())
	for i := range m.entries {
		m.entries[i].TraceID = trace
	}
}

// resource identifies the resource of an audit entry.
type resource struct {
	kind, id, name string
}

// record adds an audit entry for a change of a resource from one state to another; nil stands
// for a resource that does not exist. It reports whether the states differ.
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

// recordBulk adds one audit entry for an action on many resources of a kind.
func recordBulk[ID any](m *mutation, action, kind, kinds string, ids []ID) error {
	raw, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	m.recordChanges(action, resource{kind: kind, name: fmt.Sprintf("%d %s", len(ids), kinds)},
		[]eventhook.FieldChange{{Field: kind + "_ids", From: json.RawMessage("null"), To: raw}})
	return nil
}

// checkVersion returns ErrStale if wanted is neither 0 nor the current version.
func checkVersion(wanted, current int64) error {
	if wanted != 0 && wanted != current {
		return eventhook.ErrStale
	}
	return nil
}

// nameTaken turns a unique violation into a KindConflict with the formatted message. It
// returns other errors as they are.
func nameTaken(err error, format string, args ...any) error {
	if hasCode(err, codeUniqueViolation) {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf(format, args...)}
	}
	return err
}

// jsonColumn marshals a value for a json parameter; nil becomes NULL.
func jsonColumn(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil || string(raw) == "null" {
		return nil, err
	}
	return string(raw), nil
}
