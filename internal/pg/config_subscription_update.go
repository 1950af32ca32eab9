package pg

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Lock order of every transaction that changes subscriptions: the subscriptions in the
// order of their ids, then their rows of subscription_health, then the generation of their
// tenant, which a trigger locks with the first change. This order prevents deadlocks.

// CreateSubscription creates a subscription of a tenant, active unless s.Status says
// otherwise. It generates secrets that s does not have. The error is KindConflict if the
// tenant is closed or would have too many subscriptions. The caller must have validated s.
func (db *DB) CreateSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription) (eventhook.Subscription, error) {
	return db.createSubscription(ctx, by, s, (*mutation).checkSubscriptionLimit)
}

// CreateCustomerSubscription is CreateSubscription by a customer of the tenant. The error is
// KindConflict if the scope of the customer would have more than MaxEndpoints subscriptions.
func (db *DB) CreateCustomerSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription,
	of eventhook.Customer) (eventhook.Subscription, error) {
	return db.createSubscription(ctx, by, s, func(m *mutation, ctx context.Context) error {
		return cmp.Or(m.checkCustomerLimit(ctx, of), m.checkSubscriptionLimit(ctx))
	})
}

// createSubscription creates a subscription if check, which runs in the same transaction, returns no
// error.
func (db *DB) createSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription,
	check func(*mutation, context.Context) error) (eventhook.Subscription, error) {
	err := db.mutate(ctx, "add subscription", by, s.TenantID, func(m *mutation) (err error) {
		s.ID = eventhook.NewID[eventhook.Subscription](db.now())
		if s, err = m.addSubscription(ctx, s); err != nil {
			return err
		}
		return check(m, ctx)
	})
	return s, err
}

// countVisibleSQL counts the subscriptions that a customer sees, up to @max. It reads all of the
// tenant if there are fewer. Index on tenant and id.
const countVisibleSQL = `
SELECT count(*) FROM (
    SELECT FROM eventhook.subscription s WHERE s.tenant_id = @tenant AND ` + visibleToScope + ` LIMIT @max) s`

// checkCustomerLimit returns a KindConflict if a customer has too many subscriptions, including the
// one just added. See checkSubscriptionLimit for concurrent additions.
func (m *mutation) checkCustomerLimit(ctx context.Context, of eventhook.Customer) error {
	var n int
	args := pgx.StrictNamedArgs{"tenant": [16]byte(m.tenant.ID), "scope": of.Scope, "max": of.MaxEndpoints + 1}
	if err := m.tx.QueryRow(ctx, countVisibleSQL, args).Scan(&n); err != nil {
		return err
	}
	if n > of.MaxEndpoints {
		return &eventhook.Error{Kind: eventhook.KindConflict,
			Message: fmt.Sprintf("The account has %s, the maximum. Delete one, or ask the sender for more.", endpoints(n-1))}
	}
	return nil
}

// endpoints returns a number of endpoints, as customers call their subscriptions.
func endpoints(n int) string {
	if n == 1 {
		return "1 endpoint"
	}
	return fmt.Sprintf("%d endpoints", n)
}

// countSubscriptionsSQL counts by the index on tenant and id.
const countSubscriptionsSQL = `SELECT count(*) FROM eventhook.subscription WHERE tenant_id = $1`

// checkSubscriptionLimit returns a KindConflict if the tenant has too many subscriptions,
// including the one just added. Adding has locked the tenant's generation, so no other
// transaction adds one meanwhile.
func (m *mutation) checkSubscriptionLimit(ctx context.Context) error {
	var n int
	if err := m.tx.QueryRow(ctx, countSubscriptionsSQL, [16]byte(m.tenant.ID)).Scan(&n); err != nil {
		return err
	}
	if m.tenant.ID == eventhook.OperatorTenant && n > eventhook.MaxOperatorSubscriptions {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The operator has %d subscriptions, the maximum.", n-1)}
	}
	if n > eventhook.MaxSubscriptions {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The tenant has %d subscriptions, the maximum.", n-1)}
	}
	return nil
}

// addSubscription inserts a subscription, which has its id.
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
	args["secrets"], args["tenant"] = sealed, [16]byte(s.TenantID)
	err = m.exec(ctx, `INSERT INTO eventhook.subscription (id, name, status, disabled_reason, disabled_by, event_types, filter, settings, version, updated_at, recovered_at, narrowed_at, secrets, tenant_id, created_at)
		VALUES (@id, @name, @status, @disabled_reason, @disabled_by, @event_types, @filter, @settings, @version, @updated_at, @recovered_at, @narrowed_at, @secrets, @tenant, @updated_at)`, args)
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

// subscriptionArgs returns the parameters that INSERT and UPDATE share.
func subscriptionArgs(s eventhook.Subscription) (pgx.StrictNamedArgs, error) {
	settings, err := json.Marshal(s.SubscriptionSettings)
	return pgx.StrictNamedArgs{"id": [16]byte(s.ID), "name": s.Name, "status": string(s.Status),
		"disabled_reason": textArg(s.DisabledReason), "disabled_by": textArg(string(s.DisabledBy)),
		"event_types": s.EventTypes, "filter": jsonArg(s.Filter), "settings": string(settings), "version": s.Version,
		"updated_at":   s.UpdatedAt,
		"recovered_at": s.RecoveredAt, "narrowed_at": s.NarrowedAt}, err
}

// UpdateSubscription updates a subscription in one transaction. change receives the current
// subscription, with its secrets in plain text, and returns the wanted one. A version other
// than 0 must be the current one, otherwise the error is ErrStale. A subscription that becomes
// active starts with no dead deliveries in a row, and is probed at once if its outage has not
// ended. A subscription that is disabled without a cause is disabled by a user. If the secrets do not open, because their
// encryption key is lost, the other fields can still be changed; new secrets must then be
// complete, otherwise the error is KindConflict. change must not block, since other
// transactions wait for the subscription.
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

// lockSubscription reads and locks one of the tenant's subscriptions, even if its secrets do
// not open.
func (m *mutation) lockSubscription(ctx context.Context, id eventhook.SubscriptionID) (eventhook.Subscription, error) {
	s, _, err := m.db.scanSubscription(m.tx.QueryRow(ctx, `SELECT `+subscriptionColumns+subscriptionTables+`
		WHERE s.id = $1 AND s.tenant_id = $2`+lockSubscriptionsClause, [16]byte(id), [16]byte(m.tenant.ID)))
	return s, notFound(err, "subscription")
}

// updateSubscription stores the wanted state of a subscription, and returns the changes. The
// caller holds the lock of the subscription.
func (m *mutation) updateSubscription(ctx context.Context, have, want eventhook.Subscription) (eventhook.Subscription, []eventhook.FieldChange, error) {
	switch {
	case want.Status == eventhook.SubscriptionDisabled:
		if want.DisabledBy = cmp.Or(want.DisabledBy, eventhook.DisabledByUser); want.DisabledBy == eventhook.DisabledByUser {
			want.DisabledReason = cmp.Or(want.DisabledReason, "a user disabled it")
		}
	case have.Status == eventhook.SubscriptionDisabled:
		want.RecoveredAt = new(m.db.now())
		fallthrough
	default:
		want.DisabledReason, want.DisabledBy = "", ""
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
	if want.NarrowedAt = have.NarrowedAt; eventhook.NarrowsScope(have.ScopeFilter, want.ScopeFilter) {
		want.NarrowedAt = new(want.UpdatedAt)
	}
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
	if err := m.updateOutage(ctx, have, want); err != nil {
		return have, nil, err
	}
	args["secrets"], args["keep_secrets"] = sealed, keepsSecrets
	err = m.exec(ctx, `UPDATE eventhook.subscription SET name = @name, status = @status, disabled_reason = @disabled_reason, disabled_by = @disabled_by,
		event_types = @event_types, filter = @filter, settings = @settings, version = @version, updated_at = @updated_at, recovered_at = @recovered_at, narrowed_at = @narrowed_at,
		secrets = CASE WHEN @keep_secrets THEN secrets ELSE @secrets END WHERE id = @id`, args)
	return want, changes, err
}

// resolveSecrets returns want with the secrets to store. If the present secrets do not open
// and want has none, SecretsLost stays set and the stored secrets are kept: the lost key may
// be restored later.
func (m *mutation) resolveSecrets(have, want eventhook.Subscription) (eventhook.Subscription, error) {
	hasSecrets := !want.URL.IsZero() || !want.AuthHeader.IsZero() || !want.Auth.IsZero() || len(want.Signing) > 0 ||
		!want.Ed25519Seed.IsZero()
	want.SecretsLost = have.SecretsLost && !hasSecrets
	switch {
	case want.SecretsLost:
		return want, nil
	case have.SecretsLost && (want.URL.IsZero() || len(want.Signing) == 0):
		return want, &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The secrets of the subscription %q are sealed with a key that is lost: "+
			"set its url, its signing_secret and, if it has one, its auth_header again, in one request.", have.Name)}
	}
	return want.WithGeneratedSecrets(), nil
}

// diffSubscriptions lists the fields that differ. Secrets are only reported as changed, and
// not at all if they are lost.
func diffSubscriptions(have, want eventhook.Subscription) ([]eventhook.FieldChange, error) {
	changes, err := eventhook.Diff(recordOfSubscription(have), recordOfSubscription(want))
	if err == nil && !want.SecretsLost {
		changes = append(changes, diffSubscriptionSecrets(have.SubscriptionSecrets, want.SubscriptionSecrets)...)
	}
	return changes, err
}

// statusFields are the fields that recordSubscription records in a separate entry.
var statusFields = []string{"status", "disabled_reason", "disabled_by"}

// recordSubscription records the changes of a subscription: first an entry for all other
// fields, then one for the status, whose action names the new status.
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

// DeleteSubscription deletes a subscription at once, even if it has open deliveries: these are
// not sent any more, see AbandonDeliveries. A version other than 0 must be the current one,
// otherwise the error is ErrStale.
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

// deleteSubscription deletes a subscription, its health first. The caller holds the lock of
// the subscription.
func (m *mutation) deleteSubscription(ctx context.Context, s eventhook.Subscription) error {
	for _, sql := range []string{`DELETE FROM eventhook.subscription_health WHERE subscription_id = $1`, `DELETE FROM eventhook.subscription WHERE id = $1`} {
		if err := m.exec(ctx, sql, [16]byte(s.ID)); err != nil {
			return err
		}
	}
	if s.IsOperator() {
		if err := m.exec(ctx, rememberDeletedSQL, [16]byte(s.ID), m.db.now()); err != nil {
			return err
		}
	}
	_, err := m.record("webhook.deleted", resourceOfSubscription(s), recordOfSubscription(s), nil)
	return err
}

// gatewayActor is the actor of changes that the gateway makes by itself.
var gatewayActor = eventhook.Actor{Type: eventhook.ActorSystem, Name: "eventhook"}

// lockFailingSQL skips subscriptions that another transaction is changing: the caller holds
// further locks by now, for which that transaction may wait. Primary key.
const lockFailingSQL = `SELECT ` + subscriptionColumns + subscriptionTables + `
WHERE s.id = ANY($1) AND (s.status <> 'disabled' OR s.disabled_by = 'failures') ORDER BY s.tenant_id, s.id` + lockSubscriptionsClause + ` SKIP LOCKED`

// disableSubscriptions disables subscriptions on behalf of the gateway, within tx. Each has a
// reason that users can read. It records the changes and publishes webhook.disabled events. It
// skips subscriptions that are disabled already, do not exist any more, or are locked by
// another transaction: the next dead delivery disables them. A subscription that failures have
// disabled can still be disabled by an answer of 410, which ends its probes. After the commit, the caller must
// call notifyAnnounced with each element of announcements.
func (db *DB) disableSubscriptions(ctx context.Context, tx pgx.Tx,
	reasons map[eventhook.SubscriptionID]disabling) (announcements []announced, disabled []eventhook.Subscription, err error) {
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
	list = slices.DeleteFunc(list, func(s eventhook.Subscription) bool { return s.DisabledBy == reasons[s.ID].by })
	disabled = list
	for len(list) > 0 { // one tenant after the other, so that all transactions lock generations in one order
		tenant := eventhook.Tenant{ID: list[0].TenantID, Slug: list[0].TenantSlug}
		n := slices.IndexFunc(list, func(s eventhook.Subscription) bool { return s.TenantID != tenant.ID })
		if n < 0 {
			n = len(list)
		}
		of, err := db.disableOfTenant(ctx, tx, tenant, list[:n], reasons)
		if err != nil {
			return nil, nil, err
		}
		announcements, list = append(announcements, of), list[n:]
	}
	return announcements, disabled, nil
}

func (db *DB) disableOfTenant(ctx context.Context, tx pgx.Tx, tenant eventhook.Tenant, list []eventhook.Subscription,
	reasons map[eventhook.SubscriptionID]disabling) (announced, error) {
	m := &mutation{db: db, tx: tx, by: gatewayActor, tenant: tenant, batch: &pgx.Batch{}}
	for _, s := range list {
		want := s
		want.Status, want.DisabledReason, want.DisabledBy = eventhook.SubscriptionDisabled, reasons[s.ID].reason, reasons[s.ID].by
		if _, _, err := m.updateSubscription(ctx, s, want); err != nil {
			return announced{}, err
		}
	}
	err := m.flush(ctx)
	return m.announced, err
}
