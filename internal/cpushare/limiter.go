// Package cpushare limits each tenant to a share of processor time for evaluating its expressions
// (filters, CEL, scripts, schemas, paths).
//
// Each instance has one Bucket per tenant: a token bucket of steps (see package meter) that refills
// with time. An evaluation takes steps from the bucket before it does the work, in slices of about
// one millisecond.
//
// There are two paths. On the quick path an evaluation gets one slice, so that it does not delay
// other tenants. An evaluation that needs more starts again on the slow path, with all steps that
// one event may use. On the slow path each tenant has one evaluation at a time. The evaluation
// starts only when the bucket has the steps for a whole event, and is then never stopped for lack of
// steps. An event that cannot start is postponed. A caller of the API waits for up to 5 s and then
// gets ErrBusy.
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
	Processors float64       `config:"processors"` // rate at which the share refills; 0.5 is half of a processor's time
	Burst      time.Duration `config:"burst"`      // maximum processor time that the share holds
	Tenants    int           `config:"tenants"`    // maximum number of tenants whose shares are in memory
}

// DefaultConfig suits two processors.
func DefaultConfig() Config { return Config{Processors: 0.5, Burst: 2 * time.Second, Tenants: 10_000} }

// minBurst is the time for one event. A smaller bucket would never admit an evaluation on the slow
// path.
const minBurst = meter.EventLimit * meter.StepTime

// Validate reports every fault by its key.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	const minProcessors, maxProcessors = 0.01, 1000
	if isInRange := c.Processors >= minProcessors && c.Processors <= maxProcessors; !isInRange { // also for NaN
		f.Add("processors", "%g, want %g to %d", c.Processors, minProcessors, maxProcessors)
	}
	if c.Burst < minBurst || c.Burst > time.Hour {
		f.Add("burst", "%s, want %s to 1h", c.Burst, minBurst)
	}
	if c.Tenants < 1 {
		f.Add("tenants", "%d, want at least 1", c.Tenants)
	}
	return f
}

// Place is a part of the gateway that evaluates expressions; a label of the metrics.
type Place string

// The places.
const (
	Routes        Place = "routes"        // the routes of an event
	Subscriptions Place = "subscriptions" // the filters of subscriptions
	Schemas       Place = "schemas"       // the schema of a published event
	Transforms    Place = "transforms"    // the transforms of deliveries
	Tests         Place = "tests"         // tests by a caller of the API
)

// Outcome is a result that an Observer counts; a label of the metrics.
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

// New returns a Limiter whose buckets are full. observer may be nil. The limiter caches the buckets
// of the config.Tenants most recently used tenants. A tenant whose bucket was evicted gets a full
// one.
func New(config Config, observer Observer, now func() time.Time) *Limiter {
	tenants, err := lru.New[eventhook.TenantID, *Bucket](config.Tenants)
	if err != nil {
		panic(err) // Validate has refused it
	}
	return &Limiter{config: config, observer: observer, now: now, tenants: tenants, queues: roundrobin.NewQueues[eventhook.TenantID, struct{}](1)}
}

// Bucket returns a tenant's bucket.
func (l *Limiter) Bucket(tenant eventhook.TenantID) *Bucket {
	if bucket, ok := l.tenants.Get(tenant); ok {
		return bucket
	}
	fresh := newBucket(l.config, l.now)
	if bucket, ok, _ := l.tenants.PeekOrAdd(tenant, fresh); ok { // added by another goroutine
		return bucket
	}
	return fresh
}

// Count reports an outcome to the observer.
func (l *Limiter) Count(place Place, outcome Outcome) {
	if l.observer != nil {
		l.observer.Evaluated(place, outcome)
	}
}
