package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook/internal/panics"
)

// processMetrics describe the instance.
type processMetrics struct {
	build  *prometheus.GaugeVec
	ready  *reading
	roles  *prometheus.GaugeVec
	panics map[string]*reading
	free   *reading
	// certificate is the expiry of the TLS certificate.
	certificate *reading
	test        *testAlert
	spans       *reading
}

// Roles lists the roles of an instance.
var Roles = []string{"ingest", "api", "route", "dispatch", "console"}

func newProcessMetrics(r *registry) processMetrics {
	r.section("Instance")
	m := processMetrics{
		ready: r.gaugeReading(Family{Name: "ready", Help: "1 if /health/ready answers 200, else 0.",
			Look: "a load balancer sends an instance nothing. `/health/ready` names the reason."}),
		roles: r.gauges(Family{Name: "role", Help: "1 if the instance has the role, else 0.", Look: "a part of the gateway is missing: some instance needs each role.",
			Labels: []Label{{Name: "role", Values: Roles}}}),
		panics: r.readings(Counter, Family{Name: "panics_total", Help: "Panics that the gateway recovered from, by place. The work at fault fails; everything else continues.",
			Look: "it rises: this is a defect of the gateway. The log has the stack.", Labels: []Label{{Name: "place", Values: panicPlaces()}}}),
		build: r.gauges(Family{Name: "build_info", Help: "1, with the version, the revision of the source and the version of Go as labels.",
			Look: "several versions run during an upgrade.", Labels: []Label{{Name: "version", Open: "one"}, {Name: "revision", Open: "one; empty if unknown"}, {Name: "go", Open: "one"}}}),
		free: r.gaugeReading(Family{Name: "data_dir_free_bytes", Help: "Free space of the file system of the data folder; 0 if a database is configured with DATABASE_URL.",
			Look: "the gateway runs its private PostgreSQL. Watch the disk of a configured database on its own server."}),
		certificate: r.gaugeReading(Family{Name: "tls_certificate_expiry_seconds", Help: "When the TLS certificate in use expires, in seconds since 1970; 0 without TLS.",
			Look: "it is soon: the tool that renews the certificate failed, or wrote files that the gateway cannot use. The log has the error."}),
		spans: r.counterReading(Family{Name: "spans_dropped_total", Help: "Spans that were not exported, because their queue was full or the collector did not take them. Requests do not wait for spans.",
			Look: "traces have gaps: the collector is down, too slow, or refuses the spans. The log has the reason. Sampling reduces the number of spans: see [operations.md](operations.md#traces)."}),
		test: &testAlert{Gauge: r.gauge(Family{Name: "test_alert", Help: "1 for ten minutes after `POST /test-alert` at the management listener, else 0.",
			Look: "you test the way of an alert to your pager: see [operations.md](operations.md#eventhooktestalert)."})},
	}
	for _, p := range panics.Places() {
		m.panics[p.String()].from(func() float64 { return float64(panics.Total(p)) })
	}
	return m
}

func panicPlaces() (names []string) {
	for _, p := range panics.Places() {
		names = append(names, p.String())
	}
	return names
}

// WatchSpans sets the function that counts the spans that were not exported.
func (m *Metrics) WatchSpans(dropped func() int64) {
	m.process.spans.from(func() float64 { return float64(dropped()) })
}

// WatchCertificate sets the function that returns when the TLS certificate expires.
func (m *Metrics) WatchCertificate(expiresAt func() time.Time) {
	m.process.certificate.from(func() float64 { return float64(expiresAt().Unix()) })
}

// Instance describes the instance: its build, its roles, whether it is ready, and the free bytes
// for its data folder. Each scrape calls the functions.
type Instance struct {
	Version, Revision, Go string
	Roles                 []string
	Ready                 func() bool
	FreeBytes             func() float64 // may be nil
}

// WatchInstance sets the description of the instance.
func (m *Metrics) WatchInstance(i Instance) {
	m.process.build.WithLabelValues(i.Version, i.Revision, i.Go).Set(1)
	for _, role := range i.Roles {
		m.process.roles.WithLabelValues(role).Set(1)
	}
	m.process.ready.from(func() float64 {
		if i.Ready() {
			return 1
		}
		return 0
	})
	if i.FreeBytes != nil {
		m.process.free.from(i.FreeBytes)
	}
}
