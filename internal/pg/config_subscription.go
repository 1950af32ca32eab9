package pg

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const subscriptionColumns = `s.id, s.tenant_id, t.slug, s.name, s.status, coalesce(s.disabled_reason, ''), s.event_types, s.filter, s.settings, s.secrets,
s.version, s.created_at, s.updated_at`

const subscriptionTables = ` FROM eventhook.subscription s JOIN eventhook.tenant t ON t.id = s.tenant_id`

// Subscriptions lists a tenant's subscriptions, newest first, with their secrets in plain
// text. Subscriptions whose secrets do not open, because their encryption key is lost, have
// SecretsLost and are logged. Index on tenant and id.
func (db *DB) Subscriptions(ctx context.Context, tenant eventhook.TenantID, before eventhook.SubscriptionID, limit int) ([]eventhook.Subscription, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+subscriptionColumns+subscriptionTables+`
		WHERE s.tenant_id = $1 AND s.id < $2 ORDER BY s.id DESC LIMIT $3`, [16]byte(tenant), cursorArg(before), limit)
	if err != nil {
		return nil, translate("list subscriptions", err)
	}
	list, err := db.collectSubscriptions(rows)
	return list, translate("list subscriptions", err)
}

// Subscription returns one of a tenant's subscriptions, as Subscriptions lists it, or
// KindNotFound. Primary key.
func (db *DB) Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.Subscription, error) {
	s, unopened, err := db.scanSubscription(db.work.QueryRow(ctx, `SELECT `+subscriptionColumns+subscriptionTables+`
		WHERE s.id = $1 AND s.tenant_id = $2`, [16]byte(id), [16]byte(tenant)))
	if unopened != nil {
		db.log.Error("the secrets of a subscription cannot be opened", "subscription", id, "error", unopened)
	}
	return s, translate("find subscription", notFound(err, "subscription"))
}

// generationSQL reads the generation of a tenant's configuration, 0 if that has never changed.
const generationSQL = `SELECT coalesce((SELECT generation FROM eventhook.tenant_generation WHERE tenant_id = $1), 0)`

// TenantSubscriptions returns all of a tenant's subscriptions, oldest first, and their
// generation, both from one snapshot. Subscriptions whose secrets do not open have
// SecretsLost. An unknown tenant has no subscriptions.
func (db *DB) TenantSubscriptions(ctx context.Context, tenant eventhook.TenantID) (generation int64, list []eventhook.Subscription, err error) {
	err = db.inSnapshot(ctx, "read subscriptions", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, generationSQL, [16]byte(tenant)).Scan(&generation); err != nil {
			return err
		}
		list, err = db.subscriptionsOf(ctx, tx, tenant, "")
		return err
	})
	return generation, list, err
}

// lockSubscriptionsClause locks subscriptions and lets other transactions count their
// deliveries meanwhile: the foreign keys of these counts need FOR KEY SHARE only.
const lockSubscriptionsClause = ` FOR NO KEY UPDATE OF s`

// subscriptionsOf reads all of a tenant's subscriptions, oldest first. lock is "" or a FOR
// clause. Index on tenant and id.
func (db *DB) subscriptionsOf(ctx context.Context, tx pgx.Tx, tenant eventhook.TenantID, lock string) ([]eventhook.Subscription, error) {
	rows, err := tx.Query(ctx, `SELECT `+subscriptionColumns+subscriptionTables+` WHERE s.tenant_id = $1 ORDER BY s.id`+lock, [16]byte(tenant))
	if err != nil {
		return nil, err
	}
	return db.collectSubscriptions(rows)
}

// collectSubscriptions scans subscriptions. It logs one line for all
// subscriptions whose secrets do not open, since there may be thousands.
func (db *DB) collectSubscriptions(rows pgx.Rows) ([]eventhook.Subscription, error) {
	lost := 0
	var first error
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (eventhook.Subscription, error) {
		s, unopened, err := db.scanSubscription(row)
		if unopened != nil {
			lost++
			if first == nil {
				first = unopened
			}
		}
		return s, err
	})
	if lost > 0 {
		db.log.Error("the secrets of subscriptions cannot be opened", "subscriptions", lost, "first", first)
	}
	return list, err
}

// scanSubscription scans a subscription. Secrets that do not open, because their encryption
// key is lost, are left out, and unopened is the reason.
func (db *DB) scanSubscription(row pgx.Row) (s eventhook.Subscription, unopened, err error) {
	var sealed string
	var settings, filter []byte
	err = row.Scan((*[16]byte)(&s.ID), (*[16]byte)(&s.TenantID), &s.TenantSlug, &s.Name, (*string)(&s.Status), &s.DisabledReason, &s.EventTypes,
		&filter, &settings, &sealed, &s.Version, &s.CreatedAt, &s.UpdatedAt)
	if err != nil {
		return s, nil, err
	}
	s.Filter = filter
	if s.SubscriptionSecrets, unopened = db.openSubscription(s, sealed); unopened != nil {
		s.SecretsLost = true
	}
	if string(settings) == "{}" { // the defaults, which most subscriptions have: decoding is skipped for speed
		return s, unopened, nil
	}
	return s, unopened, json.Unmarshal(settings, &s.SubscriptionSettings)
}

// subscriptionRecord is the part of a subscription that audit entries show, except its
// secrets.
type subscriptionRecord struct {
	Name           string                       `json:"name"`
	Status         eventhook.SubscriptionStatus `json:"status"`
	DisabledReason string                       `json:"disabled_reason,omitempty"`
	EventTypes     []string                     `json:"event_types"`
	Filter         json.RawMessage              `json:"filter,omitempty"`
	eventhook.SubscriptionSettings
}

func recordOfSubscription(s eventhook.Subscription) subscriptionRecord {
	return subscriptionRecord{s.Name, s.Status, s.DisabledReason, s.EventTypes, s.Filter, s.SubscriptionSettings}
}

func resourceOfSubscription(s eventhook.Subscription) resource {
	return resource{"subscription", s.ID.String(), s.Name}
}

// SubscriptionNames returns the names of the given subscriptions that still exist and
// belong to the tenant. Primary key lookups.
func (db *DB) SubscriptionNames(ctx context.Context, tenant eventhook.TenantID, ids []eventhook.SubscriptionID) (map[eventhook.SubscriptionID]string, error) {
	rows, err := db.lists.Query(ctx, `SELECT id, name FROM eventhook.subscription WHERE id = ANY ($1) AND tenant_id = $2`, uuids(ids), [16]byte(tenant))
	if err != nil {
		return nil, translate("name subscriptions", err)
	}
	names := map[eventhook.SubscriptionID]string{}
	var id [16]byte
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	return names, translate("name subscriptions", err)
}
