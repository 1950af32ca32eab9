package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/seal"
)

// sealSourceVerifiers seals the verifier of the bench's source again for every other
// source of the tenant. A sealed text is bound to its row, so a copy by SQL could not
// be decrypted.
func (g *gateway) sealSourceVerifiers(ctx context.Context) error {
	file, err := os.ReadFile(filepath.Join(g.dir, "encryption.key"))
	if err != nil {
		return err
	}
	keys, err := seal.New(strings.Fields(string(file))...)
	if err != nil {
		return err
	}
	rows, err := g.stats.conn.Query(ctx, `SELECT s.id, s.tenant_id, s.verifier FROM eventhook.source s
		JOIN eventhook.tenant t ON t.id = s.tenant_id WHERE t.slug = $1 ORDER BY s.slug <> $2`, benchTenant, benchSource)
	if err != nil {
		return err
	}
	type sealedSource struct {
		ID, Tenant [16]byte
		Verifier   string
	}
	sources, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealedSource])
	if err != nil {
		return err
	}
	place := func(s sealedSource) string { return fmt.Sprintf("source.verifier:%x:%x", s.ID, s.Tenant) }
	verifier, err := keys.Open(sources[0].Verifier, place(sources[0]))
	if err != nil {
		return fmt.Errorf("open the verifier of %s: %w", benchSource, err)
	}
	var ids [][16]byte
	var verifiers []string
	for _, s := range sources[1:] {
		text, err := keys.Seal(verifier, place(s))
		if err != nil {
			return err
		}
		ids, verifiers = append(ids, s.ID), append(verifiers, text)
	}
	_, err = g.stats.conn.Exec(ctx, `UPDATE eventhook.source s SET verifier = n.verifier FROM unnest($1::uuid[], $2::text[]) AS n (id, verifier) WHERE s.id = n.id`, ids, verifiers)
	return err
}
