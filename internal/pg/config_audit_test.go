package pg

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// acmesEntries are the entries that creating the fixture's tenant writes.
var acmesEntries = []string{"source.created", "route.created", "source.created", "tenant.created"}

// audit lists entries, newest first.
func (f *fixture) audit(filter eventhook.AuditFilter) []eventhook.AuditEntry {
	f.Helper()
	if filter.Limit == 0 {
		filter.Limit = 10_000
	}
	list, err := f.db.AuditEntries(f.Context(), filter)
	f.must(err)
	return list
}

// counts reads rows of a name and a number.
func (f *fixture) counts(sql string, args ...any) map[string]int {
	f.Helper()
	rows, err := f.db.work.Query(f.Context(), sql, args...)
	f.must(err)
	got := map[string]int{}
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		got[name] = n
		return nil
	})
	f.must(err)
	return got
}

func TestAChangeIsAudited(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Minute)
	key := eventhook.NewID[eventhook.APIKey](noon)
	for claim, by := range map[string]eventhook.Actor{
		"the admin":         {Type: eventhook.ActorAdmin, Name: "admin key", SourceIP: "2001:db8::1", RequestID: "req-1"},
		"for the tenant":    {Type: eventhook.ActorOnBehalf, Name: "admin key", SourceIP: "192.0.2.1", RequestID: "req-2"},
		"the tenant's key":  {Type: eventhook.ActorKey, KeyID: key, Name: "ci", SourceIP: "192.0.2.2", RequestID: "req-3"},
		"an operator":       {Type: eventhook.ActorOperator, Name: "root"},
		"a name of no text": {Type: eventhook.ActorOperator, Name: "a\x00\xff", RequestID: "b\x00"},
	} {
		f.clock.Advance(time.Second)
		by.TraceID = eventhook.NewTraceID()
		have, err := f.db.Tenant(t.Context(), "acme")
		f.must(err)
		_, err = f.db.UpdateTenant(t.Context(), by, "acme", 0, func(have eventhook.Tenant) (eventhook.Tenant, error) {
			have.Name = claim
			return have, nil
		})
		f.must(err)
		got := f.audit(eventhook.AuditFilter{})[0]
		same(t, claim+": by its trace", f.audit(eventhook.AuditFilter{TraceID: by.TraceID}), []eventhook.AuditEntry{got})
		same(t, claim+": by another request", len(f.audit(eventhook.AuditFilter{TraceID: by.TraceID, RequestID: "none"})), 0)
		was, err := json.Marshal(have.Name)
		f.must(err)
		by.Name, by.RequestID = eventhook.SanitizeText(by.Name), eventhook.SanitizeText(by.RequestID)
		trace := by.TraceID
		by.TraceID = "" // an entry has it beside its actor
		same(t, claim, got, eventhook.AuditEntry{ID: got.ID, TraceID: trace, TenantID: f.tenant, TenantSlug: "acme", Actor: by, Action: "tenant.updated",
			ResourceType: "tenant", ResourceID: f.tenant.String(), ResourceName: "acme",
			Changes: []eventhook.FieldChange{{Field: "name", From: was, To: json.RawMessage(fmt.Sprintf("%q", claim))}}})
		same(t, claim+": the moment", got.ID.Time(), f.clock.Now())
	}
}

func TestAuditEntriesAreFilteredAndPaged(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Second)
	umbrella := f.secondTenant()
	var others []string
	for i := range 5 {
		f.clock.Advance(time.Second)
		_, err := f.db.CreateKey(t.Context(), operator, eventhook.APIKey{TenantID: umbrella, Name: fmt.Sprint(i), Scopes: eventhook.Scopes}, hashed(fmt.Sprint(i)))
		f.must(err)
		others = append(others, "api_key.created")
	}
	others = append(others, "tenant.created")
	for _, c := range []struct {
		claim  string
		filter eventhook.AuditFilter
		want   []string
	}{
		{"all", eventhook.AuditFilter{}, append(append([]string{}, others...), acmesEntries...)},
		{"of a tenant", eventhook.AuditFilter{Tenant: f.tenant}, acmesEntries},
		{"of an action", eventhook.AuditFilter{Action: "tenant.created"}, []string{"tenant.created", "tenant.created"}},
		{"of a tenant and an action", eventhook.AuditFilter{Tenant: umbrella, Action: "api_key.created"}, others[:5]},
		{"of an unknown tenant", eventhook.AuditFilter{Tenant: eventhook.NewID[eventhook.Tenant](noon)}, nil},
		{"of an unknown action", eventhook.AuditFilter{Action: "tenant.born"}, nil},
	} {
		for limit := 1; limit < 4; limit++ {
			var got []string
			for page := c.filter; ; {
				page.Limit = limit
				list := f.audit(page)
				for _, e := range list {
					got = append(got, e.Action)
				}
				if len(list) < limit {
					break
				}
				page.Before = list[limit-1].ID
			}
			// What one act has written has the order in which it was written.
			same(t, fmt.Sprintf("%s, %d at a time", c.claim, limit), got, c.want)
		}
	}
}

func TestTheAuditLogIsReadByIndexAlone(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.lists.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	for index, filter := range map[string]eventhook.AuditFilter{
		"audit_log_pkey":          {},
		"audit_log_tenant":        {Tenant: f.tenant},
		"audit_log_action":        {Action: "tenant.closed"},
		"audit_log_tenant_action": {Tenant: f.tenant, Action: "tenant.closed"},
	} {
		sql, args := auditQuery(filter)
		plan := explain(f, conn.Conn(), sql, len(args))
		if !strings.Contains(plan, "Index Scan Backward using "+index+" on audit_log") || strings.Contains(plan, "Sort") {
			t.Errorf("%+v: want the index %s read backwards and nothing sorted, got\n%s", filter, index, plan)
		}
	}
}

// manyEntries writes n entries of the present.
func (f *fixture) manyEntries(n int) {
	f.Helper()
	entries := make([]eventhook.AuditEntry, n)
	for i := range entries {
		entries[i] = eventhook.AuditEntry{TenantID: f.tenant, Action: "tenant.updated", ResourceType: "tenant", ResourceName: "acme"}
	}
	tx, err := f.db.work.Begin(f.Context())
	f.must(err)
	f.must(f.db.insertAudit(f.Context(), tx, operator, entries))
	f.must(tx.Commit(f.Context()))
}

func TestOldAuditEntriesAreDeletedInSteps(t *testing.T) {
	const keep = 400 * day
	f := setUp(t)
	f.exec(`DELETE FROM eventhook.audit_log`)
	f.manyEntries(2500)
	f.clock.Advance(time.Second)
	f.manyEntries(3)
	for _, c := range []struct {
		claim string
		after time.Duration
		keep  time.Duration
		want  int
	}{
		{"new entries stay", keep - time.Second, keep, 0},
		{"0 keeps all", 0, 0, 0},
		{"to the second", time.Millisecond, keep, 1000},
		{"the next step", 0, keep, 1000},
		{"the last step", 0, keep, 500},
		{"no old entry is left", 0, keep, 0},
		{"the remaining entries when they are old enough", time.Second, keep, 3},
	} {
		f.clock.Advance(c.after)
		n, err := f.db.SweepAudit(t.Context(), c.keep)
		f.must(err)
		same(t, c.claim, n, c.want)
		if n > 0 && n < 1000 {
			continue
		}
		if list := f.audit(eventhook.AuditFilter{}); len(list) < 3 || !list[0].ID.Time().After(noon) {
			t.Errorf("%s: %d entries are left, want the newest among them", c.claim, len(list))
		}
	}
	same(t, "left", f.count("audit_log", "true"), 0)
}

func TestInstancesSweepTheAuditLogWithoutWaiting(t *testing.T) {
	f := setUp(t)
	entries := f.count("audit_log", "true")
	f.clock.Advance(day + time.Second)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.audit_log WHERE action = 'tenant.created' FOR UPDATE`)
	f.must(err)
	n, err := f.db.SweepAudit(t.Context(), day)
	f.must(err)
	f.must(tx.Rollback(t.Context()))
	same(t, "deleted entries that are not locked", n, entries-1)
}

func TestTheAuditLogIsSweptByItsPrimaryKey(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.work.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	plan := explain(f, conn.Conn(), sweepAuditSQL, 2)
	if strings.Count(plan, "audit_log_pkey") != 2 || strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("want the primary key twice and nothing sorted, got\n%s", plan)
	}
}

// TestTheAuditLogHoldsNoSecret sets a secret in every place that accepts one, and searches the
// audit log and the system events for it.
func TestTheAuditLogHoldsNoSecret(t *testing.T) {
	const planted = "pl4nted-s3cret"
	f := setUp(t)
	by := eventhook.Actor{Type: eventhook.ActorOnBehalf, Name: "admin key"}
	key := eventhook.APIKey{TenantID: f.tenant, Name: "ci", Prefix: "ehk_1234", Scopes: eventhook.Scopes}
	k, err := f.db.CreateKey(t.Context(), by, key, hashed(planted+"-key"))
	f.must(err)
	f.must(f.db.DeleteKey(t.Context(), by, f.tenant, k.ID))

	c := acme()
	for i, secret := range []string{"one", "two"} {
		for s := range c.Sources {
			c.Sources[s].Verifier = eventhook.NewSecret(fmt.Sprintf(`{"type":"hmac","secrets":["%s-%s"]}`, planted, secret))
		}
		c.Name = fmt.Sprint("Acme ", i)
		f.apply(c)
	}
	crm := f.source("acme", "crm")
	f.must(f.db.StoreLearnedSecret(t.Context(), crm.ID, eventhook.NewSecret(planted+"-learned")))
	shown, err := f.db.RevealSecret(t.Context(), by, crm)
	f.must(err)
	same(t, "shown", shown.Reveal(), planted+"-learned")
	f.must(f.db.ResetHandshake(t.Context(), by, crm))
	_, err = f.db.CloseTenant(t.Context(), by, "acme")
	f.must(err)

	for _, table := range []string{"audit_log", "event", "event_payload"} {
		rows := queryValue[string](f, `SELECT string_agg(r::text, '|') FROM eventhook.`+table+` r`)
		for _, secret := range []string{planted, fmt.Sprintf("%x", planted), fmt.Sprintf("%x", hashed(planted+"-key"))} {
			if strings.Contains(rows, secret) {
				t.Errorf("%s contains %s", table, secret)
			}
		}
	}
	want := map[string]int{"tenant.created": 1, "tenant.updated": 2, "tenant.closed": 1, "source.created": 2, "source.updated": 4, "route.created": 1,
		"api_key.created": 1, "api_key.deleted": 1, "source.handshake_secret_revealed": 1, "source.handshake_reset": 1, "source.disabled_via_tenant_cascade": 2}
	same(t, "audited", f.counts(`SELECT action, count(*) FROM eventhook.audit_log GROUP BY 1`), want)
}
