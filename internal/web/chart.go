package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Series is one line of a chart. NaN is a missing value, which interrupts the line.
type Series struct {
	Name   string
	Class  string // of the style sheet: ok, failed, accent, muted
	Values []float64
}

// Chart is a line chart over time, drawn by the server as SVG.
type Chart struct {
	Title  string
	Format func(float64) string // writes a value of the vertical axis
	Times  []time.Time          // of the values of all series
	Series []Series
	// IsLog selects a logarithmic axis, for values that differ by powers of ten. Values must not be negative.
	IsLog bool
}

// Sizes of charts in units of the SVG's view box.
const (
	chartWidth, chartHeight = 480, 160
	chartLeft, chartBottom  = 80, 24
	chartTop                = 12
	sparkWidth, sparkHeight = 120, 24
)

// SVG draws the chart: an axis with round values, the lines, and the times. A text for screen
// readers names the last and the highest value of each line.
func (c Chart) SVG() template.HTML {
	a := c.axis()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, chartHeight, template.HTMLEscapeString(c.description()))
	for _, mark := range a.marks {
		y := chartY(a.share(mark))
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%s" y2="%s"/><text x="%d" y="%s" class="axis end">%s</text>`,
			chartLeft, chartWidth, coordinate(y), coordinate(y), chartLeft-8, coordinate(y+4), template.HTMLEscapeString(c.Format(mark)))
	}
	c.drawTimes(&b)
	for _, s := range c.Series {
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, template.HTMLEscapeString(s.Class), linePath(a.shares(s.Values), 1, chartLeft, chartWidth-2, chartTop, chartHeight-chartBottom))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text is escaped
}

func chartY(share float64) float64 {
	return chartHeight - chartBottom - share*(chartHeight-chartBottom-chartTop)
}

func (c Chart) drawTimes(b *strings.Builder) {
	const marks = 4
	for i := range marks + 1 {
		if len(c.Times) < marks {
			return
		}
		at := c.Times[i*(len(c.Times)-1)/marks]
		anchor := map[bool]string{true: " end"}[i == marks]
		if i > 0 && i < marks {
			anchor = " middle"
		}
		x := chartLeft + float64(i)*(chartWidth-2-chartLeft)/marks
		fmt.Fprintf(b, `<text class="axis%s" x="%s" y="%d">%s</text>`, anchor, coordinate(x), chartHeight-4, at.UTC().Format("15:04"))
	}
}

func (c Chart) highest() float64 {
	highest := 0.0
	for _, s := range c.Series {
		highest = max(highest, highestOf(s.Values))
	}
	return highest
}

// highestOf returns the highest value that is not missing; 0 if there is none.
func highestOf(values []float64) float64 {
	highest := 0.0
	for _, v := range values {
		if v > highest { // false for NaN
			highest = v
		}
	}
	return highest
}

func (c Chart) description() string {
	var b strings.Builder
	b.WriteString(c.Title)
	for _, s := range c.Series {
		last := math.NaN()
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				last = v
			}
		}
		if math.IsNaN(last) {
			fmt.Fprintf(&b, "; %s: no values", s.Name)
			continue
		}
		fmt.Fprintf(&b, "; %s: last %s, highest %s", s.Name, c.Format(last), c.Format(highestOf(s.Values)))
	}
	return b.String()
}

// Sparkline draws values as a small line without axes. label describes it to screen readers.
func Sparkline(label string, values []float64) template.HTML {
	top := highestOf(values)
	if top == 0 {
		top = 1
	}
	const margin = 2
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" role="img" aria-label="%s"><path class="line accent" d="%s"/></svg>`, //nolint:gosec // the label is escaped
		sparkWidth, sparkHeight, template.HTMLEscapeString(label), linePath(values, top, 0, sparkWidth, margin, sparkHeight-margin)))
}

// linePath returns the path of a line through values, from left to right, with 0 at bottom and
// top at the upper edge.
func linePath(values []float64, top float64, left, right, upper, lower float64) string {
	var b strings.Builder
	isDown := false
	for i, v := range values {
		if math.IsNaN(v) {
			isDown = false
			continue
		}
		command := "M"
		if isDown {
			command = "L"
		}
		isDown = true
		x := left
		if len(values) > 1 {
			x += float64(i) * (right - left) / float64(len(values)-1)
		}
		b.WriteString(command + coordinate(x) + " " + coordinate(lower-v/top*(lower-upper)))
	}
	return b.String()
}

func coordinate(v float64) string {
	const precision = 10
	return strconv.FormatFloat(math.Round(v*precision)/precision, 'f', -1, 64)
}
