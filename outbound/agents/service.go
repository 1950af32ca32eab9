package agents

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/roundrobin"
	"github.com/eventhook/eventhook/internal/wake"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

// Transport composes the requests to one destination. Safe for concurrent use.
type Transport interface {
	// Compose returns the request of an attempt, ready to be sent; nil if it cannot be composed,
	// for the reason in the attempt.
	Compose(ctx context.Context, d *eventhook.Delivery, attempt int) (*http.Request, eventhook.Attempt)
	// Complete returns the result of an attempt with the class and the text of its status, and
	// without secrets. isRenewed says that the receiver has rejected credentials that the next
	// request has renewed.
	Complete(r send.Reported) (a eventhook.Attempt, isRenewed bool)
}

// Destinations lists the destinations of a tenant that have target labels, usually from memory.
// Safe for concurrent use.
type Destinations interface {
	ForAgents(ctx context.Context, tenant eventhook.TenantID) ([]outbound.Destination, error)
}

// Observer counts claims, and the attempts and outcomes that agents report.
type Observer interface {
	Attempted(class eventhook.ErrorClass, took time.Duration)
	SettledDeliveries(batch []*outbound.DeliverySettlement, lost int, took time.Duration)
	// AgentsClaimed is called after each claim with the number of leased deliveries, and how
	// many of them were taken over after the lease of another claim had expired.
	AgentsClaimed(deliveries, takenOver int)
	// AgentsReported is called with the numbers of results that were stored, and of results whose
	// lease was lost.
	AgentsReported(stored, lost int)
}

// Deps are the dependencies of a Service. Chance returns random numbers between 0 and 1.
type Deps struct {
	Queue        Queue
	Destinations Destinations
	Directory    outbound.Directory
	Observer     Observer
	Log          *slog.Logger
	Now          func() time.Time
	Chance       func() float64
}

// Service serves the claims and the results of agents. Safe for concurrent use.
type Service struct {
	Deps
	config  outbound.Config
	tenants *roundrobin.Queues[eventhook.TenantID, struct{}] // one claim of a tenant at a time
	reports *batch.Committer[*report]

	mu       sync.Mutex
	gates    *lru.Cache[eventhook.DestinationID, *schedule.Gate]     // guarded by mu
	probes   *lru.Cache[eventhook.DestinationID, *circuitProbe]      // guarded by mu
	served   *lru.Cache[eventhook.TenantID, eventhook.DestinationID] // the last one that was claimed; guarded by mu
	probedAt *lru.Cache[waitKey, time.Time]                          // guarded by mu
	sizes    *lru.Cache[leaseKey, int]                               // of the bodies that agents hold; for traces
	waiting  map[waitKey]*waitingClaims                              // guarded by mu
	reported map[eventhook.TenantID]int                              // results that wait for the database; guarded by mu
	dueAt    time.Time                                               // the next known retry; guarded by mu
	look     wake.Signal                                             // claims wait
	sooner   wake.Signal                                             // dueAt is earlier
}

// leaseKey identifies a lease of a delivery.
type leaseKey struct {
	id    eventhook.DeliveryID
	token int64
}

const (
	maxGates   = 20_000
	maxSizes   = 20_000
	maxServed  = 10_000
	maxReports = 10_000 // results that wait for the database
)

// New returns a Service. Run starts it. It uses PollInterval, BatchSize and MaxAge of the
// configuration.
func New(config outbound.Config, deps Deps) *Service {
	s := &Service{Deps: deps, config: config, tenants: roundrobin.NewQueues[eventhook.TenantID, struct{}](1),
		waiting: map[waitKey]*waitingClaims{}, reported: map[eventhook.TenantID]int{}, look: wake.New(1), sooner: wake.New(1)}
	s.gates, _ = lru.New[eventhook.DestinationID, *schedule.Gate](maxGates)                                                         // the error is for sizes below 1
	s.probedAt, _ = lru.New[waitKey, time.Time](maxServed)                                                                          // as above
	s.probes, _ = lru.New[eventhook.DestinationID, *circuitProbe](maxGates)                                                         // as above
	s.served, _ = lru.New[eventhook.TenantID, eventhook.DestinationID](maxServed)                                                   // as above
	s.sizes, _ = lru.New[leaseKey, int](maxSizes)                                                                                   // as above
	s.reports = batch.New(batch.Bounds{Writers: 2, BatchRows: config.BatchSize, BatchBytes: 1 << 30, OverlapRows: config.BatchSize, //nolint:mnd // one, and one while it is slow
		QueueRows: maxReports, QueueBytes: 1 << 30}, s.commit)
	return s
}

// Run stores results and wakes waiting claims until ctx ends. Its error is always nil. Call Run
// once, and end ctx after the last request.
func (s *Service) Run(ctx context.Context) error {
	var waits sync.WaitGroup
	defer waits.Wait()
	waits.Go(panics.Guarded(func() { s.wakeLoop(ctx) }))
	return s.reports.Run(ctx)
}

// takeSize returns the size of the body that an agent got with a lease; -1 if this instance does not
// know it.
func (s *Service) takeSize(h *Held) int64 {
	key := leaseKey{h.ID, h.Lease.Token}
	size, ok := s.sizes.Peek(key)
	if !ok {
		return -1
	}
	s.sizes.Remove(key)
	return int64(size)
}

// gate calls f with the gate of a destination, whose configuration it applies.
func (s *Service) gate(to schedule.Destination, f func(g *schedule.Gate)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.gateLocked(to))
}

func (s *Service) gateLocked(to schedule.Destination) *schedule.Gate {
	to.Ready = true // for the agents
	g, ok := s.gates.Get(to.ID)
	if !ok {
		g = schedule.NewGate(to)
		s.gates.Add(to.ID, g)
	}
	g.Configure(to, s.Now())
	return g
}
