// Package shares divides the time for evaluating tenants' expressions (filters,
// CEL, scripts, schemas, paths) between tenants.
//
// Every tenant has a Share of each instance: a bucket of steps (see package
// meter) that refills with time. An evaluation takes its steps from the bucket
// before it does the work, in slices of about one millisecond.
//
// There are two paths. On the quick path an evaluation has one slice, so that it
// delays no other tenant's work. An evaluation that needs more begins again on
// the slow path, with all steps that one event may take. There a tenant has one
// evaluation at a time, and one begins only when the bucket has the steps for
// all of it, so that what was begun is finished. Until then the event waits;
// a caller of the API waits for up to 5 s and is then refused.
package cpushare

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// Config is how large a tenant's share of one instance is.
type Config struct {
	Processors float64       `config:"processors"` // how fast the share refills; 0.5: half of a processor's time
	Burst      time.Duration `config:"burst"`      // the most that the share holds
	Tenants    int           `config:"tenants"`    // whose shares are kept in memory
}

// DefaultConfig suits two processors.
func DefaultConfig() Config { return Config{Processors: 0.5, Burst: 2 * time.Second, Tenants: 10_000} }

// leastBurst is what one event may take: a smaller bucket would never have it.
const leastBurst = meter.EventLimit * meter.StepTime

// Validate reports every fault by its key.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	const least, most = 0.01, 1000
	if !(c.Processors >= least && c.Processors <= most) {
		f.Add("processors", "%g, want %g to %d", c.Processors, least, most)
	}
	if c.Burst < leastBurst || c.Burst > time.Hour {
		f.Add("burst", "%s, want %s to 1h", c.Burst, leastBurst)
	}
	if c.Tenants < 1 {
		f.Add("tenants", "%d, want at least 1", c.Tenants)
	}
	return f
}

// Place is where an evaluation takes place, for the metrics.
type Place string

// The places.
const (
	Routes        Place = "routes"        // an event's routes
	Subscriptions Place = "subscriptions" // the filters of subscriptions
	Schemas       Place = "schemas"       // what the catalogue says about a published event
	Tests         Place = "tests"         // what a caller of the API tries out
)

// Outcome is what an Observer counts.
type Outcome string

// The outcomes.
const (
	Slow      Outcome = "slow"     // it needed more than a slice
	OverLimit Outcome = "too_much" // it was stopped at the limit of one event
	Waited    Outcome = "waited"   // the share was used up, and the event waits
	Refused   Outcome = "refused"  // the share was used up, and the caller was refused
)

// Observer counts evaluations that were not quick.
type Observer interface {
	Evaluated(place Place, outcome Outcome)
}

// Limiter has the share of each tenant. Safe for concurrent use.
type Limiter struct {
	config   Config
	observer Observer
	now      func() time.Time
	tenants  *lru.Cache[eventhook.TenantID, *Bucket]
	lines    *roundrobin.Queues[eventhook.TenantID, struct{}]
}

// New returns full shares. A nil observer counts nothing. A share that was not
// used for longer than the shares of config.Tenants other tenants is forgotten,
// and full when it is used again.
func New(config Config, observer Observer, now func() time.Time) *Limiter {
	tenants, err := lru.New[eventhook.TenantID, *Bucket](config.Tenants)
	if err != nil {
		panic(err) // Validate has refused it
	}
	return &Limiter{config: config, observer: observer, now: now, tenants: tenants, lines: roundrobin.NewQueues[eventhook.TenantID, struct{}](1)}
}

// Bucket returns a tenant's share.
func (s *Limiter) Bucket(tenant eventhook.TenantID) *Bucket {
	if share, ok := s.tenants.Get(tenant); ok {
		return share
	}
	fresh := newShare(s.config, s.now)
	if share, ok, _ := s.tenants.PeekOrAdd(tenant, fresh); ok {
		return share
	}
	return fresh
}

// Count tells the observer.
func (s *Limiter) Count(place Place, outcome Outcome) {
	if s.observer != nil {
		s.observer.Evaluated(place, outcome)
	}
}
