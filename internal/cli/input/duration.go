package input

import (
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

const day = 24 * time.Hour

// daysAndWeeks matches the weeks and days at the beginning of a duration.
var daysAndWeeks = regexp.MustCompile(`^(?:([0-9]{1,5})w)?(?:([0-9]{1,5})d)?`)

var errDuration = errors.New("want a duration such as 24h or 7d")

// ParseDuration parses a duration as time.ParseDuration does, and also weeks and days before
// it, such as 7d, 2w or 1d12h. A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	match := daysAndWeeks.FindStringSubmatch(text)
	if match[0] == "" {
		return time.ParseDuration(text)
	}
	weeks, _ := strconv.Atoi(match[1]) // 0 without weeks
	days, _ := strconv.Atoi(match[2])
	d := time.Duration(7*weeks+days) * day
	if text == match[0] {
		return d, nil
	}
	rest, err := time.ParseDuration(text[len(match[0]):])
	if err != nil || rest < 0 || text[len(match[0])] == '+' {
		return 0, errDuration
	}
	return d + rest, nil
}

// durationValue is the value of a flag that takes a duration with weeks and days.
type durationValue time.Duration

func (d *durationValue) String() string { return time.Duration(*d).String() }
func (d *durationValue) Type() string   { return "duration" }

func (d *durationValue) Set(text string) error {
	parsed, err := ParseDuration(text)
	*d = durationValue(parsed)
	return err
}

// DurationVar defines a flag that takes a duration; see ParseDuration.
func DurationVar(flags *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Var((*durationValue)(d), name, usage)
}
