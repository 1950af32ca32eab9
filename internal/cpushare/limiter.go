// Package cpushare limits each tenant to a share of processor time for evaluating its expressions
// (filters, CEL, scripts, schemas, paths).
//
// Each instance has one Bucket per tenant: a token bucket of steps (see package meter) that refills
// with time. An evaluation takes steps from the bucket before it does the work, in slices of about
// one millisecond.
//
// There are two paths. On the quick path an evaluation gets one slice, so that it does not delay
// other tenants. An evaluation that needs more starts again on the slow path, with all steps that
// one event may take. There each tenant has one evaluation at a time. It starts only when the
// bucket has the steps for a whole event, and it is then never stopped for lack of steps. Until
// then an event is postponed; a caller of the API waits for up to 5 s and gets ErrBusy.
package cpushare

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// Config sets the size of a tenant's share of one instance.
type Config struct {
	Processors float64       `config:"processors"` // how fast the share refills; 0.5 is half of a processor's time
	Burst      time.Duration `config:"burst"`      // maximum time that the share holds
	Tenants    int           `config:"tenants"`    // how many tenants' shares are kept in memory
}

// DefaultConfig suits two processors.
func DefaultConfig() Config { return Config{Processors: 0.5, Burst: 2 * time.Second, Tenants: 10_000} }

// minBurst is the time for one event. A smaller bucket would never admit an evaluation on the slow
// path.
const minBurst = meter.EventLimit * meter.StepTime

// Validate reports every fault by its key.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	const least, most = 0.01, 1000
	if !(c.Processors >= least && c.Processors <= most) {
		f.Add("processors", "%g, want %g to %d", c.Processors, least, most)
	}
	if c.Burst < minBurst || c.Burst > time.Hour {
		f.Add("burst", "%s, want %s to 1h", c.Burst, minBurst)
	}
	if c.Tenants < 1 {
		f.Add("tenants", "%d, want at least 1", c.Tenants)
	}
	return f
}

// Place is the kind of evaluation, as a label of the metrics.
type Place string

// The places.
const (
	Routes        Place = "routes"        // the routes of an event
	Subscriptions Place = "subscriptions" // the filters of subscriptions
	Schemas       Place = "schemas"       // the schema of a published event
	Tests         Place = "tests"         // tests by a caller of the API
)

// Outcome is a result that an Observer counts.
type Outcome string

// The outcomes.
const (
	Slow      Outcome = "slow"     // the evaluation needed more than a slice
	OverLimit Outcome = "too_much" // it was stopped at the limit of one event
	Waited    Outcome = "waited"   // the share was used up, and the event was postponed
	Refused   Outcome = "refused"  // the share was used up, and the caller got ErrBusy
)

// Observer counts evaluations that did not end on the quick path.
type Observer interface {
	Evaluated(place Place, outcome Outcome)
}

// Limiter holds the bucket of each tenant. It is safe for concurrent use.
type Limiter struct {
	config   Config
	observer Observer
	now      func() time.Time
	tenants  *lru.Cache[eventhook.TenantID, *Bucket]
	queues   *roundrobin.Queues[eventhook.TenantID, struct{}]
}

// New returns a Limiter whose buckets are full. A nil observer counts nothing. The limiter keeps
// the buckets of the config.Tenants tenants that were used last. A tenant whose bucket was evicted
// gets a full one.
func New(config Config, observer Observer, now func() time.Time) *Limiter {
	tenants, err := lru.New[eventhook.TenantID, *Bucket](config.Tenants)
	if err != nil {
		panic(err) // Validate has refused it
	}
	return &Limiter{config: config, observer: observer, now: now, tenants: tenants, queues: roundrobin.NewQueues[eventhook.TenantID, struct{}](1)}
}

// Bucket returns a tenant's bucket.
func (s *Limiter) Bucket(tenant eventhook.TenantID) *Bucket {
	if share, ok := s.tenants.Get(tenant); ok {
		return share
	}
	fresh := newBucket(s.config, s.now)
	if share, ok, _ := s.tenants.PeekOrAdd(tenant, fresh); ok {
		return share
	}
	return fresh
}

// Count reports an outcome to the observer.
func (s *Limiter) Count(place Place, outcome Outcome) {
	if s.observer != nil {
		s.observer.Evaluated(place, outcome)
	}
}
