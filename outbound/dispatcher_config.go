package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Config sets the limits of the dispatcher.
type Config struct {
	SendsAtOnce         int           `config:"sends_at_once"`        // maximum number of sends in progress; one tenant uses at most half of them, and so do all retries together
	QueueDeliveries     int           `config:"queue_deliveries"`     // maximum number of leased deliveries in memory; one destination has at most an eighth
	QueueBytes          int           `config:"queue_bytes"`          // maximum number of bytes of their events
	BatchSize           int           `config:"batch_size"`           // deliveries claimed, and outcomes settled, in one transaction
	UnsettledDeliveries int           `config:"unsettled_deliveries"` // outcomes that wait for the database; at this number all sends stop
	PollInterval        time.Duration `config:"poll_interval"`        // how often to look for due deliveries without a notification
	DrainTimeout        time.Duration `config:"drain_timeout"`        // how long sends in progress may continue at a shutdown
	MaxAge              time.Duration `config:"max_age"`              // older deliveries become dead without being sent
}

// DefaultConfig returns limits for a machine with two cores.
func DefaultConfig() Config {
	return Config{SendsAtOnce: 512, QueueDeliveries: 20_000, QueueBytes: 64 << 20, BatchSize: 256, UnsettledDeliveries: 4096,
		PollInterval: time.Second, DrainTimeout: 10 * time.Second, MaxAge: 24 * time.Hour}
}

// Validate reports every fault by its key. SendsAtOnce may be 0: then this instance sends
// nothing, and other instances send all deliveries.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	for _, v := range []struct {
		key        string
		value, min int
	}{
		{"sends_at_once", c.SendsAtOnce, 0}, {"queue_deliveries", c.QueueDeliveries, 1}, {"queue_bytes", c.QueueBytes, 1},
		{"batch_size", c.BatchSize, 1}, {"unsettled_deliveries", c.UnsettledDeliveries, 1},
	} {
		if v.value < v.min {
			f.Add(v.key, "%d, want at least %d", v.value, v.min)
		}
	}
	for _, v := range []struct {
		key        string
		value, min time.Duration
	}{{"poll_interval", c.PollInterval, 10 * time.Millisecond}, {"drain_timeout", c.DrainTimeout, 0}, {"max_age", c.MaxAge, time.Minute}} {
		if v.value < v.min {
			f.Add(v.key, "%s, want at least %s", v.value, v.min)
		}
	}
	return f
}
