package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// timeFlag parses a time, or a duration from now.
func timeFlag(flag, text string, now time.Time) (time.Time, error) {
	if d, err := input.ParseDuration(text); err == nil {
		return now.Add(d).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, input.Usagef("--%s %q, want a time such as 2026-01-31T12:00:00Z, or a duration such as 24h or 7d", flag,
			terminal.Printable(text))
	}
	return at, nil
}

// pastTimeFlag parses a time, or a duration before now.
func pastTimeFlag(flag, text string, now time.Time) (time.Time, error) {
	if d, err := input.ParseDuration(text); err == nil {
		return now.Add(-d).UTC(), nil
	}
	return timeFlag(flag, text, now)
}

// spanFlags are the flags --since and --until. Each may be empty.
type spanFlags struct{ since, until string }

// addTo defines the flags for objects that were published or received.
func (f *spanFlags) addTo(flags *pflag.FlagSet, verb string) {
	flags.StringVar(&f.since, "since", "", verb+" after a time, or within a duration such as 24h or 7d")
	flags.StringVar(&f.until, "until", "", verb+" before a time, or longer ago than a duration")
}

// bounds parses the flags. The result is nil for a flag that is not given.
func (f *spanFlags) bounds(now time.Time) (since, until *time.Time, err error) {
	if since, err = optionalPastTime("since", f.since, now); err != nil {
		return nil, nil, err
	}
	until, err = optionalPastTime("until", f.until, now)
	return since, until, err
}

func optionalPastTime(flag, text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := pastTimeFlag(flag, text, now)
	if err != nil {
		return nil, err
	}
	return &at, nil
}
