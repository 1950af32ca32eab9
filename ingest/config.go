// Package ingest serves the URLs of sources: it limits, verifies and answers webhooks.
//
// A request passes these steps; each can refuse it:
//
//	find the source      404 if it does not exist or is disabled
//	check the head       method, client address, rate limit, content type
//	read the body        within the memory limits; slow requests can be evicted
//	answer a handshake   before verification, if the provider does not sign it
//	verify               within the verification budgets
//	answer a handshake   if the provider signs it
//	build the event      idempotency key, event type, quota
//	store the event      by group commit
//
// A verified webhook becomes an event. If the Handoff can plan the event at once, the
// Batcher stores event and plan in the transaction of its batch. Otherwise the event is
// passed to the processor of this instance after the commit. A 200 means that the event is
// on disk; a 5xx or 429 asks the sender to retry.
//
// In the steady state a request reads nothing from the database. Refused requests are
// counted, and the latest ones of each source are stored as eventhook.Rejection, without
// their content. The package never stores an unverified request as an event.
package ingest

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/eventhook/eventhook"
)

// Config has the limits for accepting webhooks.
type Config struct {
	Writers          int           `config:"writers"`             // concurrent commits
	BatchEvents      int           `config:"batch_events"`        // maximum events of a commit
	BatchBytes       int           `config:"batch_bytes"`         // maximum bytes of a commit
	OverlapEvents    int           `config:"overlap_events"`      // minimum events in the queue for a commit to begin while another one runs
	QueueEvents      int           `config:"queue_events"`        // maximum events in the queue; more are shed
	QueueBytes       int           `config:"queue_bytes"`         // maximum bytes in the queue; more are shed
	InFlightBytes    int64         `config:"in_flight_bytes"`     // maximum memory of requests being read or stored; more are shed
	MinBodyRate      int           `config:"min_body_rate"`       // minimum average bytes per second of a body; slower requests are refused
	MinBodyRateAfter time.Duration `config:"min_body_rate_after"` // time from the start of a request until min_body_rate applies
	CommitTimeout    time.Duration `config:"commit_timeout"`      // after which a commit has failed
	CachedSources    int           `config:"cached_sources"`      // maximum sources in the cache
	ForgeriesPerSec  float64       `config:"forgeries_per_sec"`   // failed requests of a client that get a 401; more get a 429
	ForgeriesBurst   int           `config:"forgeries_burst"`     // of forgeries_per_sec
	// UnverifiedWorkPerSec limits the verification work for forged requests to one source,
	// in units of about 50 µs. A tenant can use twice as much.
	UnverifiedWorkPerSec int       `config:"unverified_work_per_sec"`
	Log                  LogConfig `config:"log"`
	TrustedProxies       []string  `config:"-"` // CIDRs of proxies whose X-Forwarded-For is trusted
	PublicURL            string    `config:"-"`
}

// DefaultConfig returns a Config for two cores and a database on the same machine.
func DefaultConfig() Config {
	return Config{Writers: 2, BatchEvents: 256, BatchBytes: 8 << 20, OverlapEvents: 48, QueueEvents: 10_000, QueueBytes: 128 << 20,
		InFlightBytes: 256 << 20, MinBodyRate: 1 << 10, MinBodyRateAfter: 5 * time.Second, CommitTimeout: 10 * time.Second, CachedSources: 100_000, ForgeriesPerSec: 20, ForgeriesBurst: 50,
		UnverifiedWorkPerSec: 2000, Log: DefaultLogConfig()}
}

// Validate reports every fault by its key.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	for _, v := range []struct {
		key        string
		value, min int64
	}{
		{"writers", int64(c.Writers), 1}, {"batch_events", int64(c.BatchEvents), 1}, {"batch_bytes", int64(c.BatchBytes), 1}, {"overlap_events", int64(c.OverlapEvents), 1},
		{"queue_events", int64(c.QueueEvents), 1}, {"queue_bytes", int64(c.QueueBytes), 1},
		{"in_flight_bytes", c.InFlightBytes, 3 * eventhook.LargestMaxBodyBytes}, // the largest body, its copy and other requests
		{"min_body_rate", int64(c.MinBodyRate), 0},
		{"cached_sources", int64(c.CachedSources), 1}, {"forgeries_burst", int64(c.ForgeriesBurst), 1},
		{"unverified_work_per_sec", int64(c.UnverifiedWorkPerSec), 100},
	} {
		if v.value < v.min {
			f.Add(v.key, "%d, want at least %d", v.value, v.min)
		}
	}
	if c.ForgeriesPerSec <= 0 {
		f.Add("forgeries_per_sec", "%g, want more than 0", c.ForgeriesPerSec)
	}
	if c.CommitTimeout < time.Second {
		f.Add("commit_timeout", "%s, want at least 1s", c.CommitTimeout)
	}
	if c.MinBodyRateAfter < time.Second {
		f.Add("min_body_rate_after", "%s, want at least 1s", c.MinBodyRateAfter)
	}
	f.Merge("log", c.Log.Validate())
	f.Merge("", c.ValidateProxies())
	return f
}

// ValidateProxies is the part of Validate for TrustedProxies.
func (c Config) ValidateProxies() eventhook.Faults {
	var f eventhook.Faults
	for i, p := range c.TrustedProxies {
		if _, err := netip.ParsePrefix(p); err != nil {
			f.Add(fmt.Sprintf("trusted_proxies[%d]", i), "is not a CIDR such as 10.0.0.0/8")
		}
	}
	return f
}
