package pg

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sealedColumn is a column of sealed texts in a table whose primary key is one
// id, and which has a tenant_id.
type sealedColumn struct{ table, key, column string }

var (
	sourceVerifier       = sealedColumn{"source", "id", "verifier"}
	learnedSecret        = sealedColumn{"learned_secret", "source_id", "secret"}
	routeTargetSecrets   = sealedColumn{"route", "id", "target_secrets"}
	subscriptionsSecrets = sealedColumn{"subscription", "id", "secrets"}
)

// sealedColumns are all columns of sealed texts. A new column is a line here;
// tests find one that is missing.
var sealedColumns = []sealedColumn{sourceVerifier, learnedSecret, routeTargetSecrets, subscriptionsSecrets}

func (c sealedColumn) String() string { return c.table + "." + c.column }

// at is the place that a sealed text is bound to: table, column, row and tenant.
func (c sealedColumn) at(row, tenant [16]byte) string {
	place := append(append(make([]byte, 0, 96), c.table...), '.')
	place = append(append(place, c.column...), ':')
	place = append(hex.AppendEncode(place, row[:]), ':')
	return string(hex.AppendEncode(place, tenant[:]))
}

// The prefixes of sealed texts: package seal writes them.
const (
	unboundPrefix = "enc:"
	boundPrefix   = "enc2:"
)

func isUnbound(sealed string) bool { return strings.HasPrefix(sealed, unboundPrefix) }

// sql puts the column's names into a statement.
func (c sealedColumn) sql(statement string) string {
	return strings.NewReplacer("{table}", "eventhook."+c.table, "{key}", c.key, "{column}", c.column).Replace(statement)
}

// SealedCount is how many values of a column one key has sealed in one format.
type SealedCount struct {
	Column  string // such as source.verifier
	KeyID   string // "" for texts that are not sealed
	IsBound bool   // to their place
	Count   int

	in sealedColumn
}

// prefix is what its values begin with, without the last colon.
func (n SealedCount) prefix() string {
	if n.IsBound {
		return boundPrefix + n.KeyID
	}
	return unboundPrefix + n.KeyID
}

// countSealedSQL reads the whole table.
const countSealedSQL = `
SELECT CASE WHEN left({column}, 4) = 'enc:' OR left({column}, 5) = 'enc2:' THEN split_part(left({column}, 100), ':', 2) ELSE '' END AS key_id,
    left({column}, 5) = 'enc2:' AS is_bound, count(*)
FROM {table} WHERE {column} IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2`

// CountSealed counts the stored secrets by column, key id and format.
func (db *DB) CountSealed(ctx context.Context) (counts []SealedCount, err error) {
	for _, c := range sealedColumns {
		rows, err := db.work.Query(ctx, c.sql(countSealedSQL))
		if err != nil {
			return nil, translate("count sealed values", err)
		}
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (SealedCount, error) {
			n := SealedCount{Column: c.String(), in: c}
			return n, r.Scan(&n.KeyID, &n.IsBound, &n.Count)
		})
		if err != nil {
			return nil, translate("count sealed values", err)
		}
		counts = append(counts, list...)
	}
	return counts, nil
}
