package pg

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

// opens reads the row of a sealed column as the gateway does, and reports
// whether its secret opens.
var opens = map[sealedColumn]func(f *fixture, row, tenant [16]byte) bool{
	sourceVerifier: func(f *fixture, row, tenant [16]byte) bool {
		s, err := f.db.Source(f.Context(), tenant, queryValue[string](f, `SELECT slug FROM eventhook.source WHERE id = $1`, row))
		f.must(err)
		return !s.Verifier.IsZero()
	},
	sourceConsumeSecrets: func(f *fixture, row, tenant [16]byte) bool {
		s, err := f.db.Source(f.Context(), tenant, queryValue[string](f, `SELECT slug FROM eventhook.source WHERE id = $1`, row))
		f.must(err)
		return !s.Verifier.IsZero() && !s.Consume.Secrets.IsZero()
	},
	learnedSecret: func(f *fixture, row, tenant [16]byte) bool {
		s, err := f.db.Source(f.Context(), tenant, queryValue[string](f, `SELECT slug FROM eventhook.source WHERE id = $1`, row))
		f.must(err)
		return len(s.LearnedSecrets) == 1 && s.LearnedSecrets[0].Reveal() != ""
	},
	routeTargetSecrets: func(f *fixture, row, _ [16]byte) bool {
		r, err := f.db.Route(f.Context(), queryValue[[16]byte](f, `SELECT source_id FROM eventhook.route WHERE id = $1`, row), row)
		f.must(err)
		return !r.SecretsLost && !r.Targets[0].Secrets.IsZero()
	},
	subscriptionsSecrets: func(f *fixture, row, tenant [16]byte) bool {
		s, err := f.db.Subscription(f.Context(), tenant, row)
		f.must(err)
		return !s.SecretsLost && !s.URL.IsZero()
	},
}

// copied is a value in one of two rows of one of two tenants.
type copied struct {
	row, tenant [16]byte
	sealed      string
}

// newCopies creates two rows in each sealed column for two tenants.
func newCopies(t *testing.T) (f *fixture, values map[sealedColumn][]copied) {
	t.Helper()
	t.Parallel()
	ring, err := seal.New(seal.NewKey())
	f = &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	f.must(err)
	f.db = f.open(func(o *Options) { o.Sealer = ring })
	for _, slug := range []string{"acme", "umbrella"} {
		c := acmeWithTargets(secretTarget("a.example", slug))
		c.Slug = slug
		for i := range c.Sources {
			c.Sources[i].Consume = queueOf(slug)
		}
		second := c.Sources[0].Routes[0]
		second.Name = "second"
		c.Sources[0].Routes = append(c.Sources[0].Routes, second)
		f.apply(c)
		for _, source := range []string{"crm", "shop"} {
			var id eventhook.SourceID
			f.tenant, id = f.sourceID(slug, source)
			f.must(f.db.StoreLearnedSecret(t.Context(), id, eventhook.NewSecret("learned by "+slug)))
		}
		f.subscription(named("one", "*"))
		f.subscription(named("two", "*"))
	}
	t.Cleanup(func() { checkInvariants(t, f.dsn) })
	values = map[sealedColumn][]copied{}
	for _, c := range sealedColumns {
		rows, err := f.db.work.Query(t.Context(), c.sql(`SELECT {key}, tenant_id, {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY tenant_id, {key}`))
		f.must(err)
		values[c], err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (v copied, err error) { return v, r.Scan(&v.row, &v.tenant, &v.sealed) })
		f.must(err)
		if n := len(values[c]); n != 4 {
			t.Fatalf("%s has %d values, want one in each of two rows of two tenants", c, n)
		}
		if opens[c] == nil {
			t.Fatalf("no test reads %s: add it to opens", c)
		}
	}
	return f, values
}

func (f *fixture) put(c sealedColumn, row [16]byte, sealed string) {
	f.Helper()
	f.exec(c.sql(`UPDATE {table} SET {column} = $2 WHERE {key} = $1`), row, sealed)
}

// TestACopiedSecretDoesNotOpen copies values by SQL to another row, another column, and
// another tenant.
func TestACopiedSecretDoesNotOpen(t *testing.T) {
	f, values := newCopies(t)
	for _, c := range sealedColumns {
		to := values[c][0]
		if !opens[c](f, to.row, to.tenant) {
			t.Fatalf("%s: the value does not open at its own place", c)
		}
		for _, from := range sealedColumns {
			for i, v := range values[from] {
				if from == c && i == 0 {
					continue
				}
				f.put(c, to.row, v.sealed)
				if opens[c](f, to.row, to.tenant) {
					t.Errorf("%s: value %d of %s opens", c, i, from)
				}
			}
		}
		f.put(c, to.row, to.sealed)
		if !opens[c](f, to.row, to.tenant) {
			t.Errorf("%s: the value does not open any more", c)
		}
	}
	if n := f.db.Unreadable(); n == 0 {
		t.Error("the values that did not open are not counted")
	}
}

func TestAPlaceNamesTableColumnRowAndTenant(t *testing.T) {
	row, tenant := [16]byte{1}, [16]byte{2}
	place := sealedColumn{"a", "id", "x"}.place(row, tenant)
	for what, other := range map[string]string{
		"another table": sealedColumn{"b", "id", "x"}.place(row, tenant), "another column": sealedColumn{"a", "id", "y"}.place(row, tenant),
		"another row": sealedColumn{"a", "id", "x"}.place(tenant, tenant), "another tenant": sealedColumn{"a", "id", "x"}.place(row, row),
	} {
		if other == place {
			t.Errorf("%s is the same place %s", what, place)
		}
	}
}

// A row that is moved to another tenant keeps its id, but its secret does not open.
func TestARowThatIsMovedToAnotherTenantDoesNotOpen(t *testing.T) {
	f, values := newCopies(t)
	conn, err := pgx.Connect(t.Context(), f.dsn)
	f.must(err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `SET session_replication_role = replica; ALTER TABLE eventhook.source DROP CONSTRAINT IF EXISTS source_tenant_id_slug_key`)
	f.must(err)
	_, err = conn.Exec(t.Context(), `UPDATE eventhook.source SET slug = slug || '-' || substr(id::text, 25)`)
	f.must(err)
	for _, c := range sealedColumns {
		its, other := values[c][0], values[c][3]
		tables := []string{c.table}
		if c == learnedSecret {
			tables = append(tables, "source")
		}
		for _, table := range tables {
			key := map[bool]string{true: c.key, false: "id"}[table == c.table]
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE eventhook.%s SET tenant_id = $2 WHERE %s = $1`, table, key), its.row, other.tenant)
			f.must(err)
		}
		if opens[c](f, its.row, other.tenant) {
			t.Errorf("%s: the value opens in the row of another tenant", c)
		}
		for _, table := range slices.Backward(tables) {
			key := map[bool]string{true: c.key, false: "id"}[table == c.table]
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE eventhook.%s SET tenant_id = $2 WHERE %s = $1`, table, key), its.row, its.tenant)
			f.must(err)
		}
		if !opens[c](f, its.row, its.tenant) {
			t.Errorf("%s: the value does not open in its tenant any more", c)
		}
	}
}
