package input_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/input"
)

func TestDurationsTakeDaysAndWeeks(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "2w": 14 * day, "1w1d": 8 * day, "1d12h": 36 * time.Hour, "1w30m": 7*day + 30*time.Minute, "0d": 0,
		"24h": day, "1h30m": 90 * time.Minute, "-5m": -5 * time.Minute, "99999d": 99999 * day,
	} {
		if got, err := input.ParseDuration(text); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "1d2w", "1.5d", "7days", "1d-2h", "1d+2h", "999999d", "1h2d", "7D"} {
		if got, err := input.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
