package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// scraper reads the metrics of instances.
type scraper struct {
	urls   []string
	client *http.Client
}

func newScraper(bases []string) (s scraper, err error) {
	const timeout, maxInstances = 5 * time.Second, 100
	if len(bases) > maxInstances {
		return s, input.Usagef("--management may be given %d times", maxInstances)
	}
	for _, base := range bases {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return s, input.Usagef("--management %q is not a URL such as http://localhost:9980", base)
		}
		s.urls = append(s.urls, u.JoinPath("metrics").String())
	}
	s.client = &http.Client{Timeout: timeout}
	return s, nil
}

// sample has the metrics of the instances that answered at one time.
type sample struct {
	at          time.Time
	instances   []map[string]*dto.MetricFamily
	unreachable []string // URLs
}

// scrape reads the metrics of all instances. It fails if no instance answers.
func (s scraper) scrape(ctx context.Context) (*sample, error) {
	got := &sample{at: time.Now()}
	var failed error
	for _, from := range s.urls {
		families, err := s.read(ctx, from)
		if err != nil {
			got.unreachable, failed = append(got.unreachable, from), err
			continue
		}
		got.instances = append(got.instances, families)
	}
	if len(got.instances) == 0 {
		return nil, failed
	}
	return got, nil
}

func (s scraper) read(ctx context.Context, from string) (map[string]*dto.MetricFamily, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, terminal.ConnectError(err, from, "no gateway's management listener answers at "+from+"; give its URL with --management")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s; give the URL of the management listener with --management", from, resp.Status)
	}
	const maxBytes = 64 << 20
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, resp.Body, maxBytes))
	if err == nil && !isGateway(families) {
		err = errors.New("it has no metrics of eventhook")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a gateway's management listener: %w", from, err)
	}
	return families, nil
}

func isGateway(families map[string]*dto.MetricFamily) bool {
	for name := range families {
		if strings.HasPrefix(name, metricPrefix) {
			return true
		}
	}
	return false
}

const metricPrefix = "eventhook_"

// each calls do for each series of a metric, with its labels.
func (s *sample) each(name string, do func(m *dto.Metric, label func(string) string)) {
	for _, families := range s.instances {
		for _, m := range families[metricPrefix+name].GetMetric() {
			do(m, func(wanted string) string {
				for _, l := range m.GetLabel() {
					if l.GetName() == wanted {
						return l.GetValue()
					}
				}
				return ""
			})
		}
	}
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// sums returns the sums of a metric over instances, by a label.
func (s *sample) sums(name, by string) map[string]float64 {
	sums := map[string]float64{}
	s.each(name, func(m *dto.Metric, label func(string) string) { sums[label(by)] += valueOf(m) })
	return sums
}

// most returns the largest value of a metric, for metrics that every instance reads from the
// database.
func (s *sample) most(name string) (most float64) {
	s.each(name, func(m *dto.Metric, _ func(string) string) { most = max(most, valueOf(m)) })
	return most
}

// least returns the smallest value of a metric.
func (s *sample) least(name string) float64 {
	least := math.Inf(1)
	s.each(name, func(m *dto.Metric, _ func(string) string) { least = min(least, valueOf(m)) })
	return least
}

// cumulative returns the counts of a histogram by the upper bounds of its buckets.
func (s *sample) cumulative(name string) map[float64]float64 {
	counts := map[float64]float64{}
	s.each(name, func(m *dto.Metric, _ func(string) string) {
		for _, b := range m.GetHistogram().GetBucket() {
			counts[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
		counts[math.Inf(1)] = counts[math.Inf(1)] + float64(m.GetHistogram().GetSampleCount()) - inInfinity(m)
	})
	return counts
}

// inInfinity returns the count of the bucket +Inf if the text format listed it, so that it is not
// counted twice.
func inInfinity(m *dto.Metric) float64 {
	for _, b := range m.GetHistogram().GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			return float64(b.GetCumulativeCount())
		}
	}
	return 0
}

// quantile returns a quantile of the observations between two samples of a histogram in seconds,
// or -1 without observations. It interpolates inside a bucket, as Prometheus does.
func quantile(q float64, before, after map[float64]float64) float64 {
	var bounds []float64
	for bound := range after {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	count := func(bound float64) float64 { return max(after[bound]-before[bound], 0) }
	if len(bounds) == 0 || count(bounds[len(bounds)-1]) == 0 {
		return -1
	}
	rank, lower, below := q*count(bounds[len(bounds)-1]), 0.0, 0.0
	for _, upper := range bounds {
		if n := count(upper); n >= rank {
			if math.IsInf(upper, 1) || n == below {
				return lower
			}
			return lower + (upper-lower)*(rank-below)/(n-below)
		}
		lower, below = upper, count(upper)
	}
	return lower
}

// rates returns the growth of a counter per second, by a label, without zeros. A counter that fell
// was restarted with its instance.
func rates(before, after *sample, name, by string) map[string]float64 {
	then, seconds := before.sums(name, by), after.at.Sub(before.at).Seconds()
	grown := map[string]float64{}
	for label, n := range after.sums(name, by) {
		if d := n - then[label]; d > 0 && seconds > 0 {
			grown[label] = d / seconds
		}
	}
	return grown
}

// total returns the sum of the rates of some labels, of all without labels.
func total(rates map[string]float64, labels ...string) (sum float64) {
	for label, rate := range rates {
		if len(labels) == 0 || slices.Contains(labels, label) {
			sum += rate
		}
	}
	return sum
}

// joined formats rates by label, the highest first.
func joined(rates map[string]float64, most int) string {
	names := make([]string, 0, len(rates))
	for name := range rates {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if rates[a] != rates[b] {
			return map[bool]int{true: -1, false: 1}[rates[a] > rates[b]]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names[:min(len(names), most)] {
		parts = append(parts, fmt.Sprintf("%s %s", name, number(rates[name])))
	}
	return strings.Join(parts, ", ")
}
