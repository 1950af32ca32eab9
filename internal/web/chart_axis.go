package web

import "math"

// axis is the vertical axis of a chart.
type axis struct {
	low, top float64
	marks    []float64
	isLog    bool
}

// maxDecades is the number of powers of ten that a logarithmic axis marks one by one.
const maxDecades = 4

func (c Chart) axis() axis {
	if c.IsLog {
		return logAxis(c.lowest(), c.highest())
	}
	const half = 2
	top := niceMax(c.highest())
	return axis{top: top, marks: []float64{0, top / half, top}}
}

// logAxis marks powers of ten.
func logAxis(lowest, highest float64) axis {
	if highest <= 0 {
		lowest, highest = 1, 1
	}
	first, last := int(math.Floor(math.Log10(lowest))), int(math.Ceil(math.Log10(highest)))
	last = max(last, first+1)
	a := axis{low: math.Pow10(first), top: math.Pow10(last), isLog: true}
	for i, step := first, (last-first+maxDecades-1)/maxDecades; i <= last; i += step {
		a.marks = append(a.marks, math.Pow10(i))
	}
	return a
}

// share is the part of the axis below a value.
func (a axis) share(v float64) float64 {
	if a.isLog {
		return math.Log10(max(v, a.low)/a.low) / math.Log10(a.top/a.low)
	}
	return v / a.top
}

func (a axis) shares(values []float64) []float64 {
	shares := make([]float64, len(values))
	for i, v := range values {
		shares[i] = v
		if !math.IsNaN(v) {
			shares[i] = a.share(v)
		}
	}
	return shares
}

// lowest returns the lowest positive value of all series; 0 without one.
func (c Chart) lowest() float64 {
	lowest := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			if v > 0 && (lowest == 0 || v < lowest) {
				lowest = v
			}
		}
	}
	return lowest
}

// niceMax returns the upper end of an axis: the next 1, 2 or 5 times a power of ten.
func niceMax(highest float64) float64 {
	const two, five, ten = 2, 5, 10
	if highest <= 0 {
		return 1
	}
	power := math.Pow(ten, math.Floor(math.Log10(highest)))
	for _, factor := range []float64{1, two, five} {
		if highest <= factor*power {
			return factor * power
		}
	}
	return ten * power
}
