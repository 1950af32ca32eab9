package consume

import "github.com/eventhook/eventhook"

// Config limits the sources that consume messages.
type Config struct {
	Sources int `config:"sources"` // the maximum that this instance consumes at once; 0: it consumes no source
}

// maxSources bounds the connections and the memory of an instance.
const maxSources = 10_000

// DefaultConfig returns the default limits.
func DefaultConfig() Config { return Config{Sources: 100} }

// Validate reports every fault by its key.
func (c Config) Validate() (f eventhook.Faults) {
	if c.Sources < 0 || c.Sources > maxSources {
		f.Add("sources", "%d, want 0 to %d", c.Sources, maxSources)
	}
	return f
}
