package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"

	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	benchEvents, benchSources = 1000, 10 // of the small database; the large one has the same quotient
	benchRequests             = 50       // requests of each list in one round
	// longerRounds is how many times as many requests repeat a measurement that missed
	// its limit, because other work on the machine makes single lists look slow.
	longerRounds = 4
	maxListRatio = 2.0 // p99 in the large database over p99 in the small one
)

// BenchmarkLists measures every list of the API in a database of BENCH_EVENTS events
// and in a small one, one request to each in turn. The last line is the list with the
// worst ratio.
func BenchmarkLists(b *testing.B) {
	events := measure.Size(b, "BENCH_EVENTS", 10_000)
	small, large := newBenchServer(b, benchEvents, benchSources), newBenchServer(b, events, events*benchSources/benchEvents)
	small.must(small.InsertAll(b.Context()))
	large.must(large.InsertAll(b.Context()))
	largeCases := large.listCases(events)
	var slowest measure.Ratio
	for i, c := range small.listCases(benchEvents) {
		b.Run(strings.ReplaceAll(c.name, ", ", "/"), func(b *testing.B) {
			p := &listPair{small: small.list(b, c), large: large.list(b, largeCases[i])}
			if p.small.items != p.large.items {
				b.Fatalf("%d rows in the small database, %d in the large one", p.small.items, p.large.items)
			}
			p.request(benchRequests) // warm up
			p.small.times, p.large.times = nil, nil
			for b.Loop() {
				p.request(benchRequests)
			}
			if samples := len(p.small.times); p.ratio(99) > maxListRatio {
				p.small.times, p.large.times = nil, nil
				p.request(longerRounds * samples)
			}
			p.report(b)
			if p.ratio(99) > slowest.Value {
				slowest = measure.AtMost(fmt.Sprintf("slowest list (%s), p99 among %d events / %d", c.name, events, benchEvents),
					p.ratio(99), maxListRatio)
			}
		})
	}
	b.Run("slowest", func(b *testing.B) {
		for b.Loop() { // nothing: the lists above are measured
		}
		b.ReportMetric(0, "ns/op")
		slowest.Report(b, "p99_slower_than_small")
	})
}

// listPair is one list in both databases.
type listPair struct{ small, large *timedList }

// timedList is a list in one database, with the times of its responses.
type timedList struct {
	*benchServer
	path  string
	items int
	times []time.Duration
}

// list requests a list once. It resolves the cursor of a second page.
func (s *benchServer) list(b *testing.B, c listCase) *timedList {
	b.Helper()
	l := &timedList{benchServer: &benchServer{B: b, Database: s.Database, url: s.url}, path: c.url()}
	page := l.page()
	if c.secondPage {
		if page.NextCursor == nil {
			b.Fatal("there is no second page")
		}
		l.path += "&cursor=" + *page.NextCursor
		page = l.page()
	}
	l.items = len(page.Items)
	return l
}

func (l *timedList) page() (p page) {
	l.Helper()
	l.must(json.Unmarshal(l.request(http.MethodGet, l.path, nil), &p))
	return p
}

// request requests both lists in turn, n times each.
func (p *listPair) request(n int) {
	for range n {
		for _, l := range []*timedList{p.small, p.large} {
			start := time.Now()
			l.request(http.MethodGet, l.path, nil)
			l.times = append(l.times, time.Since(start))
		}
	}
}

func (p *listPair) ratio(percent int) float64 {
	return float64(measure.Percentile(p.large.times, percent)) / float64(measure.Percentile(p.small.times, percent))
}

func (p *listPair) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // of no use: one operation is many requests
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(measure.Percentile(p.large.times, percent).Microseconds()), fmt.Sprintf("p%d_µs", percent))
		b.ReportMetric(p.ratio(percent), fmt.Sprintf("p%d_slower_than_small", percent))
	}
}
