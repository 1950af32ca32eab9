package sessiontest_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

func TestTheStoreInMemoryConforms(t *testing.T) {
	for claim, check := range sessiontest.Cases {
		t.Run(claim, func(t *testing.T) {
			clock := clocktest.New(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
			check(t, sessiontest.Subject{Store: sessiontest.NewStore(clock.Now), Now: clock.Now, Advance: clock.Advance})
		})
	}
}
