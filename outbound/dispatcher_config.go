package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Config bounds the dispatcher.
type Config struct {
	SendsAtOnce         int           `config:"sends_at_once"`        // sends in progress; half of them for one tenant alone, and for retries; a sixth for one destination alone
	QueueDeliveries     int           `config:"queue_deliveries"`     // leased deliveries in memory; an eighth of them for one destination
	QueueBytes          int           `config:"queue_bytes"`          // and their bytes
	BatchSize           int           `config:"batch_size"`           // deliveries claimed, and outcomes settled, in one transaction
	UnsettledDeliveries int           `config:"unsettled_deliveries"` // outcomes that wait for the database; beyond it nothing more is sent
	PollInterval        time.Duration `config:"poll_interval"`        // the backstop when no wake comes
	DrainTimeout        time.Duration `config:"drain_timeout"`        // at a stop, for sends in progress
	MaxAge              time.Duration `config:"max_age"`              // older deliveries are dead without being sent
}

// DefaultConfig suits two cores.
func DefaultConfig() Config {
	return Config{SendsAtOnce: 512, QueueDeliveries: 20_000, QueueBytes: 64 << 20, BatchSize: 256, UnsettledDeliveries: 4096,
		PollInterval: time.Second, DrainTimeout: 10 * time.Second, MaxAge: 24 * time.Hour}
}

// Validate reports every fault by its key. With SendsAtOnce 0 the instance leaves all
// deliveries to others.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	for _, v := range []struct {
		key          string
		value, least int
	}{
		{"sends_at_once", c.SendsAtOnce, 0}, {"queue_deliveries", c.QueueDeliveries, 1}, {"queue_bytes", c.QueueBytes, 1},
		{"batch_size", c.BatchSize, 1}, {"unsettled_deliveries", c.UnsettledDeliveries, 1},
	} {
		if v.value < v.least {
			f.Add(v.key, "%d, want at least %d", v.value, v.least)
		}
	}
	for _, v := range []struct {
		key          string
		value, least time.Duration
	}{{"poll_interval", c.PollInterval, 10 * time.Millisecond}, {"drain_timeout", c.DrainTimeout, 0}, {"max_age", c.MaxAge, time.Minute}} {
		if v.value < v.least {
			f.Add(v.key, "%s, want at least %s", v.value, v.least)
		}
	}
	return f
}
