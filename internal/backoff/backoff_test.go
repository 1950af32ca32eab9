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

func TestPausesOfCallsDoubleWithJitterAndRespectRetryAfter(t *testing.T) {
	var c backoff.Calls
	for _, ms := range []int{500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		full := time.Duration(ms) * time.Millisecond
		if got := c.Next(0); got < full/2 || got >= full {
			t.Errorf("got %s, want %s less up to a half", got, full)
		}
	}
	c.Tries = 1000
	if got := c.Next(0); got < 15*time.Second || got >= 30*time.Second {
		t.Errorf("after 1000 tries: got %s, want up to 30 s", got)
	}
	for asked, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 10 * time.Minute} {
		if got := c.Next(asked); got != want {
			t.Errorf("a Retry-After of %s: got %s, want %s", asked, got, want)
		}
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
