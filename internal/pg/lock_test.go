package pg

import (
	"context"
	"sync"
	"testing"
	"time"
)

// copyUntilEnd calls WithSourceCopies, and sends the log to copying when it may write copies.
func copyUntilEnd(ctx context.Context, db *DB, log string, copying chan<- string) {
	_ = db.WithSourceCopies(ctx, log, func(ctx context.Context) error {
		copying <- log
		<-ctx.Done()
		return ctx.Err()
	})
}

func TestSourcesAreCopiedIntoSeveralLogsAtOnce(t *testing.T) {
	f := setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	copying := make(chan string, 2)
	running.Go(func() { copyUntilEnd(ctx, f.db, "old", copying) })
	running.Go(func() { copyUntilEnd(ctx, f.other, "new", copying) })
	got := map[string]bool{}
	for range 2 {
		select {
		case log := <-copying:
			got[log] = true
		case <-time.After(time.Minute):
			t.Fatalf("only %v has an instance that copies sources", got)
		}
	}
	if !got["old"] || !got["new"] {
		t.Errorf("got %v, want one instance for each log", got)
	}
}

func TestOneInstanceCopiesSourcesIntoALog(t *testing.T) {
	f := setUp(t)
	isHeld := false
	err := f.db.withLock(t.Context(), 1, func(ctx context.Context) error {
		isHeld = true
		return f.other.withLock(ctx, 1, func(context.Context) error {
			t.Error("two instances have the lock of one log")
			return nil
		})
	})
	if !isHeld {
		t.Errorf("no instance has the lock: %v", err)
	}
}
