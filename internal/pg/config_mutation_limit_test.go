package pg

import (
	"runtime"
	"testing"

	"github.com/eventhook/eventhook"
)

// TestChangesOfATenantLeaveConnectionsFree locks a row that a tenant's changes wait for.
// Another tenant's changes, and other work, must continue.
func TestChangesOfATenantLeaveConnectionsFree(t *testing.T) {
	f := setUp(t)
	db := f.open(func(o *Options) { o.WorkConns = 4 })
	lock, err := f.db.work.Begin(t.Context())
	f.must(err)
	_, err = lock.Exec(t.Context(), `SELECT FROM eventhook.source WHERE id = $1 FOR UPDATE`, [16]byte(f.crm))
	f.must(err)
	changed := make(chan error, 3)
	for range cap(changed) {
		go func() {
			_, err := db.UpdateSource(t.Context(), operator, f.tenant, "crm", 0, func(s eventhook.Source) (eventhook.Source, error) {
				s.Name = "changed"
				return s, nil
			})
			changed <- err
		}()
	}
	for db.changes.Waiting(f.tenant) < 2 && db.work.Stat().AcquiredConns() < 3 {
		runtime.Gosched()
	}
	if n := db.work.Stat().AcquiredConns(); n > 1 {
		t.Errorf("%d connections are held by changes that wait for each other, want at most 1 of 4", n)
	}
	f.must(db.Ping(t.Context()))
	f.must(lock.Rollback(t.Context()))
	for range cap(changed) {
		f.must(<-changed)
	}
}
