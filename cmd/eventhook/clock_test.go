package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/dbclock"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// clockVariable names a file with the difference between a started gateway's clock and the time,
// such as 1h or -1h.
const clockVariable = "EVENTHOOK_TEST_CLOCK"

// jumpingClock returns the clock of a file, which it reads again at short intervals.
func jumpingClock(file string) func() time.Time {
	var ahead atomic.Int64
	read := func() {
		text, err := os.ReadFile(file)
		if d, perr := time.ParseDuration(string(text)); err == nil && perr == nil {
			ahead.Store(int64(d))
		}
	}
	read()
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			read()
		}
	}()
	return func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
}

// setClock lets the clock of a file jump.
func setClock(t *testing.T, file, ahead string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(ahead), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// The clock of one of two instances is an hour wrong at its start, and jumps both ways while both
// accept, process and deliver. Each event has its effects once, no delivery is repeated, since no
// lease is taken over, and no event waits for an hour.
func TestWallClockThatIsAnHourWrongChangesNothing(t *testing.T) {
	t.Parallel()
	for _, jumps := range [][]string{{"1h", "0s", "-1h"}, {"-1h", "0s", "1h"}} {
		t.Run(jumps[0], func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "clock")
			setClock(t, file, jumps[0])
			k := startTargetFixture(t, pgtest.New(t))
			other := k.instance
			k.env = []string{clockVariable + "=" + file}
			k.restart()
			loads := []*flood{startFloodNamed(t, k.instance, "jumps"), startFloodNamed(t, other, "right")}
			for _, ahead := range jumps {
				setClock(t, file, ahead)
				before, delivered := []int{loads[0].count(http.StatusOK), loads[1].count(http.StatusOK)}, k.subscriber.count(eventsOf)
				clitest.Eventually(t, "load is answered and delivered with a clock that is ahead by "+ahead, func() bool {
					return loads[0].count(http.StatusOK) >= before[0]+enough && loads[1].count(http.StatusOK) >= before[1]+enough &&
						k.subscriber.count(eventsOf) >= delivered+enough
				})
			}
			var accepted []string
			for _, load := range loads {
				load.stop()
				accepted = append(accepted, load.accepted...)
				if len(load.statuses) > 1 {
					t.Errorf("webhooks were answered %v, want 200 only", load.statuses)
				}
			}
			k.wantAllOnce(accepted)
			if requests, events := k.subscriber.count(requestsOf), k.subscriber.count(eventsOf); requests != events {
				t.Errorf("%d requests came for %d events, want each once", requests, events)
			}
			if n := count(t, connect(t, k.dsn), `SELECT count(*) FROM eventhook.event
				WHERE abs(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0 - extract(epoch FROM now())) > 1800`); n > 0 {
				t.Errorf("%d events have a time that is wrong", n)
			}
		})
	}
}

func TestDifferenceOfClocksIsLoggedOnce(t *testing.T) {
	db, err := pg.Open(t.Context(), pgtest.New(t), pg.Options{AcceptConns: 1, WorkConns: 1, ListConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	var ahead atomic.Int64
	was := clock
	t.Cleanup(func() { clock = was })
	clock = dbclock.New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	var log strings.Builder
	w := &clockWatch{DB: db, log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		ahead         time.Duration
		differ, agree int // lines
	}{{0, 0, 0}, {time.Hour, 1, 0}, {time.Hour, 1, 0}, {0, 1, 1}, {-time.Hour, 2, 1}} {
		ahead.Store(int64(c.ahead))
		skew, err := w.ClockSkew(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if off := skew + c.ahead; off.Abs() > 2*time.Second {
			t.Errorf("with a clock that is %s ahead the skew is %s", c.ahead, skew)
		}
		if differ, agree := strings.Count(log.String(), "differ"), strings.Count(log.String(), "agree again"); differ != c.differ || agree != c.agree {
			t.Errorf("with a clock that is %s ahead: got %d and %d lines, want %d and %d\n%s", c.ahead, differ, agree, c.differ, c.agree, log.String())
		}
	}
}
