package consolebudgets_test

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// firstPaint is the limit of a list.
const firstPaint = 300 * time.Millisecond

// listed is a page of the console with its first page of rows.
type listed struct{ name, path string }

// pagesOf lists the pages of a tenant whose statements read many rows.
func pagesOf(tenant, event string) []listed {
	base := "/console/t/" + tenant
	search := base + "/events/search?path=body.n&op=%24eq&value="
	return []listed{
		{"overview", base}, {"overview-of-a-day", base + "?window=24h"}, {"all-tenants", "/console"},
		{"all-tenants-of-a-day", "/console?window=24h"},
		{"events", base + "/events"}, {"events-of-a-source", base + "/events?source=source-000001"},
		{"dead-events", base + "/events?status=dead"}, {"event", base + "/events/" + event},
		{"search-that-finds", search + "1"}, {"search-that-finds-nothing", search + "2"},
		{"deliveries", base + "/deliveries"}, {"dead-deliveries", base + "/deliveries?status=dead"},
		{"dead-letters", base + "/deliveries/dead"},
		{"work", base + "/work"}, {"promises", base + "/promises"},
		{"audit", base + "/audit"}, {"audit-of-all", "/console/audit"},
		{"sources", base + "/sources"}, {"rejections", base + "/sources/source-000001/rejections"},
		{"subscriptions", base + "/subscriptions"}, {"keys", base + "/keys"}, {"event-types", base + "/types"},
		{"tenants", "/console/tenants"}, {"lookup", base + "/search?id=key-500"},
	}
}

// view is a measured view of a page: the time until the first byte, until the first paint, and until
// the results of a search; 0 for a page that appears with them.
type view struct{ server, paint, results time.Duration }

const (
	serverScript  = `(n => n.responseStart - n.requestStart)(performance.getEntriesByType("navigation")[0])`
	resultsScript = `performance.getEntriesByType("resource").find(e => e.initiatorType === "xmlhttprequest")?.responseEnd ?? 0`
)

func see(b *testing.B, p *browsertest.Page, url string) view {
	b.Helper()
	p.Open(url)
	if title := p.Text("h1"); title == "Not found" || title == "Something failed" || title == "The gateway is busy" {
		b.Fatalf("the page %s has the heading %q", url, title)
	}
	v := view{server: measured(p, serverScript), paint: p.Vitals().FirstPaint}
	p.WaitFor(`!document.querySelector("[data-results]")`)
	v.results = measured(p, resultsScript)
	return v
}

// measured returns the value of a script in milliseconds.
func measured(p *browsertest.Page, script string) time.Duration {
	return time.Duration(browsertest.Eval[float64](p, script) * float64(time.Millisecond))
}

// BenchmarkConsole measures the first page of each list among BENCH_EVENTS rows of each kind: the time
// of the server, and the first paint in a browser, whose limit is 300 ms. A cold view is the first
// after a restart of the gateway; the browser has the style sheet from the sign-in.
func BenchmarkConsole(b *testing.B) {
	events := measure.Size(b, "BENCH_EVENTS", 10_000)
	g := gatewaytest.Start(b)
	for _, page := range fill(b, g, "large", events) {
		b.Run(page.name, func(b *testing.B) {
			g.Kill()
			g.Restart()
			p := g.SignIn(b, gatewaytest.AdminKey, "/console")
			cold := see(b, p, g.URL+page.path)
			var server, paint, results []time.Duration
			for b.Loop() {
				v := see(b, p, g.URL+page.path)
				server, paint, results = append(server, v.server), append(paint, v.paint), append(results, v.results)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(milliseconds(cold.server), "cold-server-ms")
			b.ReportMetric(milliseconds(cold.paint), "cold-paint-ms")
			b.ReportMetric(milliseconds(median(server)), "server-ms")
			b.ReportMetric(milliseconds(median(paint)), "paint-ms")
			b.ReportMetric(milliseconds(slices.Max(paint)), "slowest-paint-ms")
			if late := median(results); late > 0 {
				b.ReportMetric(milliseconds(late), "results-ms")
			}
			if median(paint) > firstPaint {
				b.Logf("MISSED: the first paint takes %s, the limit is %s", median(paint), firstPaint)
			}
		})
	}
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
