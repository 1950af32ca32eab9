package lifetime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/lifetime"
)

func TestAnExtendedContextEndsAfterItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithCancel(t.Context())
		ctx, cancel := lifetime.Extend(parent, time.Minute)
		defer cancel()
		time.Sleep(time.Hour)
		stop()
		began := time.Now()
		<-ctx.Done()
		if got := time.Since(began); got != time.Minute {
			t.Errorf("the context ended %s after its parent, want 1m0s", got)
		}
	})
}

func TestCancelEndsAnExtendedContextAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, parentEnds := range []bool{false, true} {
			parent, stop := context.WithCancel(t.Context())
			ctx, cancel := lifetime.Extend(parent, time.Minute)
			if parentEnds {
				stop()
				synctest.Wait()
			}
			cancel()
			if ctx.Err() == nil {
				t.Errorf("parent ended first: %t: the context has not ended after cancel", parentEnds)
			}
			stop()
		}
	})
}
