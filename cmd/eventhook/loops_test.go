package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/telemetry"
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

// A table has the name of today's partition, so the partition cannot be created. Webhooks are stored
// in the default partition, and their events move when the partition can be created.
func TestPartitionThatCannotBeCreatedIsCountedAndCreatedLater(t *testing.T) {
	dsn := pgtest.New(t)
	conn := connect(t, dsn)
	for _, days := range []int{0, 1} { // the day may end
		name := "event_" + time.Now().UTC().AddDate(0, 0, days).Format("20060102")
		executeAll(t, conn, `CREATE TABLE eventhook.`+name+` (a_table_of_somebody text)`)
	}
	i := startInstance(t, dsn)
	if !strings.Contains(i.logs.String(), "cannot create partitions") {
		t.Errorf("it logs %s, want that partitions cannot be created", i.logs)
	}
	load := startFlood(t, i)
	clitest.Eventually(t, "load is answered", func() bool { return load.count(http.StatusOK) >= enough })
	load.stop()
	wantEachProcessedOnce(t, dsn, load.accepted)
	strays := func() int { return count(t, conn, `SELECT count(*) FROM eventhook.event_default`) }
	if strays() == 0 {
		t.Error("no event is in the default partition")
	}
	logs := &clitest.Buffer{}
	g := &gateway{metrics: telemetry.NewMetrics(), config: configs.Default(), log: slog.New(slog.NewTextHandler(logs, nil))}
	var err error
	if g.db, err = pg.Open(t.Context(), dsn, pg.Options{AcceptConns: 1, WorkConns: 2, ListConns: 1, Log: g.log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.db.Close)
	failures := func() string {
		answer := httptest.NewRecorder()
		g.metrics.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return regexp.MustCompile(`(?m)^eventhook_partition_maintenance_failed_total (\d+)`).FindString(answer.Body.String())
	}
	before := failures()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.every(time.Millisecond, "maintain partitions", g.maintainPartitions)(ctx) }()
	clitest.Eventually(t, "the failure is logged and counted", func() bool {
		return strings.Contains(logs.String(), "cannot maintain partitions; retrying later") && failures() != before
	})
	executeAll(t, conn, `DO $$ DECLARE t name; BEGIN
		FOR t IN SELECT table_name FROM information_schema.columns WHERE column_name = 'a_table_of_somebody' LOOP
			EXECUTE format('DROP TABLE eventhook.%I', t);
		END LOOP; END $$`)
	clitest.Eventually(t, "the events have moved", func() bool { return strays() == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantEachProcessedOnce(t, dsn, load.accepted)
}
