// Package ingest is the tenant's URL: it limits, verifies and answers webhooks.
// A verified webhook becomes an event. The Handoff plans the event if it can do so at
// once, and the Batcher stores it, with its plan, in the transaction of its batch. A 200
// means that the event is on disk. An event that was stored without a plan is handed to
// this instance's processor after the commit.
//
// In the steady state a request reads nothing from the database. Refused requests are
// counted, and an eventhook.Rejection is kept of the last ones of each source, without
// their content.
package ingest

import (
	"net/netip"
	"time"

	"github.com/eventhook/eventhook"
)

// Config bounds the accept path.
type Config struct {
	Writers          int           `config:"writers"`             // commits at once
	BatchEvents      int           `config:"batch_events"`        // events in one commit, at most
	BatchBytes       int           `config:"batch_bytes"`         // and their bytes
	OverlapEvents    int           `config:"overlap_events"`      // so many must wait for a commit to begin beside another
	QueueEvents      int           `config:"queue_events"`        // events that wait for a commit; more are shed
	QueueBytes       int           `config:"queue_bytes"`         // and their bytes
	InFlightBytes    int64         `config:"in_flight_bytes"`     // memory of requests being read or stored; more are shed
	MinBodyRate      int           `config:"min_body_rate"`       // bytes of a body in a second, on average; slower ones are refused
	MinBodyRateAfter time.Duration `config:"min_body_rate_after"` // before the rate counts
	CommitTimeout    time.Duration `config:"commit_timeout"`      // then a commit has failed
	CachedSources    int           `config:"cached_sources"`      // sources kept in memory
	ForgeriesPerSec  float64       `config:"forgeries_per_sec"`   // refused requests answered 401, per client; more get 429
	ForgeriesBurst   int           `config:"forgeries_burst"`
	// UnverifiedWorkPerSec bounds the work for requests to one source that are
	// not verified, in units of about 50 µs; a tenant has twice as much.
	UnverifiedWorkPerSec int      `config:"unverified_work_per_sec"`
	TrustedProxies       []string `config:"-"` // CIDRs whose X-Forwarded-For is believed
	PublicURL            string   `config:"-"`
}

// DefaultConfig suits two cores and a database on the same machine.
func DefaultConfig() Config {
	return Config{Writers: 2, BatchEvents: 256, BatchBytes: 8 << 20, OverlapEvents: 48, QueueEvents: 10_000, QueueBytes: 128 << 20,
		InFlightBytes: 256 << 20, MinBodyRate: 1 << 10, MinBodyRateAfter: 5 * time.Second, CommitTimeout: 10 * time.Second, CachedSources: 100_000, ForgeriesPerSec: 20, ForgeriesBurst: 50,
		UnverifiedWorkPerSec: 2000}
}

// Validate reports every fault by its key. It changes nothing.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	for _, v := range []struct {
		key          string
		value, least int64
	}{
		{"writers", int64(c.Writers), 1}, {"batch_events", int64(c.BatchEvents), 1}, {"batch_bytes", int64(c.BatchBytes), 1}, {"overlap_events", int64(c.OverlapEvents), 1},
		{"queue_events", int64(c.QueueEvents), 1}, {"queue_bytes", int64(c.QueueBytes), 1},
		{"in_flight_bytes", c.InFlightBytes, 3 * eventhook.LargestMaxBodyBytes}, // the largest body, its copy, and others beside it
		{"min_body_rate", int64(c.MinBodyRate), 0},
		{"cached_sources", int64(c.CachedSources), 1}, {"forgeries_burst", int64(c.ForgeriesBurst), 1},
		{"unverified_work_per_sec", int64(c.UnverifiedWorkPerSec), 100},
	} {
		if v.value < v.least {
			f.Add(v.key, "%d, want at least %d", v.value, v.least)
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
	f.Merge("", c.ValidateProxies())
	return f
}

// ValidateProxies is the part of Validate that is about TrustedProxies.
func (c Config) ValidateProxies() eventhook.Faults {
	var f eventhook.Faults
	for _, p := range c.TrustedProxies {
		if _, err := netip.ParsePrefix(p); err != nil {
			f.Add("trusted_proxies", "%q is not a CIDR such as 10.0.0.0/8", p)
		}
	}
	return f
}
