package pg

import (
	"testing"

	"github.com/eventhook/eventhook"
)

// A settle of an event locks the event before the delivery that it restarts. RestartDeliveries
// does so, too: after a deadlock, it would skip the delivery that the settle has locked.
func TestRestartingADeliveryAndSettlingItsEventCannotDeadlock(t *testing.T) {
	f := setUp(t)
	e, list := f.eventWithRequests(1)
	f.exec(`UPDATE eventhook.delivery SET status = 'dead', due_at = NULL, completed_at = $1, last_error = 'HTTP 500'`, f.clock.Now())
	f.exec(`UPDATE eventhook.event SET status = 'dead', processed_at = $2 WHERE id = $1`, [16]byte(e.ID), f.clock.Now())
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{`SET LOCAL deadlock_timeout = '10min'`, `SELECT FROM eventhook.event WHERE id = '` + e.ID.String() + `' FOR UPDATE`} {
		_, err = tx.Exec(t.Context(), sql)
		f.must(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := f.db.RestartDeliveries(t.Context(), operator, f.tenant, eventhook.DeliverySelection{IDs: []eventhook.DeliveryID{list[0].ID}})
		ended <- err
	}()
	f.waitForBlocked(1)
	_, err = tx.Exec(t.Context(), `UPDATE eventhook.delivery SET retry_count = 0 WHERE id = $1`, [16]byte(list[0].ID))
	f.must(err)
	f.waitForBlocked(1) // not ended
	f.must(tx.Rollback(t.Context()))
	f.must(<-ended)
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventProcessing)
}
