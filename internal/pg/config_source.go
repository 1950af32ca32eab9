package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const sourceColumns = `s.id, s.tenant_id, t.slug, t.status, t.max_events_per_day, t.max_storage_bytes, s.slug, s.name, s.provider, s.verifier,
s.secrets_count, s.settings, s.is_enabled, s.version, s.created_at, s.updated_at, l.secret,
coalesce(l.revealed_at IS NOT NULL, false), coalesce(s.handshake_opened_at, s.created_at), s.consume, s.consume_secrets`

const sourceTables = ` FROM eventhook.source s JOIN eventhook.tenant t ON t.id = s.tenant_id
LEFT JOIN eventhook.learned_secret l ON l.source_id = s.id`

// FindSource returns the source with a tenant slug and a source slug, with its verifier in
// plain text. It also finds disabled sources and sources of suspended or closed tenants. The
// error is KindNotFound if there is no such source. FindSource fails if a secret of the source
// does not open. Unique indexes.
func (db *DB) FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error) {
	row := db.work.QueryRow(ctx, `SELECT `+sourceColumns+sourceTables+`
		WHERE t.slug = $1 AND s.slug = $2`, tenant, source)
	s, err := db.scanSource(row)
	return s, translate("find source", notFound(asNotReady(err), "source"))
}

// Sources lists a tenant's sources, newest first, with their verifiers in plain text. A source
// whose verifier does not open, because its encryption key is lost, is logged and listed
// without a verifier. Index on tenant and id.
func (db *DB) Sources(ctx context.Context, tenant eventhook.TenantID, before eventhook.SourceID, limit int) ([]eventhook.Source, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+sourceColumns+sourceTables+`
		WHERE s.tenant_id = $1 AND ($2::uuid IS NULL OR s.id < $2) ORDER BY s.id DESC LIMIT $3`, [16]byte(tenant), uuidArg(before), limit)
	if err != nil {
		return nil, translate("list sources", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Source, error) {
		s, unopened, err := db.scanSourcePartly(r)
		if unopened != nil {
			db.log.Error("a source's secrets cannot be opened", "error", unopened)
		}
		return s, err
	})
	return list, translate("list sources", err)
}

// Source returns one of a tenant's sources by its slug, as Sources lists it, or KindNotFound.
// Unique index.
func (db *DB) Source(ctx context.Context, tenant eventhook.TenantID, slug string) (eventhook.Source, error) {
	s, unopened, err := db.scanSourcePartly(db.work.QueryRow(ctx, `SELECT `+sourceColumns+sourceTables+`
		WHERE s.tenant_id = $1 AND s.slug = $2`, [16]byte(tenant), slug))
	if unopened != nil {
		db.log.Error("a source's secrets cannot be opened", "error", unopened)
	}
	return s, translate("find source", notFound(err, "source"))
}

// scanSource scans a source with its secrets. It fails if a secret does not open.
func (db *DB) scanSource(row pgx.Row) (eventhook.Source, error) {
	s, unopened, err := db.scanSourcePartly(row)
	if err == nil {
		err = unopened
	}
	return s, err
}

// scanSourcePartly scans a source. Secrets that do not open, because their encryption key is
// lost, are left out, and unopened is the reason. Such a source can still be updated or
// deleted.
func (db *DB) scanSourcePartly(row pgx.Row) (s eventhook.Source, unopened, err error) {
	r, err := scanSourceRow(row)
	if err != nil {
		return s, nil, err
	}
	return db.openSource(r)
}

// sourceRow is a source with sealed secrets.
type sourceRow struct {
	Source   eventhook.Source // without its verifier, learned secrets and settings
	Sealed   string           // the verifier
	Learned  *string          // sealed; nil for none
	Settings json.RawMessage
	consumed
}

// consumed is where a source consumes messages.
type consumed struct {
	Consume        json.RawMessage `json:"consume,omitempty"`         // empty if the source receives webhooks
	ConsumeSecrets *string         `json:"consume_secrets,omitempty"` // sealed; nil for none
}

// scanSourceRow scans sourceColumns.
func scanSourceRow(row pgx.Row) (r sourceRow, err error) {
	s := &r.Source
	err = row.Scan((*[16]byte)(&s.ID), (*[16]byte)(&s.TenantID), &s.TenantSlug, (*string)(&s.TenantStatus), &s.Quota.MaxEventsPerDay, &s.Quota.MaxStorageBytes,
		&s.Slug, &s.Name, &s.Provider, &r.Sealed, &s.SecretsCount, &r.Settings, &s.IsEnabled, &s.Version, &s.CreatedAt, &s.UpdatedAt, &r.Learned,
		&s.SecretRevealed, &s.HandshakeOpenedAt, &r.Consume, &r.ConsumeSecrets)
	return r, err
}

// openSource opens the secrets of a source as scanSourcePartly says.
func (db *DB) openSource(r sourceRow) (s eventhook.Source, unopened, err error) {
	s = r.Source
	verifier, err := db.open(sourceVerifier, s.ID, s.TenantID, r.Sealed)
	if err != nil {
		unopened = fmt.Errorf("open the verifier of source %s/%s: %w", s.TenantSlug, s.Slug, err)
	} else {
		s.Verifier = eventhook.NewSecret(verifier)
	}
	if r.Learned != nil {
		secret, err := db.open(learnedSecret, s.ID, s.TenantID, *r.Learned)
		if err != nil {
			unopened = errors.Join(unopened, fmt.Errorf("open the learned secret of source %s/%s: %w", s.TenantSlug, s.Slug, err))
		}
		s.LearnedSecrets = []eventhook.Secret{eventhook.NewSecret(secret)}
	}
	if err := db.openConsume(&s, r.consumed); err != nil {
		unopened = errors.Join(unopened, err)
		s.Verifier = eventhook.Secret{} // which says that secrets are lost
	}
	return s, unopened, json.Unmarshal(r.Settings, &s.SourceSettings)
}

// openConsume sets Consume. After an error its secrets, or all of its settings, are missing.
func (db *DB) openConsume(s *eventhook.Source, c consumed) error {
	if len(c.Consume) == 0 {
		return nil
	}
	s.Consume = new(eventhook.Target)
	if err := json.Unmarshal(c.Consume, s.Consume); err != nil {
		return fmt.Errorf("read where the source %s/%s consumes messages: %w", s.TenantSlug, s.Slug, err)
	}
	if c.ConsumeSecrets == nil {
		return nil
	}
	secrets, err := db.open(sourceConsumeSecrets, s.ID, s.TenantID, *c.ConsumeSecrets)
	if err != nil {
		return fmt.Errorf("open the secrets of the broker of source %s/%s: %w", s.TenantSlug, s.Slug, err)
	}
	s.Consume.Secrets = eventhook.NewSecret(secrets)
	return nil
}

// sourceRecord is the part of a source that audit entries show, except its verifier. The
// fields have the API's names.
type sourceRecord struct {
	Slug      string            `json:"slug"`
	Name      string            `json:"name"`
	IsEnabled bool              `json:"is_enabled"`
	Provider  string            `json:"provider,omitempty"`
	Consume   *eventhook.Target `json:"consume,omitempty"`
	eventhook.SourceSettings
}

// recordOfSource merges the public members of a verifier into the record of a source. public
// is nil if the verifier did not open.
func recordOfSource(s eventhook.Source, public json.RawMessage) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(sourceRecord{s.Slug, s.Name, s.IsEnabled, s.Provider, s.Consume, s.SourceSettings})
	if err != nil {
		return nil, err
	}
	var record map[string]json.RawMessage
	if err := json.Unmarshal(raw, &record); err != nil || public == nil {
		return record, err
	}
	return record, json.Unmarshal(public, &record)
}

// secretsChanged stands for a change of secrets in audit entries and dry runs.
var secretsChanged = eventhook.FieldChange{Field: "secrets", From: json.RawMessage(`"[redacted]"`), To: json.RawMessage(`"[redacted, changed]"`)}

// diffSources lists the fields that differ between two states of a source; nil stands for no
// source. Secrets are only reported as changed.
func (db *DB) diffSources(before, after *eventhook.Source) ([]eventhook.FieldChange, error) {
	var records [2]any
	var secrets [2]string
	for i, s := range []*eventhook.Source{before, after} {
		if s == nil {
			continue
		}
		var public json.RawMessage
		switch {
		case s.Consume != nil: // its verifier accepts nothing
			secrets[i] = s.Consume.Secrets.Reveal()
		case !s.Verifier.IsZero(): // zero if its encryption key is lost
			var err error
			if public, secrets[i], err = db.describe(s.Verifier); err != nil {
				return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
			}
		}
		record, err := recordOfSource(*s, public)
		if err != nil {
			return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
		}
		records[i] = record
	}
	changes, err := eventhook.Diff(records[0], records[1])
	if err == nil && before != nil && after != nil && secrets[0] != secrets[1] {
		changes = append(changes, secretsChanged)
	}
	return changes, err
}

func resourceOfSource(s eventhook.Source) resource { return resource{"source", s.ID.String(), s.Slug} }

// CreateSource creates a source of a tenant. The error is KindConflict if the slug is in use
// or the tenant is closed. The caller must have validated the source.
func (db *DB) CreateSource(ctx context.Context, by eventhook.Actor, s eventhook.Source) (eventhook.Source, error) {
	err := db.mutate(ctx, "add source", by, s.TenantID, func(m *mutation) (err error) {
		s, err = m.addSource(ctx, s)
		return err
	})
	return s, err
}

func (m *mutation) addSource(ctx context.Context, s eventhook.Source) (eventhook.Source, error) {
	now := m.db.now()
	s.ID, s.TenantID, s.TenantSlug, s.TenantStatus = eventhook.NewID[eventhook.Source](now), m.tenant.ID, m.tenant.Slug, m.tenant.Status
	s.Version, s.CreatedAt, s.UpdatedAt, s.HandshakeOpenedAt = 1, now, now, now
	settings, err := json.Marshal(s.SourceSettings)
	if err != nil {
		return s, err
	}
	sealed, err := m.seal(ctx, sourceVerifier, s.ID, s.TenantID, s.Verifier.Reveal())
	if err != nil {
		return s, err
	}
	consume, err := m.sealConsume(ctx, s)
	if err != nil {
		return s, err
	}
	err = m.exec(ctx, `INSERT INTO eventhook.source (id, tenant_id, slug, name, provider, verifier, secrets_count, settings, is_enabled, created_at, updated_at,
		consume, consume_secrets)
		VALUES (@id, @tenant, @slug, @name, @provider, @verifier, @secrets_count, @settings, @is_enabled, @now, @now, @consume, @consume_secrets)`,
		pgx.StrictNamedArgs{"id": [16]byte(s.ID), "tenant": [16]byte(s.TenantID), "slug": s.Slug, "name": s.Name, "provider": s.Provider,
			"verifier": sealed, "secrets_count": s.SecretsCount, "settings": string(settings), "is_enabled": s.IsEnabled, "now": now,
			"consume": jsonArg(consume.Consume), "consume_secrets": consume.ConsumeSecrets})
	if err != nil {
		return s, nameTaken(err, "The tenant has a source %q already.", s.Slug)
	}
	if err := m.setConsumer(ctx, nil, &s); err != nil {
		return s, err
	}
	changes, err := m.db.diffSources(nil, &s)
	if err == nil {
		m.recordChanges("source.created", resourceOfSource(s), changes)
	}
	return s, err
}

// UpdateSource updates a source in one transaction. change receives the current source, with
// its verifier in plain text, and returns the wanted one; the slug cannot be changed. A
// version other than 0 must be the current one, otherwise the error is ErrStale. A learned
// secret is deleted when the provider changes or a secret is configured. change must not
// block, since other transactions wait for the source.
func (db *DB) UpdateSource(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, slug string, version int64, change func(eventhook.Source) (eventhook.Source, error)) (s eventhook.Source, err error) {
	err = db.mutate(ctx, "change source", by, tenant, func(m *mutation) error {
		have, err := m.lockSource(ctx, slug)
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
		s, _, err = m.updateSource(ctx, have, want)
		return err
	})
	return s, err
}

// lockSource reads and locks a source, even if its secrets do not open.
func (m *mutation) lockSource(ctx context.Context, slug string) (eventhook.Source, error) {
	s, _, err := m.db.scanSourcePartly(m.tx.QueryRow(ctx, `SELECT `+sourceColumns+sourceTables+`
		WHERE s.tenant_id = $1 AND s.slug = $2 FOR UPDATE OF s`, [16]byte(m.tenant.ID), slug))
	return s, notFound(err, "source")
}

// updateSource stores the wanted state of a source, and returns the changes. The caller holds
// the lock of the source.
func (m *mutation) updateSource(ctx context.Context, have, want eventhook.Source) (eventhook.Source, []eventhook.FieldChange, error) {
	if have.Consume != nil && want.Consume != nil && !have.Verifier.IsZero() {
		want.Verifier = have.Verifier // both accept nothing
	}
	changes, err := m.db.diffSources(&have, &want)
	if err != nil {
		return have, nil, err
	}
	if (have.Provider != want.Provider || want.SecretsCount > 0) && len(have.LearnedSecrets) > 0 {
		if err := m.exec(ctx, `DELETE FROM eventhook.learned_secret WHERE source_id = $1`, [16]byte(have.ID)); err != nil {
			return have, nil, err // the secret was the former provider's, or a configured one replaces it
		}
		want.LearnedSecrets, want.SecretRevealed = nil, false
	}
	if !m.recordChanges("source.updated", resourceOfSource(have), changes) {
		return have, nil, nil
	}
	settings, err := json.Marshal(want.SourceSettings)
	if err != nil {
		return have, nil, err
	}
	sealed, err := m.seal(ctx, sourceVerifier, have.ID, have.TenantID, want.Verifier.Reveal())
	if err != nil {
		return have, nil, err
	}
	consume, err := m.sealConsume(ctx, want)
	if err != nil {
		return have, nil, err
	}
	want.Version, want.UpdatedAt = have.Version+1, m.db.now()
	if have.Provider != want.Provider || have.SecretsCount > 0 && want.SecretsCount == 0 { // the handshake window opens now
		want.HandshakeOpenedAt = want.UpdatedAt
	}
	if err := m.setConsumer(ctx, &have, &want); err != nil {
		return have, nil, err
	}
	err = m.exec(ctx, `UPDATE eventhook.source SET name = @name, provider = @provider, verifier = @verifier, secrets_count = @secrets_count,
		settings = @settings, is_enabled = @is_enabled, version = @version, updated_at = @updated_at,
		handshake_opened_at = @handshake_opened_at, consume = @consume,
		consume_secrets = CASE WHEN @keep_secrets THEN consume_secrets ELSE @consume_secrets END WHERE id = @id`,
		pgx.StrictNamedArgs{"id": [16]byte(have.ID), "name": want.Name, "provider": want.Provider, "verifier": sealed,
			"secrets_count": want.SecretsCount, "settings": string(settings), "is_enabled": want.IsEnabled, "version": want.Version,
			"updated_at": want.UpdatedAt, "handshake_opened_at": want.HandshakeOpenedAt,
			"consume": jsonArg(consume.Consume), "consume_secrets": consume.ConsumeSecrets,
			"keep_secrets": keepsLostSecrets(have, want)})
	return want, changes, err
}

// countOpenEventsSQL counts the open events of a source. It reads at most $2 events of each of
// three kinds: the events of all sources that are due first, the source's events that wait for
// a retry, and the source's newest events. The newest are missing from the first kind when the
// queue is long. Indexes event_due, event_source_status and event_source.
const countOpenEventsSQL = `
WITH due AS MATERIALIZED (
    SELECT id, source_id FROM eventhook.event WHERE due_at IS NOT NULL ORDER BY due_at LIMIT $2
), failed AS MATERIALIZED (
    SELECT id FROM eventhook.event WHERE body_size >= 0 AND source_id = $1 AND status = 'failed'
        AND status IN ('failed', 'dead', 'unrouted', 'duplicate') ORDER BY source_id DESC, status DESC, id DESC LIMIT $2
), newest AS MATERIALIZED (
    SELECT id, due_at FROM eventhook.event WHERE body_size >= 0 AND source_id = $1 ORDER BY source_id DESC, id DESC LIMIT $2
)
SELECT count(*) FROM (
    SELECT id FROM due WHERE source_id = $1
    UNION SELECT id FROM failed
    UNION SELECT id FROM newest WHERE due_at IS NOT NULL) open_events`

// maxCountedEvents bounds each part of countOpenEventsSQL.
const maxCountedEvents = 10_000

// DeleteSource deletes a source with its rejections and learned secret; its events stay. The
// error is KindConflict if the source has routes or open events, unless cascade is true: then
// its routes are deleted as well, and open events end unrouted when they are processed. A
// version other than 0 must be the current one, otherwise the error is ErrStale.
func (db *DB) DeleteSource(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, slug string, version int64, cascade bool) error {
	return db.mutate(ctx, "delete source", by, tenant, func(m *mutation) error {
		s, err := m.lockSource(ctx, slug)
		if err != nil {
			return err
		}
		if err := checkVersion(version, s.Version); err != nil {
			return err
		}
		routes, err := m.routes(ctx, s.ID)
		if err != nil {
			return err
		}
		if !cascade {
			if err := m.checkUnused(ctx, s, len(routes)); err != nil {
				return err
			}
		}
		m.batch = &pgx.Batch{} // one round trip, since other transactions wait for these locks
		return m.deleteSource(ctx, s, routes)
	})
}

// checkUnused returns a KindConflict if the source has routes or open events. The caller holds
// the lock of the source. Events that are being accepted concurrently are not seen.
func (m *mutation) checkUnused(ctx context.Context, s eventhook.Source, routes int) error {
	var open int
	if err := m.tx.QueryRow(ctx, countOpenEventsSQL, [16]byte(s.ID), maxCountedEvents).Scan(&open); err != nil {
		return err
	}
	if routes == 0 && open == 0 {
		return nil
	}
	message := "The source has " + countNoun(routes, "1 route", "routes")
	advice := "delete its routes first, or delete it with ?cascade=true."
	if open > 0 {
		message += ", and " + countNoun(open, "1 event is", "events are") + " still to be processed"
		advice = "wait for the events and delete its routes, or delete it with ?cascade=true, which leaves the remaining events unprocessed."
	}
	return &eventhook.Error{Kind: eventhook.KindConflict, Message: message + ": " + advice}
}

// countNoun formats a number with its noun.
func countNoun(n int, one, many string) string {
	switch {
	case n == 1:
		return one
	case n >= maxCountedEvents:
		return fmt.Sprintf("%d or more %s", maxCountedEvents, many)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// deleteSource deletes a source with its routes. The caller holds the lock of the source.
func (m *mutation) deleteSource(ctx context.Context, s eventhook.Source, routes []eventhook.Route) error {
	for _, r := range routes {
		if err := m.deleteRoute(ctx, s.Slug, r); err != nil {
			return err
		}
	}
	if err := m.exec(ctx, `DELETE FROM eventhook.source WHERE id = $1`, [16]byte(s.ID)); err != nil {
		return err
	}
	changes, err := m.db.diffSources(&s, nil)
	if err == nil {
		m.recordChanges("source.deleted", resourceOfSource(s), changes)
	}
	return err
}

// findIdempotencyKeySQL reads the primary key, and prefers the hash over the idempotency key,
// as acceptSignedSQL does.
const findIdempotencyKeySQL = `
SELECT made FROM eventhook.idempotency_key
WHERE tenant_id = $1 AND (scope, key) IN (($2, $3), ($2 || '` + signedScope + `', $4)) AND expires_at > $5
ORDER BY scope DESC LIMIT 1`

// FindIdempotencyKey returns the event that a source has accepted with an idempotency key or
// with a hash of the signed bytes, if the key has not expired: another event with this key or
// hash would be its duplicate. found is false if there is no such event. key and signedHash may
// be empty. FindIdempotencyKey does not claim the key.
func (db *DB) FindIdempotencyKey(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID, key, signedHash string) (id eventhook.EventID, found bool, err error) {
	err = db.work.QueryRow(ctx, findIdempotencyKeySQL, [16]byte(tenant), source.String(), key, signedHash, db.now()).Scan((*[16]byte)(&id))
	if errors.Is(err, pgx.ErrNoRows) {
		return id, false, nil
	}
	return id, err == nil, translate("find idempotency key", err)
}

// allRoutesSQL reads the index on the source.
const allRoutesSQL = `SELECT ` + routeColumns + ` FROM eventhook.route
WHERE source_id = $1 ORDER BY priority DESC, id`

// AllRoutes returns all routes of a source in their order of evaluation, disabled ones as
// well. It returns no routes if the source does not exist.
func (db *DB) AllRoutes(ctx context.Context, source eventhook.SourceID) ([]eventhook.Route, error) {
	rows, err := db.work.Query(ctx, allRoutesSQL, [16]byte(source))
	if err != nil {
		return nil, translate("list routes", err)
	}
	list, err := pgx.CollectRows(rows, db.scanRoute)
	return list, translate("list routes", err)
}
