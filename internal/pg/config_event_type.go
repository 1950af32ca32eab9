package pg

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const eventTypeColumns = `id, tenant_id, name, description, category, schema, visibility, version, created_at, updated_at`

func scanEventType(row pgx.Row) (t eventhook.EventType, err error) {
	var visibility string
	var schema []byte
	err = row.Scan((*[16]byte)(&t.ID), (*[16]byte)(&t.TenantID), &t.Name, &t.Description, &t.Category, &schema, &visibility, &t.Version, &t.CreatedAt, &t.UpdatedAt)
	t.Schema, t.Visibility = schema, eventhook.Visibility(visibility)
	return t, err
}

// eventTypeRecord is the part of an event type that audit entries show.
type eventTypeRecord struct {
	Description string               `json:"description"`
	Category    string               `json:"category"`
	Schema      json.RawMessage      `json:"schema,omitempty"`
	Visibility  eventhook.Visibility `json:"visibility"`
}

func recordOfEventType(t eventhook.EventType) eventTypeRecord {
	return eventTypeRecord{t.Description, t.Category, t.Schema, t.Visibility}
}

// EventType returns an entry of a tenant's catalogue, or KindNotFound. Primary key.
func (db *DB) EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error) {
	t, err := scanEventType(db.work.QueryRow(ctx, `SELECT `+eventTypeColumns+` FROM eventhook.event_type WHERE tenant_id = $1 AND name = $2`, [16]byte(tenant), name))
	return t, translate("find event type", notFound(err, "event type"))
}

// EventTypes lists the entries of a tenant's catalogue that the actor may see, newest first.
// Index on tenant and id.
func (db *DB) EventTypes(ctx context.Context, to eventhook.Actor, tenant eventhook.TenantID, before eventhook.EventTypeID, limit int) ([]eventhook.EventType, error) {
	hidden := ""
	if to.IsOfTenant() {
		hidden = string(eventhook.VisibleToAdmin)
	}
	rows, err := db.lists.Query(ctx, `SELECT `+eventTypeColumns+` FROM eventhook.event_type
		WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2) AND visibility <> $4 ORDER BY id DESC LIMIT $3`, [16]byte(tenant), uuidArg(before), limit, hidden)
	if err != nil {
		return nil, translate("list event types", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.EventType, error) { return scanEventType(r) })
	return list, translate("list event types", err)
}

// PutEventType creates an entry of a tenant's catalogue or replaces all of it, and reports
// whether it created the entry. A version other than 0 must be the current one, otherwise the
// error is ErrStale. The error is KindForbidden if the entry is hidden from the actor. The
// caller must have validated want.
func (db *DB) PutEventType(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, version int64, want eventhook.EventType) (t eventhook.EventType, created bool, err error) {
	err = db.mutate(ctx, "put event type", by, tenant, func(m *mutation) error {
		have, err := m.lockEventType(ctx, want.Name)
		if err != nil {
			return err
		}
		if have.IsHiddenFrom(by) {
			return &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The catalogue has an entry of this name that only the admin can change."}
		}
		if err := checkVersion(version, have.Version); err != nil {
			return err
		}
		var before any
		action := "event_type.created"
		if created = have.Version == 0; !created {
			before, action = recordOfEventType(have), "event_type.updated"
		}
		changed, err := m.record(action, resource{"event_type", have.ID.String(), have.Name}, before, recordOfEventType(want))
		if err != nil || !changed {
			t = have
			return err
		}
		t, err = scanEventType(m.tx.QueryRow(ctx, `UPDATE eventhook.event_type SET description = @description, category = @category,
			schema = @schema, visibility = @visibility, version = version + 1, updated_at = @now
			WHERE tenant_id = @tenant AND name = @name RETURNING `+eventTypeColumns,
			pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "name": want.Name, "description": want.Description, "category": want.Category,
				"schema": jsonArg(want.Schema), "visibility": string(want.Visibility), "now": m.db.now()}))
		return err
	})
	return t, created, err
}

// lockEventType locks an entry. If the entry does not exist, lockEventType
// first inserts one with version 0.
func (m *mutation) lockEventType(ctx context.Context, name string) (eventhook.EventType, error) {
	now := m.db.now()
	_, err := m.tx.Exec(ctx, `INSERT INTO eventhook.event_type (id, tenant_id, name, description, category, visibility, version, created_at, updated_at)
		VALUES ($1, $2, $3, '', '', 'tenant', 0, $4, $4) ON CONFLICT (tenant_id, name) DO NOTHING`,
		[16]byte(eventhook.NewID[eventhook.EventType](now)), [16]byte(m.tenant.ID), name, now)
	if err != nil {
		return eventhook.EventType{}, err
	}
	return scanEventType(m.tx.QueryRow(ctx, `SELECT `+eventTypeColumns+` FROM eventhook.event_type WHERE tenant_id = $1 AND name = $2 FOR UPDATE`, [16]byte(m.tenant.ID), name))
}

// DeleteEventType deletes an entry of a tenant's catalogue; events of that type stay. A
// version other than 0 must be the current one, otherwise the error is ErrStale. The error is
// KindNotFound if the entry does not exist or is hidden from the actor.
func (db *DB) DeleteEventType(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, name string, version int64) error {
	return db.mutate(ctx, "delete event type", by, tenant, func(m *mutation) error {
		t, err := scanEventType(m.tx.QueryRow(ctx, `DELETE FROM eventhook.event_type WHERE tenant_id = $1 AND name = $2 RETURNING `+eventTypeColumns, [16]byte(tenant), name))
		if err == nil && t.IsHiddenFrom(by) {
			return eventhook.NotFound("event type")
		}
		if err != nil {
			return notFound(err, "event type")
		}
		if err := checkVersion(version, t.Version); err != nil {
			return err
		}
		_, err = m.record("event_type.deleted", resource{"event_type", t.ID.String(), t.Name}, recordOfEventType(t), nil)
		return err
	})
}
