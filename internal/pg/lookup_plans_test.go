package pg

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// largeRead matches a read of a large table that does not follow from its keys.
var largeRead = regexp.MustCompile(`(?m)(?:Seq|Bitmap Heap) Scan on (?:event|delivery|execution|promise|idempotency_key)\S*`)

func (f *fixture) planOfList(sql string, args ...any) string {
	f.Helper()
	rows, err := f.db.lists.Query(f.Context(), `EXPLAIN `+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	return strings.Join(lines, "\n")
}

func TestALookupReadsIndexes(t *testing.T) {
	f := setUp(t)
	f.must(f.db.MaintainPartitions(context.Background(), 2, Retention{}))
	check := func(state string) {
		for _, tenant := range []any{[16]byte(f.tenant), nil} {
			plan := f.planOfList(lookupIDSQL, tenant, [16]byte(f.crm))
			if bad := largeRead.FindString(plan); bad != "" {
				t.Errorf("%s: by id: %s in\n%s", state, bad, plan)
			}
			if n := len(regexp.MustCompile(`Index Cond: \(\((?:\w+\.)?tenant_id = t\w*\.id\) AND \(id = `).FindAllString(plan, -1)); n < 2 {
				t.Errorf("%s: by id: got %d reads by a whole primary key, want events and deliveries:\n%s", state, n, plan)
			}
			plan = f.planOfList(lookupKeySQL, tenant, "a key")
			if bad := largeRead.FindString(plan); bad != "" {
				t.Errorf("%s: by key: %s in\n%s", state, bad, plan)
			}
		}
	}
	check("no row")
	f.fillTables(20_000, 0)
	check("before the first ANALYZE")
	f.exec(`ANALYZE`)
	check("after it")
}

func TestAGroupOfDeadDeliveriesHasItsIndex(t *testing.T) {
	f := setUp(t)
	f.must(f.db.MaintainPartitions(context.Background(), 2, Retention{}))
	f.fillTables(20_000, 0)
	f.exec(`ANALYZE`)
	args := pgx.StrictNamedArgs{"tenant": [16]byte(f.tenant), "status": "dead", "from": [16]byte{}, "before": [16]byte{255}, "rows": 10_000}
	for _, c := range []struct{ claim, sql, want string }{
		{"of a tenant", deadOfTenantSQL, deliveryStatus},
		{"of a subscription", deadOfSubscriptionSQL, deliveryDestinationStatus},
		{"the deliveries of a group", groupStepSQL, deliveryDestinationStatus},
	} {
		of := pgx.StrictNamedArgs{"subscription": [16]byte(f.tenant)}
		for name, value := range args {
			of[name] = value
		}
		if c.sql == deadOfTenantSQL {
			delete(of, "subscription")
		}
		if plan := f.planOfList(c.sql, of); len(deliveryIndexes(plan)) != 1 || deliveryIndexes(plan)[0] != c.want {
			t.Errorf("%s: reads %v, want %s:\n%s", c.claim, deliveryIndexes(plan), c.want, plan)
		}
	}
}
