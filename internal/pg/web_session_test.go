package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

var _ session.Store = (*DB)(nil)

func TestTheStoreOfWebSessionsConforms(t *testing.T) {
	for claim, check := range sessiontest.Cases {
		t.Run(claim, func(t *testing.T) {
			f := setUp(t)
			check(t, sessiontest.Subject{Store: f.db, Now: f.clock.Now, Advance: func(d time.Duration) { f.clock.Advance(d) }})
		})
	}
}
