package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// PublishConfig sets the limits of the Publisher and of the caches for matching.
type PublishConfig struct {
	Writers             int           `config:"writers"`              // maximum number of concurrent commits
	BatchRows           int           `config:"batch_rows"`           // maximum number of events and deliveries in one commit; a single event may exceed it
	BatchBytes          int           `config:"batch_bytes"`          // maximum number of bytes in one commit; a single event may exceed it
	OverlapRows         int           `config:"overlap_rows"`         // minimum of waiting rows for a commit to begin while another one runs
	QueueRows           int           `config:"queue_rows"`           // maximum number of events and deliveries that wait for a commit; more events get a 503
	QueueBytes          int           `config:"queue_bytes"`          // maximum number of bytes that wait for a commit
	CommitTimeout       time.Duration `config:"commit_timeout"`       // timeout of a commit
	CachedSubscriptions int           `config:"cached_subscriptions"` // maximum number in memory; the subscriptions of a single tenant may exceed it
	CachedEventTypes    int           `config:"cached_event_types"`   // maximum number in memory, with their schemas
}

// DefaultPublishConfig returns limits for a machine with two cores that also runs the
// database.
func DefaultPublishConfig() PublishConfig {
	return PublishConfig{Writers: 2, BatchRows: 2000, BatchBytes: 8 << 20, OverlapRows: 256, QueueRows: 100_000, QueueBytes: 128 << 20,
		CommitTimeout: 10 * time.Second, CachedSubscriptions: 100_000, CachedEventTypes: 10_000}
}

// Validate reports every fault by its key.
func (c PublishConfig) Validate() eventhook.Faults {
	var f eventhook.Faults
	for _, v := range []struct {
		key   string
		value int
	}{
		{"writers", c.Writers}, {"batch_rows", c.BatchRows}, {"batch_bytes", c.BatchBytes}, {"overlap_rows", c.OverlapRows}, {"queue_rows", c.QueueRows},
		{"queue_bytes", c.QueueBytes}, {"cached_subscriptions", c.CachedSubscriptions}, {"cached_event_types", c.CachedEventTypes},
	} {
		if v.value < 1 {
			f.Add(v.key, "%d, want at least 1", v.value)
		}
	}
	if c.CommitTimeout < time.Second {
		f.Add("commit_timeout", "%s, want at least 1s", c.CommitTimeout)
	}
	return f
}
