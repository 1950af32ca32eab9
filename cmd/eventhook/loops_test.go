package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// The sweep uses the configured retention of the audit log.
func TestAuditLogRetention(t *testing.T) {
	dsn := pgtest.New(t)
	db, err := pg.Open(t.Context(), dsn, pg.Options{AcceptConns: 1, WorkConns: 2, ListConns: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	conn := connect(t, dsn)
	for _, daysAgo := range []int{5, 401} {
		id := eventhook.NewID[eventhook.AuditEntry](time.Now().AddDate(0, 0, -daysAgo))
		if _, err := conn.Exec(t.Context(), `INSERT INTO eventhook.audit_log (id, actor_type, actor_name, action, resource_type, resource_name, changes)
			VALUES ($1, 'operator', 'test', 'tenant.updated', 'tenant', 'acme', '[]')`, [16]byte(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		claim      string
		days, left int
	}{
		{"0 keeps", 0, 2},
		{"by default", configs.Default().Retention.AuditDays, 1},
		{"shorter", 3, 0},
	} {
		config := configs.Default()
		config.Retention.AuditDays = c.days
		if err := (&gateway{db: db, config: config}).sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := count(t, conn, `SELECT count(*) FROM eventhook.audit_log`); got != c.left {
			t.Errorf("%s: %d entries are left, want %d", c.claim, got, c.left)
		}
	}
}
