package backoff_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/backoff"
)

func TestPausesDoubleUpToTheMaximum(t *testing.T) {
	d := backoff.ForDatabase()
	var got []int64
	for range 8 {
		got = append(got, d.Next().Milliseconds())
	}
	if want := []int64{50, 100, 200, 400, 800, 1600, 2000, 2000}; !slices.Equal(got, want) {
		t.Errorf("got pauses of %v ms, want %v", got, want)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !backoff.Sleep(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("got a sleep of %s that did not complete, want true after 1s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if backoff.Sleep(ctx, time.Hour) || time.Since(began) != 2*time.Second {
			t.Errorf("got a completed sleep %s after the beginning, want false after 2s, when ctx ended", time.Since(began))
		}
	})
}
