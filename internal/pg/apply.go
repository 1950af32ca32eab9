package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// ApplyTenant brings a tenant to a configuration in one transaction and says
// what it did with each thing, or would do if dryRun. What the configuration
// does not name stays. Applying the same twice changes nothing the second
// time. The caller has validated it.
func (db *DB) ApplyTenant(ctx context.Context, want eventhook.TenantConfig, dryRun bool) ([]eventhook.Change, error) {
	var a applier
	errDryRun := errors.New("dry run")
	err := db.inTx(ctx, "apply configuration", func(tx pgx.Tx) error {
		a = applier{db: db, tx: tx}
		if err := a.tenant(ctx, want); err != nil {
			return err
		}
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return a.changes, err
}

type applier struct {
	db      *DB
	tx      pgx.Tx
	changes []eventhook.Change
}

func (a *applier) did(action eventhook.ChangeAction, kind, name string) {
	a.changes = append(a.changes, eventhook.Change{Action: action, Kind: kind, Name: name})
}

// tenant locks the tenant's row, so that two who apply take turns.
func (a *applier) tenant(ctx context.Context, want eventhook.TenantConfig) error {
	now := a.db.now()
	_, err := a.tx.Exec(ctx, `INSERT INTO eventhook.tenant (id, slug, name, created_at) VALUES ($1, $2, '', $3) ON CONFLICT (slug) DO NOTHING`,
		[16]byte(eventhook.NewID[eventhook.Tenant](now)), want.Slug, now)
	if err != nil {
		return err
	}
	have, err := scanTenant(a.tx.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE slug = $1 FOR UPDATE`, want.Slug))
	if err != nil {
		return err
	}
	switch {
	case have.Status == eventhook.TenantClosed:
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("tenant %s is closed", want.Slug)}
	case have.Name == want.Name:
		a.did(eventhook.ChangeUnchanged, "tenant", want.Slug)
	default:
		action := eventhook.ChangeUpdate
		if have.Name == "" {
			action = eventhook.ChangeCreate
		}
		a.did(action, "tenant", want.Slug)
		_, err = a.tx.Exec(ctx, `UPDATE eventhook.tenant SET name = $2, updated_at = $3 WHERE id = $1`, [16]byte(have.ID), want.Name, now)
		if err != nil {
			return err
		}
	}
	for _, s := range want.Sources {
		s.TenantID, s.TenantSlug = have.ID, have.Slug
		if err := a.source(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) source(ctx context.Context, want eventhook.SourceConfig) error {
	name := want.TenantSlug + "/" + want.Slug
	settings, err := json.Marshal(want.SourceSettings)
	if err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	row := a.tx.QueryRow(ctx, `SELECT `+sourceColumns+sourceTables+`
		WHERE s.tenant_id = $1 AND s.slug = $2`, [16]byte(want.TenantID), want.Slug)
	have, err := a.db.scanSource(row)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if err == nil {
		want.ID = have.ID
		if (have.Provider != want.Provider || want.SecretsCount > 0) && len(have.LearnedSecrets) > 0 {
			if _, err := a.tx.Exec(ctx, `DELETE FROM eventhook.learned_secret WHERE source_id = $1`, [16]byte(have.ID)); err != nil {
				return err // another provider's secret, or one that somebody has replaced
			}
		}
		same, err := sameSource(have, want.Source, settings)
		if err != nil {
			return err
		}
		if same {
			a.did(eventhook.ChangeUnchanged, "source", name)
			return a.routes(ctx, name, want)
		}
	}
	sealed, err := a.db.sealer.Seal(want.Verifier.Reveal())
	if err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	if err := a.writeSource(ctx, &want, name, sealed, settings); err != nil {
		return err
	}
	return a.routes(ctx, name, want)
}

func (a *applier) writeSource(ctx context.Context, want *eventhook.SourceConfig, name, sealed string, settings []byte) error {
	now := a.db.now()
	if want.ID.IsZero() {
		a.did(eventhook.ChangeCreate, "source", name)
		want.ID = eventhook.NewID[eventhook.Source](now)
		_, err := a.tx.Exec(ctx, `INSERT INTO eventhook.source (id, tenant_id, slug, name, provider, verifier, secrets_count, settings, is_enabled, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, [16]byte(want.ID), [16]byte(want.TenantID), want.Slug, want.Name, want.Provider,
			sealed, want.SecretsCount, string(settings), want.IsEnabled, now)
		return err
	}
	a.did(eventhook.ChangeUpdate, "source", name)
	_, err := a.tx.Exec(ctx, `UPDATE eventhook.source SET name = $2, provider = $3, verifier = $4, secrets_count = $5, settings = $6,
		is_enabled = $7, updated_at = $8 WHERE id = $1`, [16]byte(want.ID), want.Name, want.Provider, sealed, want.SecretsCount, string(settings), want.IsEnabled, now)
	return err
}

func sameSource(have, want eventhook.Source, settings []byte) (bool, error) {
	haveSettings, err := json.Marshal(have.SourceSettings)
	if err != nil {
		return false, err
	}
	return have.Name == want.Name && have.Provider == want.Provider && have.IsEnabled == want.IsEnabled &&
		have.Verifier.Reveal() == want.Verifier.Reveal() && bytes.Equal(haveSettings, settings), nil
}

func (a *applier) routes(ctx context.Context, source string, want eventhook.SourceConfig) error {
	rows, err := a.tx.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route WHERE source_id = $1`, [16]byte(want.ID))
	if err != nil {
		return err
	}
	have, err := pgx.CollectRows(rows, scanRoute)
	if err != nil {
		return err
	}
	byName := make(map[string]eventhook.Route, len(have))
	for _, r := range have {
		byName[r.Name] = r
	}
	for _, r := range want.Routes {
		r.TenantID, r.SourceID = want.TenantID, want.ID
		if err := a.route(ctx, source+"/"+r.Name, r, byName[r.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) route(ctx context.Context, name string, want, have eventhook.Route) error {
	targets, err := json.Marshal(want.Targets)
	if err != nil {
		return fmt.Errorf("route %s: %w", name, err)
	}
	types := want.FilterEventTypes
	if types == nil {
		types = []string{}
	}
	if have.ID.IsZero() {
		a.did(eventhook.ChangeCreate, "route", name)
		_, err = a.tx.Exec(ctx, `INSERT INTO eventhook.route (id, tenant_id, source_id, name, priority, is_enabled, filter_event_types, targets, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, [16]byte(eventhook.NewID[eventhook.Route](a.db.now())), [16]byte(want.TenantID),
			[16]byte(want.SourceID), want.Name, want.Priority, want.IsEnabled, types, string(targets), a.db.now())
		return err
	}
	haveTargets, err := json.Marshal(have.Targets)
	if err != nil {
		return fmt.Errorf("route %s: %w", name, err)
	}
	if want.Priority == have.Priority && want.IsEnabled == have.IsEnabled && slices.Equal(types, have.FilterEventTypes) && bytes.Equal(targets, haveTargets) {
		a.did(eventhook.ChangeUnchanged, "route", name)
		return nil
	}
	a.did(eventhook.ChangeUpdate, "route", name)
	_, err = a.tx.Exec(ctx, `UPDATE eventhook.route SET priority = $2, is_enabled = $3, filter_event_types = $4, targets = $5, updated_at = $6 WHERE id = $1`,
		[16]byte(have.ID), want.Priority, want.IsEnabled, types, string(targets), a.db.now())
	return err
}
