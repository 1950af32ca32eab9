package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// All instances use the quota of a tenant: when it is set while they run, when it is
// raised while it is exceeded, and when they start later.
func TestQuotaAppliesAtAllInstances(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	first, second := startInstance(t, dsn), startInstance(t, dsn)
	conn := connect(t, dsn)
	setQuota := func(n int) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `UPDATE eventhook.tenant SET max_events_per_day = $1`, n); err != nil {
			t.Fatal(err)
		}
	}
	sent, stored := 0, 0
	push := func(to *instance) int {
		t.Helper()
		sent++
		status, _, err := to.push(t.Context(), fmt.Sprint("quota-", sent/2)) // each twice: duplicates count
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusOK {
			stored++
		}
		return status
	}
	refusedBy := func(to *instance) func() bool {
		return func() bool { return push(to) == http.StatusTooManyRequests }
	}
	for range 10 {
		push(first)
		push(second)
	}
	setQuota(20)
	clitest.Eventually(t, "the first instance refuses", refusedBy(first))
	clitest.Eventually(t, "the second instance refuses", refusedBy(second))
	later := startInstance(t, dsn)
	if status := push(later); status != http.StatusTooManyRequests {
		t.Errorf("an instance that was started later answered %d, want 429", status)
	}
	setQuota(1_000_000)
	for _, to := range []*instance{first, second, later} {
		clitest.Eventually(t, "the source accepts again", func() bool { return push(to) == http.StatusOK })
	}
	for _, to := range []*instance{first, second, later} {
		to.stop()
	}
	if got := count(t, conn, `SELECT sum(events) FROM eventhook.tenant_usage`); got != stored {
		t.Errorf("%d events were stored and %d counted", stored, got)
	}
	if got := count(t, conn, `SELECT sum(events) FROM eventhook.source_usage`); got != stored {
		t.Errorf("%d events were stored and %d counted for the source", stored, got)
	}
	if got := count(t, conn, `SELECT sum(bytes) FROM eventhook.tenant_usage`); got != count(t, conn, `SELECT sum(length(headers) + length(body)) FROM eventhook.event_payload p
		JOIN eventhook.event e ON e.id = p.event_id WHERE e.origin <> 'system'`) {
		t.Errorf("%d bytes were counted, want the number of stored bytes", got)
	}
}
