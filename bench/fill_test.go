package main

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestFillHoldsWhatItSays keeps two fills of one database apart, and counts.
func TestFillHoldsWhatItSays(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for tenant, events := range map[string]int{"small": 100, "large": 5003} {
		if err := fill(t.Context(), conn, tenant, events, 10); err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			where string
			want  int
		}{
			"events":     {`true`, events},
			"one source": {`s.slug = 'source-1'`, filledFew},
			"sources":    {`s.slug LIKE 'source-%'`, events},
			"one type":   {`e.event_type = '` + rareType + `'`, filledFew},
			"dead":       {`e.status = 'dead'`, filledDead},
			"failed":     {`e.status = 'failed' AND e.due_at > now()`, filledFew},
			"duplicates": {`e.status = 'duplicate'`, filledFew},
			"duplicates whose original has their key and source": {`EXISTS (SELECT FROM eventhook.event o WHERE o.id = e.duplicate_of
				AND o.idempotency_key = e.idempotency_key AND o.source_id = e.source_id AND o.status <> 'duplicate')`, filledFew},
			"events that a key leads to": {`EXISTS (SELECT FROM eventhook.idempotency_key k WHERE k.tenant_id = e.tenant_id
				AND k.scope = e.source_id::text AND k.key = e.idempotency_key AND k.made = e.id)`, events - filledFew},
		} {
			var got int
			err := conn.QueryRow(t.Context(), `SELECT count(*) FROM eventhook.event e JOIN eventhook.source s ON s.id = e.source_id
				JOIN eventhook.tenant t ON t.id = e.tenant_id WHERE t.slug = $1 AND `+c.where, tenant).Scan(&got)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got != c.want {
				t.Errorf("%s, %s: got %d, want %d", tenant, what, got, c.want)
			}
		}
	}
	if err := fill(t.Context(), conn, "none", 99, 1); err == nil {
		t.Error("too few events: got no error, want one")
	}
}
