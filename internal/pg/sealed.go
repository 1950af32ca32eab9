package pg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sealedColumn is a column of sealed texts, "enc:<key id>:<base64>", in a table
// whose primary key is one id.
type sealedColumn struct{ table, key, column string }

// sealedColumns are all there are: a new one is a line here. Tests find one that
// is missing.
var sealedColumns = []sealedColumn{
	{"source", "id", "verifier"},
	{"learned_secret", "source_id", "secret"},
	{"route", "id", "target_secrets"},
	{"subscription", "id", "secrets"},
}

func (c sealedColumn) String() string { return c.table + "." + c.column }

// sql puts the column's names into a statement.
func (c sealedColumn) sql(statement string) string {
	return strings.NewReplacer("{table}", "eventhook."+c.table, "{key}", c.key, "{column}", c.column).Replace(statement)
}

// SealedCount is how many values of a column one key has sealed.
type SealedCount struct {
	Column string // such as source.verifier
	KeyID  string // "" for texts that are not sealed
	Count  int
}

// countSealedSQL reads the whole table: it is for people who ask.
const countSealedSQL = `
SELECT CASE WHEN starts_with({column}, 'enc:') THEN split_part(left({column}, 100), ':', 2) ELSE '' END AS key_id, count(*)
FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1`

// CountSealed tells which keys the stored secrets are sealed with, column by
// column and by key id.
func (db *DB) CountSealed(ctx context.Context) (counts []SealedCount, err error) {
	for _, c := range sealedColumns {
		rows, err := db.work.Query(ctx, c.sql(countSealedSQL))
		if err != nil {
			return nil, translate("count sealed values", err)
		}
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (SealedCount, error) {
			n := SealedCount{Column: c.String()}
			return n, r.Scan(&n.KeyID, &n.Count)
		})
		if err != nil {
			return nil, translate("count sealed values", err)
		}
		counts = append(counts, list...)
	}
	return counts, nil
}
