package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// parsed is the texts and the number of elements of an SVG.
type parsed struct {
	texts    []string
	elements map[string]int
}

func parse(t *testing.T, svg string) parsed {
	t.Helper()
	p := parsed{elements: map[string]int{}}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch x := token.(type) {
		case xml.StartElement:
			p.elements[x.Name.Local]++
		case xml.CharData:
			if s := strings.TrimSpace(string(x)); s != "" {
				p.texts = append(p.texts, s)
			}
		}
	}
}

func TestAFigureShowsItsTitlesLegendsUnitsAndMarks(t *testing.T) {
	f := Figure{
		Title: "Soak <30 min>", Subtitle: "two gateways", Length: 10 * time.Second,
		Panels: []Panel{
			{Title: "Rate", Unit: "events/s", Lines: []Line{
				{"accepted", []Point{{0, 0}, {time.Second, 1500}, {2 * time.Second, math.NaN()}, {3 * time.Second, 20}, {4 * time.Second, 30}}},
				{"delivered", []Point{{0, 1}}},
			}},
			{Title: "Latency", Unit: "ms", Log: true, Lines: []Line{{"p99", []Point{{0, 0}, {time.Second, 5}, {2 * time.Second, 700}}}}},
		},
		Marks: []Mark{{time.Second, "kill -9"}, {2 * time.Second, "restart"}, {5 * time.Second, "kill -9"}},
	}
	var b strings.Builder
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	got := parse(t, b.String())
	if strings.Contains(b.String(), "%!") {
		t.Errorf("a number is not formatted:\n%s", b.String())
	}
	for _, want := range []string{
		"Soak <30 min>", "two gateways", "Rate (events/s)", "Latency (ms)", "accepted", "delivered", "p99",
		"kill -9", "restart", "1 500", "1 000", "0:00", "0:10", "100",
	} {
		if !slices.Contains(got.texts, want) {
			t.Errorf("the figure has no text %q: %q", want, got.texts)
		}
	}
	if n := got.elements["polyline"]; n != 4 { // NaN divides the first line
		t.Errorf("got %d lines, want 4", n)
	}
	if n := strings.Count(b.String(), `stroke-opacity="0.6"`); n != 6 { // three marks in two panels
		t.Errorf("got %d marks, want 6", n)
	}
}

func TestAnEmptyFigureIsValid(t *testing.T) {
	var b strings.Builder
	if err := (Figure{Panels: []Panel{{}, {Log: true}}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("a place is not a number:\n%s", b.String())
	}
	parse(t, b.String())
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		claim  string
		values []float64
		log    bool
		want   []float64
	}{
		{"whole steps", []float64{0, 9}, false, []float64{0, 2, 4, 6, 8, 10}},
		{"a constant zero", []float64{0}, false, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{"decades", []float64{3, 70}, true, []float64{1, 10, 100}},
	} {
		var l Line
		for _, v := range c.values {
			l.Points = append(l.Points, Point{0, v})
		}
		got := newAxis(Panel{Log: c.log, Lines: []Line{l}}, 0).ticks()
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%s: got %v, want %v", c.claim, got, c.want)
		}
	}
}
