package pg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const subscriptionColumns = `s.id, s.tenant_id, t.slug, s.name, s.status, coalesce(s.disabled_reason, ''), coalesce(s.disabled_by, ''), s.event_types, s.filter, s.settings, s.secrets,
s.version, s.recovered_at, s.narrowed_at, s.created_at, s.updated_at`

const subscriptionTables = ` FROM eventhook.subscription s JOIN eventhook.tenant t ON t.id = s.tenant_id`

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

// generationSQL reads the generation of a tenant's configuration, 0 if that has never changed,
// with the generation of the operator's.
const generationSQL = `SELECT coalesce((SELECT generation FROM eventhook.tenant_generation WHERE tenant_id = $1), 0) + ` + operatorGeneration

// receivingOperatorSQL reads the operator subscriptions that receive events of tenant $1.
// Index subscription_tenant.
const receivingOperatorSQL = `SELECT ` + subscriptionColumns + subscriptionTables + ` JOIN eventhook.tenant t2 ON t2.id = $1
	WHERE s.tenant_id = ` + operatorID + ` AND $1 <> ` + operatorID + ` AND (NOT s.settings ? 'tenants' OR s.settings->'tenants' ? t2.slug) ORDER BY s.id`

// TenantSubscriptions returns all of a tenant's subscriptions, oldest first, then the operator
// subscriptions that receive its events, and their generation, all from one snapshot. Subscriptions whose secrets do not open have
// SecretsLost. An unknown tenant has no subscriptions.
func (db *DB) TenantSubscriptions(ctx context.Context, tenant eventhook.TenantID) (generation int64, list []eventhook.Subscription, err error) {
	err = db.inSnapshot(ctx, "read subscriptions", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, generationSQL, [16]byte(tenant)).Scan(&generation); err != nil {
			return err
		}
		if list, err = db.subscriptionsOf(ctx, tx, tenant, ""); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, receivingOperatorSQL, [16]byte(tenant))
		if err != nil {
			return err
		}
		operators, err := db.collectSubscriptions(rows)
		list = append(list, operators...)
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
	err = row.Scan((*[16]byte)(&s.ID), (*[16]byte)(&s.TenantID), &s.TenantSlug, &s.Name, (*string)(&s.Status), &s.DisabledReason,
		(*string)(&s.DisabledBy), &s.EventTypes,
		&filter, &settings, &sealed, &s.Version, &s.RecoveredAt, &s.NarrowedAt, &s.CreatedAt, &s.UpdatedAt)
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
	DisabledBy     eventhook.DisabledBy         `json:"disabled_by,omitempty"`
	EventTypes     []string                     `json:"event_types"`
	Filter         json.RawMessage              `json:"filter,omitempty"`
	eventhook.SubscriptionSettings
}

func recordOfSubscription(s eventhook.Subscription) subscriptionRecord {
	return subscriptionRecord{s.Name, s.Status, s.DisabledReason, s.DisabledBy, s.EventTypes, s.Filter, s.SubscriptionSettings}
}

func resourceOfSubscription(s eventhook.Subscription) resource {
	return resource{"subscription", s.ID.String(), s.Name}
}

// SubscriptionNames returns the names of the given subscriptions that still exist and
// belong to the tenant, or to any if tenant is zero. Primary key lookups.
func (db *DB) SubscriptionNames(ctx context.Context, tenant eventhook.TenantID, ids []eventhook.SubscriptionID) (map[eventhook.SubscriptionID]string, error) {
	rows, err := db.lists.Query(ctx, `SELECT id, name FROM eventhook.subscription WHERE id = ANY ($1) AND ($2::uuid IS NULL OR tenant_id = $2)`, uuids(ids), uuidArg(tenant))
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

// subscriptionSecrets is the JSON that is sealed. Its member names must never change: stored
// values have them.
type subscriptionSecrets struct {
	URL         string          `json:"url"`
	AuthHeader  string          `json:"auth_header,omitempty"`
	Auth        json.RawMessage `json:"auth,omitempty"` // an eventhook.Auth
	Signing     []signingSecret `json:"signing"`
	Ed25519Seed string          `json:"ed25519_seed,omitempty"`
}

type signingSecret struct {
	Secret    string     `json:"secret"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func (m *mutation) sealSubscription(ctx context.Context, s eventhook.Subscription) (string, error) {
	plain := subscriptionSecrets{URL: s.URL.Reveal(), AuthHeader: s.AuthHeader.Reveal(), Auth: json.RawMessage(s.Auth.Reveal()),
		Ed25519Seed: s.Ed25519Seed.Reveal()}
	for _, one := range s.Signing {
		plain.Signing = append(plain.Signing, signingSecret{one.Secret.Reveal(), one.ExpiresAt})
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return "", err
	}
	return m.seal(ctx, subscriptionsSecrets, s.ID, s.TenantID, string(raw))
}

func (db *DB) openSubscription(of eventhook.Subscription, sealed string) (s eventhook.SubscriptionSecrets, err error) {
	text, err := db.open(subscriptionsSecrets, of.ID, of.TenantID, sealed)
	if err != nil {
		return s, err
	}
	var plain subscriptionSecrets
	if err := json.Unmarshal([]byte(text), &plain); err != nil {
		return s, err
	}
	s.URL, s.AuthHeader, s.Ed25519Seed = optionalSecret(plain.URL), optionalSecret(plain.AuthHeader), optionalSecret(plain.Ed25519Seed)
	s.Auth = optionalSecret(string(plain.Auth))
	s.Signing = make([]eventhook.SigningSecret, len(plain.Signing))
	for i, one := range plain.Signing {
		s.Signing[i] = eventhook.SigningSecret{Secret: optionalSecret(one.Secret), ExpiresAt: one.ExpiresAt}
	}
	return s, nil
}

// optionalSecret returns a secret, which is zero for "".
func optionalSecret(text string) eventhook.Secret {
	if text == "" {
		return eventhook.Secret{}
	}
	return eventhook.NewSecret(text)
}

// diffSubscriptionSecrets lists the secrets that differ, without their values.
func diffSubscriptionSecrets(before, after eventhook.SubscriptionSecrets) (changes []eventhook.FieldChange) {
	for _, field := range []struct {
		name     string
		from, to eventhook.Secret
	}{
		{"url", before.URL, after.URL},
		{"auth_header", before.AuthHeader, after.AuthHeader},
		{"auth", before.Auth, after.Auth},
		{"ed25519_key", before.Ed25519Seed, after.Ed25519Seed},
	} {
		if !field.from.Equal(field.to) {
			changes = append(changes, eventhook.FieldChange{Field: field.name, From: redactedSecret(field.from, false), To: redactedSecret(field.to, !field.from.IsZero())})
		}
	}
	if !slices.EqualFunc(before.Signing, after.Signing, sameSigning) {
		changes = append(changes, eventhook.FieldChange{Field: "signing_secret", From: secretsChanged.From, To: secretsChanged.To})
	}
	return changes
}

// redactedSecret represents a secret in an audit entry: null, redacted, or redacted and
// changed.
func redactedSecret(s eventhook.Secret, changed bool) json.RawMessage {
	switch {
	case s.IsZero():
		return json.RawMessage("null")
	case changed:
		return secretsChanged.To
	}
	return secretsChanged.From
}

func sameSigning(a, b eventhook.SigningSecret) bool {
	return a.Secret.Equal(b.Secret) && (a.ExpiresAt == nil) == (b.ExpiresAt == nil) && (a.ExpiresAt == nil || a.ExpiresAt.Equal(*b.ExpiresAt))
}

// sealTargets seals the secrets of a route's targets as one text: a JSON array with an object
// or null for each target. It returns "" if no target has secrets.
func (m *mutation) sealTargets(ctx context.Context, r eventhook.Route) (sealed string, err error) {
	if len(targetSecrets(r.Targets)) == 0 {
		return "", nil
	}
	list := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		list[i] = cmp.Or(t.Secrets.Reveal(), "null")
	}
	// Joined and not marshalled, so that each object keeps its exact text.
	return m.seal(ctx, routeTargetSecrets, r.ID, r.TenantID, "["+strings.Join(list, ",")+"]")
}

// openTargets sets the secrets of a route's targets from the text that sealTargets sealed. If
// it fails, it sets none.
func (db *DB) openTargets(r *eventhook.Route, sealed *string) error {
	if sealed == nil {
		return nil
	}
	plain, err := db.open(routeTargetSecrets, r.ID, r.TenantID, *sealed)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(plain), &list); err != nil || len(list) != len(r.Targets) {
		return errors.New("the secrets do not match the route's targets")
	}
	for i, secrets := range list {
		if string(secrets) != "null" {
			r.Targets[i].Secrets = eventhook.NewSecret(string(secrets))
		}
	}
	return nil
}

// targetSecrets returns the secrets of targets in their order, for comparison.
func targetSecrets(targets []eventhook.Target) (all []eventhook.Secret) {
	for _, t := range targets {
		if !t.Secrets.IsZero() {
			all = append(all, t.Secrets)
		}
	}
	return all
}

// sameTarget reports whether two targets have the same settings and no secrets.
func sameTarget(a, b eventhook.Target) bool {
	return a.Type == b.Type && bytes.Equal(a.Settings, b.Settings) && a.Secrets.IsZero() && b.Secrets.IsZero()
}

// diffRoutes lists the fields that differ between two states of a route. Secrets are only
// reported as changed.
func diffRoutes(before, after eventhook.Route) ([]eventhook.FieldChange, error) {
	changes, err := eventhook.Diff(recordOfRoute(before), recordOfRoute(after))
	if err == nil && !slices.EqualFunc(targetSecrets(before.Targets), targetSecrets(after.Targets), eventhook.Secret.Equal) {
		changes = append(changes, secretsChanged)
	}
	return changes, err
}
