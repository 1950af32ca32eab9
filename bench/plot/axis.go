package plot

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// axis is the value axis of a panel whose upper edge is at top.
type axis struct {
	low, high float64
	step      float64 // between two ticks; not with log
	log       bool
	top       int
}

func newAxis(p Panel, top int) axis {
	a := axis{log: p.Log, top: top}
	smallest := math.Inf(1)
	for _, l := range p.Lines {
		for _, point := range l.Points {
			if !math.IsNaN(point.Value) {
				a.low, a.high = math.Min(a.low, point.Value), math.Max(a.high, point.Value)
			}
			if point.Value > 0 {
				smallest = math.Min(smallest, point.Value)
			}
		}
	}
	if a.log {
		return a.decades(smallest)
	}
	if a.high == a.low {
		a.high = a.low + 1
	}
	a.step = niceStep((a.high - a.low) / ticks)
	a.low, a.high = math.Floor(a.low/a.step)*a.step, math.Ceil(a.high/a.step)*a.step
	return a
}

// decades extends a logarithmic axis to whole powers of ten.
func (a axis) decades(smallest float64) axis {
	if math.IsInf(smallest, 1) {
		smallest, a.high = 1, 10
	}
	a.low = math.Pow(10, math.Floor(math.Log10(smallest)))
	a.high = math.Max(math.Pow(10, math.Ceil(math.Log10(a.high))), a.low*10)
	return a
}

// niceStep returns the least 1, 2 or 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= v*(1-1e-9) {
			return n * power
		}
	}
	return 10 * power
}

func (a axis) ticks() (values []float64) {
	if a.log {
		for v := a.low; v <= a.high*1.01; v *= 10 {
			values = append(values, v)
		}
		return values
	}
	for i := 0; a.low+float64(i)*a.step <= a.high+a.step/2; i++ {
		values = append(values, a.low+float64(i)*a.step)
	}
	return values
}

// y returns the place of a value.
func (a axis) y(v float64) float64 {
	share := (v - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log10(v/a.low) / math.Log10(a.high/a.low)
	}
	return float64(a.top) + panelHeight*(1-share)
}

// number formats a tick: 1500 as 1 500, 0.25 as 0.25.
func number(v float64) string {
	const thousand, digits = 1000, 6
	if v == math.Trunc(v) && math.Abs(v) >= thousand {
		whole := strconv.FormatInt(int64(v), 10)
		for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
			whole = whole[:i] + " " + whole[i:]
		}
		return whole
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// timeStep returns a step of the time axis with at most 12 ticks.
func timeStep(length time.Duration) time.Duration {
	const most = 12
	for _, s := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour,
	} {
		if length/s <= most {
			return s
		}
	}
	return (length / most).Truncate(time.Hour) + time.Hour
}

// clock formats a time since the start as minutes and seconds, or hours and minutes.
func clock(t time.Duration) string {
	if t >= time.Hour {
		return fmt.Sprintf("%d:%02d h", int(t.Hours()), int(t.Minutes())%60)
	}
	return fmt.Sprintf("%d:%02d", int(t.Minutes()), int(t.Seconds())%60)
}
