package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// thinSpace separates groups of three digits.
const thinSpace = "\u202f"

// Number writes an integer with its digits in groups of three, for example 1 284.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "\u2212", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + thinSpace + digits[i:]
	}
	return sign + digits
}

// Bytes writes a size with a unit of 1024 bytes, for example 1.2 KB.
func Bytes(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), 0
	for units := "KMGTP"; size >= step && unit < len(units); unit++ {
		size /= step
	}
	return trimZero(strconv.FormatFloat(size, 'f', 1, 64)) + " " + "KMGTP"[unit-1:unit] + "B"
}

// Duration writes a duration with two digits or so of precision, for example 31 ms, 2.4 s, 12 min,
// 3 h 20 min, 4 d.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "\u2212" + Duration(-d)
	case d == 0:
		return "0 ms"
	case d < time.Millisecond:
		return trimZero(fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))) + " ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return trimZero(fmt.Sprintf("%.1f", d.Seconds())) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < day && d%time.Hour < time.Minute:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d < day:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d", int(d/day))
}

// Milliseconds writes a number of milliseconds as Duration does.
func Milliseconds(ms float64) string {
	return Duration(time.Duration(math.Round(ms * float64(time.Millisecond))))
}

// Seconds writes a number of seconds as Duration does.
func Seconds(s float64) string { return Milliseconds(s * 1000) }

// Percent writes a ratio between 0 and 1, for example 99.97 %. It never rounds up to 100 %.
func Percent(ratio float64) string {
	const whole, precision = 100, 100
	percent := ratio * whole
	if percent < whole {
		percent = math.Floor(percent*precision) / precision
	}
	return trimZero(strconv.FormatFloat(percent, 'f', 2, 64)) + " %"
}

// Rate writes a number of events per second, for example 212/s, 3.4/s, 0.02/s, 0/s.
func Rate(perSecond float64) string {
	precision := 0
	switch {
	case perSecond == 0 || perSecond >= 10:
	case perSecond >= 1:
		precision = 1
	default:
		precision = 2
	}
	return trimZero(strconv.FormatFloat(perSecond, 'f', precision, 64)) + "/s"
}

func trimZero(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Ago writes how long ago a time was, for example 12 min ago, or in 3 h for a time in the future.
func Ago(at, now time.Time) string {
	switch d := now.Sub(at); {
	case d >= -time.Second && d < 2*time.Second:
		return "now"
	case d < 0:
		return "in " + Duration(-d)
	default:
		return Duration(d) + " ago"
	}
}

// Short abbreviates an id to its last characters, which differ between ids of the same moment.
func Short(id string) string {
	const whole, head, tail = 16, 4, 6
	if len(id) <= whole {
		return id
	}
	return id[:head] + "…" + id[len(id)-tail:]
}

// Host returns the host of a URL; the text itself if it is not a URL.
func Host(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Host
	}
	return text
}

// Time is a moment in a page: a time element with the absolute form as its title and the relative
// or the short form as its text. The script keeps relative forms current.
func Time(at *time.Time, now time.Time) template.HTML {
	if at == nil || at.IsZero() {
		return `<span class="muted">–</span>`
	}
	t := at.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, //nolint:gosec // digits and fixed text only
		t.Format(time.RFC3339Nano), t.Format("2006-01-02 15:04:05.000 UTC"), Ago(t, now)))
}

// readAt is the time of day at which a page was read, in whole seconds.
func readAt(at time.Time) template.HTML {
	t := at.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-form="clock">%s</time>`, t.Format(time.RFC3339Nano), t.Format("15:04:05"))) //nolint:gosec // digits only
}

// Clock is a moment in a page whose text is the time of day.
func Clock(at time.Time) template.HTML {
	t := at.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-form="clock">%s</time>`, //nolint:gosec // digits and fixed text only
		t.Format(time.RFC3339Nano), t.Format("2006-01-02 15:04:05.000 UTC"), t.Format("15:04:05.000")))
}
