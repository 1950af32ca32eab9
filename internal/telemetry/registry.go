package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "eventhook"

// Type is the type of a metric.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"        // with classic buckets
	Latency   Type = "native histogram" // with classic and native buckets
)

// Family describes the series of one metric. Its declaration registers the metric and is its
// description in docs/metrics.md.
type Family struct {
	Name    string // without the prefix eventhook_
	Type    Type
	Help    string
	Look    string  // completes "Look at it when …"
	Note    string  // more paragraphs for the page, in Markdown
	Labels  []Label // in the order of the values of Series
	Series  [][]string
	Shared  bool   // describes the database, so that all instances show the same values
	Section string // the heading in the page
}

// Label is a label of a family. The series of Values exist from the start, at zero.
type Label struct {
	Name   string
	Values []string
	Open   string // the values that Values cannot list, and their bound; "" if there are none
}

// FullName returns the name with its prefix.
func (f Family) FullName() string { return namespace + "_" + f.Name }

func (f Family) labelNames() (names []string) {
	for _, l := range f.Labels {
		names = append(names, l.Name)
	}
	return names
}

// series returns the label values of the series that exist from the start: f.Series, or
// all combinations of the labels' values.
func (f Family) series() [][]string {
	if f.Series != nil {
		return f.Series
	}
	all := [][]string{{}}
	for _, l := range f.Labels {
		var longer [][]string
		for _, values := range all {
			for _, v := range l.Values {
				longer = append(longer, append(values[:len(values):len(values)], v))
			}
		}
		all = longer
	}
	return all
}

// registry registers families and lists them. Each method registers one family with the
// series that exist from the start.
type registry struct {
	*prometheus.Registry
	families []Family
	heading  string
}

// section begins a section of the page.
func (r *registry) section(heading string) { r.heading = heading }

func (r *registry) declare(t Type, f Family) Family {
	f.Type, f.Section = t, r.heading
	r.families = append(r.families, f)
	return f
}

func (r *registry) counter(f Family) prometheus.Counter {
	f = r.declare(Counter, f)
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: f.Name, Help: f.Help})
	r.MustRegister(c)
	return c
}

func (r *registry) counterVec(f Family) *prometheus.CounterVec {
	f = r.declare(Counter, f)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: f.Name, Help: f.Help}, f.labelNames())
	r.MustRegister(v)
	for _, values := range f.series() {
		v.WithLabelValues(values...)
	}
	return v
}

// counters is counterVec for one label.
func (r *registry) counters(f Family) *counters {
	return newChildren(r.counterVec(f), f.Labels[0].Values)
}

func (r *registry) gauge(f Family) prometheus.Gauge {
	f = r.declare(Gauge, f)
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: f.Name, Help: f.Help})
	r.MustRegister(g)
	return g
}

func (r *registry) gauges(f Family) *prometheus.GaugeVec {
	f = r.declare(Gauge, f)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: f.Name, Help: f.Help}, f.labelNames())
	r.MustRegister(v)
	for _, values := range f.series() {
		v.WithLabelValues(values...)
	}
	return v
}

func (r *registry) histogram(f Family, buckets []float64) prometheus.Histogram {
	h := r.newHistogram(r.declare(Histogram, f), prometheus.HistogramOpts{Buckets: buckets})
	return h.WithLabelValues().(prometheus.Histogram) //nolint:forcetypeassert // the observers of a vector of histograms are histograms
}

// histograms is histogram for one label.
func (r *registry) histograms(f Family, buckets []float64) *children[prometheus.Observer] {
	return newChildren(r.newHistogram(r.declare(Histogram, f), prometheus.HistogramOpts{Buckets: buckets}), f.Labels[0].Values)
}

// latency registers a histogram of seconds with classic and native buckets. Prometheus
// stores the native buckets if it scrapes them.
func (r *registry) latency(f Family) prometheus.Histogram {
	const growth, maxBuckets = 1.1, 160
	h := r.newHistogram(r.declare(Latency, f), prometheus.HistogramOpts{Buckets: latencyBuckets,
		NativeHistogramBucketFactor: growth, NativeHistogramMaxBucketNumber: maxBuckets, NativeHistogramMinResetDuration: time.Hour})
	return h.WithLabelValues().(prometheus.Histogram) //nolint:forcetypeassert // the observers of a vector of histograms are histograms
}

// latencyBuckets have a bound at 5 seconds, the objective of the latencies. Above an hour
// only retries and outages count.
var latencyBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600}

func (r *registry) newHistogram(f Family, o prometheus.HistogramOpts) *prometheus.HistogramVec {
	o.Namespace, o.Name, o.Help = namespace, f.Name, f.Help
	v := prometheus.NewHistogramVec(o, f.labelNames())
	r.MustRegister(v)
	for _, values := range f.series() {
		v.WithLabelValues(values...)
	}
	return v
}

// reading is a value that another part of the gateway owns and that each scrape reads. It is
// 0 until from is called.
type reading struct {
	read atomic.Pointer[func() float64]
}

func (r *reading) from(read func() float64) { r.read.Store(&read) }

func (r *reading) fromInt(read func() int) { r.from(func() float64 { return float64(read()) }) }

func (r *reading) value() float64 {
	if read := r.read.Load(); read != nil {
		return (*read)()
	}
	return 0
}

// gaugeReading registers a gauge that scrapes read.
func (r *registry) gaugeReading(f Family) *reading { return r.readings(Gauge, f)[""] }

// counterReading registers a counter that scrapes read.
func (r *registry) counterReading(f Family) *reading { return r.readings(Counter, f)[""] }

// readings registers a reading for each series, by its values joined with a comma.
func (r *registry) readings(t Type, f Family) map[string]*reading {
	f = r.declare(t, f)
	all := map[string]*reading{}
	for _, values := range f.series() {
		x, labels := &reading{}, prometheus.Labels{}
		for i, v := range values {
			labels[f.Labels[i].Name] = v
		}
		all[joined(values...)] = x
		if t == Counter {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: f.Name, Help: f.Help, ConstLabels: labels}, x.value))
			continue
		}
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: f.Name, Help: f.Help, ConstLabels: labels}, x.value))
	}
	return all
}
