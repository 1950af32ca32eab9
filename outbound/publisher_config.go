package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// PublishConfig bounds what is published and the memory that matching takes.
type PublishConfig struct {
	Writers             int           `config:"writers"`              // commits at once
	BatchRows           int           `config:"batch_rows"`           // events and deliveries in one commit; one event may have more
	BatchBytes          int           `config:"batch_bytes"`          // and their bytes
	OverlapRows         int           `config:"overlap_rows"`         // so many must wait for a commit to begin beside another
	QueueRows           int           `config:"queue_rows"`           // events and deliveries that wait for a commit; more are shed
	QueueBytes          int           `config:"queue_bytes"`          // and their bytes
	CommitTimeout       time.Duration `config:"commit_timeout"`       // then a commit has failed
	CachedSubscriptions int           `config:"cached_subscriptions"` // kept in memory; those of one tenant always
	CachedEventTypes    int           `config:"cached_event_types"`   // kept in memory, with their schemas
}

// DefaultPublishConfig suits two cores and a database on the same machine.
func DefaultPublishConfig() PublishConfig {
	return PublishConfig{Writers: 2, BatchRows: 2000, BatchBytes: 8 << 20, OverlapRows: 256, QueueRows: 100_000, QueueBytes: 128 << 20,
		CommitTimeout: 10 * time.Second, CachedSubscriptions: 100_000, CachedEventTypes: 10_000}
}

// Validate reports every fault by its key. It changes nothing.
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
