// Package plot draws measurements over time as an SVG: panels below each other with one time
// axis, a value axis with units each, lines with a legend, and vertical marks for moments.
package plot

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// Point is a value at a time since the start. NaN interrupts the line.
type Point struct {
	At    time.Duration
	Value float64
}

// Line is a named series of points in the order of their times.
type Line struct {
	Name   string
	Points []Point
}

// Panel is one diagram. Unit is shown with its title. All lines share the value axis, which begins
// at zero, or at the lowest value if that is negative. With Log, the axis is logarithmic, and
// values that are not positive interrupt the line.
type Panel struct {
	Title, Unit string
	Log         bool
	Lines       []Line
}

// Mark is a moment that all panels show. Marks of one kind have a colour, which the legend at the
// bottom names.
type Mark struct {
	At   time.Duration
	Kind string
}

// Figure is a drawing. Its time axis is from 0 to Length.
type Figure struct {
	Title, Subtitle string
	Length          time.Duration
	Panels          []Panel
	Marks           []Mark
}

const (
	width       = 1200
	left        = 90 // of the diagrams
	right       = 230
	top         = 80
	panelHeight = 150
	panelGap    = 58
	plotWidth   = width - left - right
	markRow     = 20
	ticks       = 5
)

// palette has colours that are told apart on white, also by most colour-blind readers.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#555555", "#a00000", "#6a3d9a", "#e69f00", "#00334d", "#b3de69"}

func colour(i int) string { return palette[i%len(palette)] }

// Write writes the figure as an SVG document.
func (f Figure) Write(w io.Writer) error {
	var b strings.Builder
	kinds := f.kinds()
	legend := top + len(f.Panels)*(panelHeight+panelGap)
	height := legend + (len(kinds)+1)/2*markRow + markRow
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="Helvetica, Arial, sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<title>%s</title><rect width="100%%" height="100%%" fill="white"/>`+"\n", html.EscapeString(f.Title))
	text(&b, left, 30, `font-size="18" font-weight="bold"`, f.Title)
	text(&b, left, 50, `fill="#444"`, f.Subtitle)
	for i, p := range f.Panels {
		f.drawPanel(&b, p, top+i*(panelHeight+panelGap), kinds)
	}
	for i, kind := range kinds {
		x, y := left+i%2*plotWidth/2, legend+i/2*markRow
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%[2]d" stroke="%[4]s" stroke-width="2" stroke-dasharray="4 3"/>`+"\n", x, y-4, x+24, colour(i))
		text(&b, x+32, y, "", kind)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// kinds returns the kinds of marks in the order of their first marks.
func (f Figure) kinds() (kinds []string) {
	known := map[string]bool{}
	for _, m := range f.Marks {
		if !known[m.Kind] {
			known[m.Kind] = true
			kinds = append(kinds, m.Kind)
		}
	}
	return kinds
}

func text(b *strings.Builder, x, y int, attributes, words string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(words))
}

// x returns the place of a moment.
func (f Figure) x(at time.Duration) float64 {
	return left + plotWidth*math.Min(at.Seconds()/math.Max(f.Length.Seconds(), 1e-9), 1)
}

func (f Figure) drawPanel(b *strings.Builder, p Panel, y int, kinds []string) {
	title := p.Title
	if p.Unit != "" {
		title += " (" + p.Unit + ")"
	}
	text(b, left, y-8, `font-weight="bold"`, title)
	axis := newAxis(p, y)
	f.drawAxes(b, axis, y)
	for _, m := range f.Marks {
		for i, kind := range kinds {
			if kind == m.Kind {
				fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1[1]f" y2="%[3]d" stroke="%s" stroke-opacity="0.6" stroke-dasharray="4 3"/>`+"\n", f.x(m.At), y, y+panelHeight, colour(i))
			}
		}
	}
	for i, l := range p.Lines {
		f.drawLine(b, l, axis, colour(i))
		const row = 18
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%[2]d" stroke="%[4]s" stroke-width="2"/>`+"\n", left+plotWidth+14, y+8+i*row, left+plotWidth+34, colour(i))
		text(b, left+plotWidth+40, y+12+i*row, "", l.Name)
	}
}

// drawAxes draws the frame, the values with their grid, and the times.
func (f Figure) drawAxes(b *strings.Builder, a axis, y int) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#888"/>`+"\n", left, y, plotWidth, panelHeight)
	for _, v := range a.ticks() {
		at := a.y(v)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1[2]f" stroke="#ddd"/>`+"\n", left, at, left+plotWidth)
		text(b, left-8, int(at)+4, `text-anchor="end"`, number(v))
	}
	step := timeStep(f.Length)
	for t := time.Duration(0); t <= f.Length; t += step {
		x := int(f.x(t))
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%[1]d" y2="%[3]d" stroke="#888"/>`+"\n", x, y+panelHeight, y+panelHeight+4)
		text(b, x, y+panelHeight+18, `text-anchor="middle"`, clock(t))
	}
}

func (f Figure) drawLine(b *strings.Builder, l Line, a axis, stroke string) {
	const polyline = `<polyline fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round" points="%s"/>` + "\n"
	var points []string
	end := func() {
		if len(points) > 0 {
			fmt.Fprintf(b, polyline, stroke, strings.Join(points, " "))
		}
		points = nil
	}
	for _, p := range l.Points {
		if math.IsNaN(p.Value) || a.log && p.Value <= 0 {
			end()
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", f.x(p.At), a.y(p.Value)))
	}
	end()
}
