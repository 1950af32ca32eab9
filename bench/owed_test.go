package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestOweMakesWhatItSays(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	p := &claimPlace{conn: conn, tenant: eventhook.NewID[eventhook.Tenant](time.Now())}
	if err := p.fill(t.Context(), 22*deliveriesOf, 80*deliveriesOf); err != nil {
		t.Fatal(err)
	}
	if err := owe(t.Context(), conn, p.tenant, owing{p.lanes[0].String(), 500, 1, true}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		sql  string
		want int
	}{
		"have ended":         {`SELECT count(*) FROM eventhook.delivery WHERE status = 'success' AND due_at IS NULL AND completed_at <= now() AND attempts = 1`, 22 * deliveriesOf},
		"are due":            {`SELECT count(*) FROM eventhook.delivery WHERE status = 'pending' AND due_at <= now()`, 80*deliveriesOf + 500},
		"are the measured's": {`SELECT count(*) FROM eventhook.delivery WHERE destination_id = (SELECT id FROM eventhook.subscription ORDER BY id LIMIT 1) AND due_at IS NOT NULL`, 40*deliveriesOf + 500},
		"lanes are due":      {`SELECT count(DISTINCT destination_id) FROM eventhook.delivery WHERE due_at IS NOT NULL`, beside + 1},
		"have their event and its data": {`SELECT count(*) FROM eventhook.delivery d JOIN eventhook.event e ON e.id = d.event_id AND e.tenant_id = d.tenant_id AND e.due_at IS NULL
			JOIN eventhook.event_payload p ON p.event_id = e.id AND length(p.body) = e.body_size AND p.envelope IS NOT NULL`, 102*deliveriesOf + 500},
		"lie beside their event": {`SELECT count(*) FROM eventhook.delivery WHERE left(id::text, 18) = left(event_id::text, 18) AND substr(id::text, 20, 1) = '8'`, 102*deliveriesOf + 500},
	} {
		var got int
		if err := conn.QueryRow(t.Context(), c.sql).Scan(&got); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
}
