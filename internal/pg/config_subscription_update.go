package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Whoever changes subscriptions takes first the subscriptions, in the order of
// their ids, then their healths, then the generation of their tenant, which a
// trigger takes with the first change: so nobody waits for whom he keeps waiting.

// CreateSubscription makes a subscription of a tenant, active unless it says
// otherwise. Secrets that are not given are made. More than the tenant may have,
// or a closed tenant, is a KindConflict. The caller has validated it.
func (db *DB) CreateSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription) (eventhook.Subscription, error) {
	err := db.mutate(ctx, "add subscription", by, s.TenantID, func(m *mutation) (err error) {
		s.ID = eventhook.NewID[eventhook.Subscription](db.now())
		if s, err = m.addSubscription(ctx, s); err != nil {
			return err
		}
		return m.checkSubscriptionLimit(ctx)
	})
	return s, err
}

// countSubscriptionsSQL counts by the index on tenant and id.
const countSubscriptionsSQL = `SELECT count(*) FROM eventhook.subscription WHERE tenant_id = $1`

// checkSubscriptionLimit refuses what was added if it is too many. The added
// one holds the tenant's generation, so nobody else adds one meanwhile.
func (m *mutation) checkSubscriptionLimit(ctx context.Context) error {
	var n int
	if err := m.tx.QueryRow(ctx, countSubscriptionsSQL, [16]byte(m.tenant.ID)).Scan(&n); err != nil {
		return err
	}
	if n > eventhook.MaxSubscriptions {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The tenant has %d subscriptions, and cannot have more.", n-1)}
	}
	return nil
}

// addSubscription makes a subscription, which has its id.
func (m *mutation) addSubscription(ctx context.Context, s eventhook.Subscription) (eventhook.Subscription, error) {
	now := m.db.now()
	s = s.WithGeneratedSecrets()
	s.TenantID, s.TenantSlug, s.Version, s.CreatedAt, s.UpdatedAt = m.tenant.ID, m.tenant.Slug, 1, now, now
	if s.Status == "" {
		s.Status = eventhook.SubscriptionActive
	}
	sealed, err := m.sealSubscription(ctx, s)
	if err != nil {
		return s, err
	}
	args, err := subscriptionArgs(s)
	if err != nil {
		return s, err
	}
	err = m.exec(ctx, `INSERT INTO eventhook.subscription (id, name, status, disabled_reason, event_types, filter, settings, version, updated_at, secrets, tenant_id, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $9)`, append(args, sealed, [16]byte(s.TenantID))...)
	if err != nil {
		return s, err
	}
	if m.created == nil {
		m.created = map[eventhook.SubscriptionID]bool{}
	}
	m.created[s.ID] = true
	_, err = m.record("webhook.created", resourceOfSubscription(s), nil, recordOfSubscription(s))
	return s, err
}

// subscriptionArgs are the parameters that inserts and updates share.
func subscriptionArgs(s eventhook.Subscription) ([]any, error) {
	settings, err := json.Marshal(s.SubscriptionSettings)
	return []any{[16]byte(s.ID), s.Name, string(s.Status), textArg(s.DisabledReason), s.EventTypes, jsonArg(s.Filter), string(settings), s.Version, s.UpdatedAt}, err
}

// UpdateSubscription changes a subscription in one step: change sees it as it
// is, with its secrets unsealed, and returns what it shall be. A version other
// than 0 must be the current one, else ErrStale. What becomes active begins to
// count its dead deliveries anew. Of one whose key is lost everything can be
// changed but its secrets, unless all are given anew, else it is a KindConflict.
// change must not block.
func (db *DB) UpdateSubscription(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.SubscriptionID, version int64, change func(eventhook.Subscription) (eventhook.Subscription, error)) (s eventhook.Subscription, err error) {
	err = db.mutate(ctx, "change subscription", by, tenant, func(m *mutation) error {
		have, err := m.lockSubscription(ctx, id)
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
		s, _, err = m.updateSubscription(ctx, have, want)
		return err
	})
	return s, err
}

// lockSubscription holds one of the tenant's subscriptions, which may be one
// whose key is lost.
func (m *mutation) lockSubscription(ctx context.Context, id eventhook.SubscriptionID) (eventhook.Subscription, error) {
	s, _, err := m.db.scanSubscription(m.tx.QueryRow(ctx, `SELECT `+subscriptionColumns+subscriptionTables+`
		WHERE s.id = $1 AND s.tenant_id = $2`+lockSubscriptionsClause, [16]byte(id), [16]byte(m.tenant.ID)))
	return s, notFound(err, "subscription")
}

// resetHealthSQL lets a subscription count its dead deliveries anew. Primary key.
const resetHealthSQL = `UPDATE eventhook.subscription_health SET dead_in_row = 0 WHERE subscription_id = $1 AND dead_in_row > 0`

// updateSubscription brings a subscription, which is locked, to what is wanted,
// and says what that changes.
func (m *mutation) updateSubscription(ctx context.Context, have, want eventhook.Subscription) (eventhook.Subscription, []eventhook.FieldChange, error) {
	if want.Status != eventhook.SubscriptionDisabled {
		want.DisabledReason = ""
	}
	var err error
	if want, err = m.resolveSecrets(have, want); err != nil {
		return have, nil, err
	}
	changes, err := m.recordSubscription(have, want)
	if err != nil || len(changes) == 0 {
		return have, nil, err
	}
	want.ID, want.TenantID, want.TenantSlug, want.CreatedAt = have.ID, have.TenantID, have.TenantSlug, have.CreatedAt
	want.Version, want.UpdatedAt = have.Version+1, m.db.now()
	keepsSecrets := want.SecretsLost || !have.SecretsLost && len(diffSubscriptionSecrets(have.SubscriptionSecrets, want.SubscriptionSecrets)) == 0
	sealed := ""
	if !keepsSecrets {
		if sealed, err = m.sealSubscription(ctx, want); err != nil {
			return have, nil, err
		}
	}
	args, err := subscriptionArgs(want)
	if err != nil {
		return have, nil, err
	}
	if have.Status != want.Status && want.Status == eventhook.SubscriptionActive {
		if err := m.exec(ctx, resetHealthSQL, [16]byte(have.ID)); err != nil {
			return have, nil, err
		}
	}
	err = m.exec(ctx, `UPDATE eventhook.subscription SET name = $2, status = $3, disabled_reason = $4, event_types = $5, filter = $6, settings = $7,
		version = $8, updated_at = $9, secrets = CASE WHEN $11 THEN secrets ELSE $10 END WHERE id = $1`, append(args, sealed, keepsSecrets)...)
	return want, changes, err
}

// targetSecrets are the secrets that a subscription shall have: those it has if its
// key is lost, which may be found again, unless it is given new ones.
func (m *mutation) resolveSecrets(have, want eventhook.Subscription) (eventhook.Subscription, error) {
	isGiven := !want.URL.IsZero() || !want.AuthHeader.IsZero() || len(want.Signing) > 0 || !want.Ed25519Seed.IsZero()
	want.SecretsLost = have.SecretsLost && !isGiven
	switch {
	case want.SecretsLost:
		return want, nil
	case have.SecretsLost && (want.URL.IsZero() || len(want.Signing) == 0):
		return want, &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The secrets of the subscription %q are sealed with a key that is gone: "+
			"give its url, its signing_secret and its auth_header, if it has one, anew and together.", have.Name)}
	}
	return want.WithGeneratedSecrets(), nil
}

// diffSubscriptions lists what differs; of secrets only that they do, and
// nothing of those that are lost.
func diffSubscriptions(have, want eventhook.Subscription) ([]eventhook.FieldChange, error) {
	changes, err := eventhook.Diff(recordOfSubscription(have), recordOfSubscription(want))
	if err == nil && !want.SecretsLost {
		changes = append(changes, diffSubscriptionSecrets(have.SubscriptionSecrets, want.SubscriptionSecrets)...)
	}
	return changes, err
}

// statusFields are the fields that an entry of their own tells of.
var statusFields = []string{"status", "disabled_reason"}

// recordSubscription notes what differs: of the status in an entry of its own,
// named by what it becomes, behind that of all else.
func (m *mutation) recordSubscription(have, want eventhook.Subscription) ([]eventhook.FieldChange, error) {
	changes, err := diffSubscriptions(have, want)
	if err != nil {
		return nil, err
	}
	var status, rest []eventhook.FieldChange
	for _, c := range changes {
		if have.Status != want.Status && slices.Contains(statusFields, c.Field) {
			status = append(status, c)
		} else {
			rest = append(rest, c)
		}
	}
	m.recordChanges("webhook.updated", resourceOfSubscription(want), rest)
	m.recordChanges(statusAction(want.Status), resourceOfSubscription(want), status)
	return changes, nil
}

func statusAction(to eventhook.SubscriptionStatus) string {
	return map[eventhook.SubscriptionStatus]string{
		eventhook.SubscriptionActive: "webhook.resumed", eventhook.SubscriptionPaused: "webhook.paused", eventhook.SubscriptionDisabled: "webhook.disabled",
	}[to]
}

// DeleteSubscription removes a subscription, at once whatever is owed to it:
// nothing of that is sent any more, see AbandonDeliveries. A version other than
// 0 must be the current one, else ErrStale.
func (db *DB) DeleteSubscription(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.SubscriptionID, version int64) error {
	return db.mutate(ctx, "delete subscription", by, tenant, func(m *mutation) error {
		s, err := m.lockSubscription(ctx, id)
		if err != nil {
			return err
		}
		if err := checkVersion(version, s.Version); err != nil {
			return err
		}
		return m.deleteSubscription(ctx, s)
	})
}

// deleteSubscription removes a subscription, which is locked, its health first.
func (m *mutation) deleteSubscription(ctx context.Context, s eventhook.Subscription) error {
	for _, sql := range []string{`DELETE FROM eventhook.subscription_health WHERE subscription_id = $1`, `DELETE FROM eventhook.subscription WHERE id = $1`} {
		if err := m.exec(ctx, sql, [16]byte(s.ID)); err != nil {
			return err
		}
	}
	_, err := m.record("webhook.deleted", resourceOfSubscription(s), recordOfSubscription(s), nil)
	return err
}

// itself is the gateway where nobody else has acted.
var gatewayActor = eventhook.Actor{Type: eventhook.ActorSystem, Name: "eventhook"}

// lockFailingSQL passes by what somebody else is changing at this moment, unless
// the caller holds it: by now he also holds what the other may wait for. Primary
// key.
const lockFailingSQL = `SELECT ` + subscriptionColumns + subscriptionTables + `
WHERE s.id = ANY($1) AND s.status <> 'disabled' ORDER BY s.tenant_id, s.id` + lockSubscriptionsClause + ` SKIP LOCKED`

// disableSubscriptions disables subscriptions in the name of the gateway, each
// for a reason that people can read, in the transaction that has found it. It is
// recorded, and told to the others as webhook.disabled. One that is disabled
// already, is gone, or that somebody is changing at this moment is left as it
// is: the next delivery that dies finds it again. The caller calls notifyAnnounced
// with each that it returns when it has committed.
func (db *DB) disableSubscriptions(ctx context.Context, tx pgx.Tx, reasons map[eventhook.SubscriptionID]string) (told []announced, disabled []eventhook.Subscription, err error) {
	if len(reasons) == 0 {
		return nil, nil, nil
	}
	ids := uuids(slices.Collect(maps.Keys(reasons)))
	rows, err := tx.Query(ctx, lockFailingSQL, ids)
	if err != nil {
		return nil, nil, err
	}
	list, err := db.collectSubscriptions(rows)
	if err != nil {
		return nil, nil, err
	}
	disabled = list
	for len(list) > 0 { // those of one tenant after the other, as everybody takes their generations
		tenant := eventhook.Tenant{ID: list[0].TenantID, Slug: list[0].TenantSlug}
		n := slices.IndexFunc(list, func(s eventhook.Subscription) bool { return s.TenantID != tenant.ID })
		if n < 0 {
			n = len(list)
		}
		of, err := db.disableOfTenant(ctx, tx, tenant, list[:n], reasons)
		if err != nil {
			return nil, nil, err
		}
		told, list = append(told, of), list[n:]
	}
	return told, disabled, nil
}

func (db *DB) disableOfTenant(ctx context.Context, tx pgx.Tx, tenant eventhook.Tenant, list []eventhook.Subscription, reasons map[eventhook.SubscriptionID]string) (announced, error) {
	m := &mutation{db: db, tx: tx, by: gatewayActor, tenant: tenant, batch: &pgx.Batch{}}
	for _, s := range list {
		want := s
		want.Status, want.DisabledReason = eventhook.SubscriptionDisabled, reasons[s.ID]
		if _, _, err := m.updateSubscription(ctx, s, want); err != nil {
			return announced{}, err
		}
	}
	err := m.flush(ctx)
	return m.announced, err
}
