package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// momentFlag reads a time, or a span of time from now on.
func momentFlag(flag, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, input.Usagef("--%s %q, want a time such as 2026-01-31T12:00:00Z, or a span such as 24h", flag, terminal.Printable(text))
	}
	return at, nil
}

// agoFlag reads a time, or how long ago it was.
func agoFlag(flag, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d).UTC(), nil
	}
	return momentFlag(flag, text, now)
}

// spanFlags are two moments, either of which may be left open.
type spanFlags struct{ since, until string }

func (f *spanFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.since, "since", "", "published after a time, or since so long ago, such as 24h")
	cmd.Flags().StringVar(&f.until, "until", "", "published before a time, or so long ago")
}

func (f *spanFlags) bounds(now time.Time) (since, until *time.Time, err error) {
	for _, bound := range []struct {
		flag, text string
		to         **time.Time
	}{{"since", f.since, &since}, {"until", f.until, &until}} {
		if bound.text == "" {
			continue
		}
		at, err := agoFlag(bound.flag, bound.text, now)
		if err != nil {
			return nil, nil, err
		}
		*bound.to = &at
	}
	return since, until, nil
}
