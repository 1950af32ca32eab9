package browsertest

import "time"

// Vitals are measurements of the document that the page shows.
type Vitals struct {
	FirstPaint   time.Duration // first-contentful-paint, after the start of the navigation
	LargestShift float64       // the largest layout shift that no input caused
	ShiftedAt    string        // the elements of that shift
}

// vitalsScript waits for the first paint, and for the report of the shifts before now.
const vitalsScript = `new Promise(resolve => {
	const shifts = [];
	const name = n => n ? n.nodeName.toLowerCase() + (n.id ? "#" + n.id : "") : "?";
	new PerformanceObserver(list => shifts.push(...list.getEntries())).observe({type: "layout-shift", buffered: true});
	new PerformanceObserver((list, observer) => {
		const paint = list.getEntries().find(e => e.name === "first-contentful-paint");
		if (!paint) return;
		observer.disconnect();
		requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => {
			const largest = shifts.filter(s => !s.hadRecentInput).reduce((a, b) => b.value > a.value ? b : a,
				{value: 0, sources: []});
			resolve({paint: paint.startTime, shift: largest.value, at: largest.sources.map(s => name(s.node)).join(" ")});
		})));
	}).observe({type: "paint", buffered: true});
})`

// Vitals waits until the document is painted and returns its measurements.
func (p *Page) Vitals() Vitals {
	p.t.Helper()
	v := Eval[struct {
		Paint float64 `json:"paint"` // milliseconds
		Shift float64 `json:"shift"`
		At    string  `json:"at"`
	}](p, vitalsScript)
	return Vitals{FirstPaint: time.Duration(v.Paint * float64(time.Millisecond)), LargestShift: v.Shift, ShiftedAt: v.At}
}
