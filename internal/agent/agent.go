package agent

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/internal/panics"
)

// Gateway is the part of the API that an agent calls. Its errors are the errors of client.Client.
type Gateway interface {
	ClaimDeliveries(ctx context.Context, tenant string, body client.AgentClaimRequest, options ...client.CallOption) (client.AgentClaimAnswer, error)
	ReportDeliveries(ctx context.Context, tenant string, body client.AgentResults, options ...client.CallOption) (client.AgentResultsAnswer, error)
	ReportDelivery(ctx context.Context, tenant, id string, body client.AgentResult, options ...client.CallOption) error
}

// Exchanger makes requests to destinations; see egress.Client.Exchange. Safe for concurrent use.
type Exchanger interface {
	Exchange(ctx context.Context, request *http.Request, maxBytes int) (status int, header http.Header, beginning []byte, err error)
}

// Agent claims deliveries and sends them. Create it with New, and call Run once.
type Agent struct {
	config       Config
	gateway      Gateway
	destinations Exchanger
	log          *slog.Logger
	metrics      *metrics
	state        *state
	background   []func(ctx context.Context) // run until the agent has stopped

	slots      chan struct{} // one element for each request that may be started; a claim takes them while it waits
	requests   atomic.Int64  // that have been claimed and have not ended
	unreported chan struct{} // one element for each result that may wait besides
	deliveries sync.WaitGroup
	reports    *batch.Committer[*report]
}

// reportGrace is the time to report results after the running requests were cancelled.
const reportGrace = 5 * time.Second

// New returns an agent. It reads the files of certificates and makes no connection. The key is the agent's API key; no error and no line of the log contains it. A nil
// resolver is the resolver of the system.
func New(c Config, key string, log *slog.Logger, resolver *net.Resolver) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	files, err := loadCertificates(c, log)
	if err != nil {
		return nil, err
	}
	transport := &gatewayTransport{connections: maxReports + 1, wait: c.claimWait()}
	api, err := transport.newClient(c, key)
	if err != nil {
		return nil, err
	}
	to := &destinations{allowed: c.Allow, resolver: resolver}
	use := func(m material) { transport.use(m); to.use(m) }
	use(files.current())
	a := newAgent(c, api, to, log)
	a.background = append(a.background, func(ctx context.Context) { files.watch(ctx, use) })
	if files.own != nil {
		a.metrics.watchCertificate(files.own.ExpiresAt)
	}
	return a, nil
}

// maxReports is the number of calls at once that report results.
const maxReports = 2

func newAgent(c Config, gateway Gateway, to Exchanger, log *slog.Logger) *Agent {
	const minUnreported = 100
	a := &Agent{config: c, gateway: gateway, destinations: to, log: log, state: &state{},
		slots: make(chan struct{}, c.Concurrency), unreported: make(chan struct{}, max(c.Concurrency, minUnreported))}
	a.metrics = newMetrics(a)
	a.reports = batch.New(batch.Bounds{Writers: maxReports, BatchRows: maxBatch, BatchBytes: math.MaxInt,
		OverlapRows: maxBatch / 2, QueueRows: math.MaxInt, QueueBytes: math.MaxInt}, a.commit) //nolint:mnd // a half
	release(a.slots, c.Concurrency)
	release(a.unreported, cap(a.unreported))
	return a
}

// Run claims and sends deliveries until ctx ends, and then stops gracefully: it claims no more,
// waits for the running requests for up to c.StopTimeout, and reports what was answered, for up to
// another 10 s. A request that is cancelled then is not reported: its delivery goes to another agent
// when its lease ends. Run returns nil, the error of a gateway that rejects the agent, or an error if
// it cannot listen on c.Listen.
func (a *Agent) Run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running, err := a.runBackground(background)
	if err != nil {
		return err
	}
	sending, stopSending := lifetime.Extend(ctx, a.config.StopTimeout)
	defer stopSending()
	reporting, stopReporting := lifetime.Extend(ctx, a.config.StopTimeout+reportGrace)
	defer stopReporting()
	defer context.AfterFunc(ctx, a.state.stop)()
	err = a.claimAll(ctx, sending, reporting)
	a.state.stop()
	a.log.Info("stopping: no more deliveries are claimed", "running", a.requests.Load())
	a.deliveries.Wait()
	stop()
	running.Wait()
	a.log.Info("stopped", "reported", a.state.reported.Load(), "unreported", a.state.unreported.Load())
	return err
}

// runBackground starts the functions that run until ctx ends.
func (a *Agent) runBackground(ctx context.Context) (running *sync.WaitGroup, err error) {
	all := append(a.background, func(ctx context.Context) { _ = a.reports.Run(ctx) })
	if a.config.Listen != "" {
		serve, err := a.listen(a.config.Listen)
		if err != nil {
			return nil, err
		}
		all = append(all, serve)
	}
	running = &sync.WaitGroup{}
	for _, run := range all {
		running.Go(panics.Guarded(func() { run(ctx) }))
	}
	return running, nil
}

// endRequest releases the slot of a delivery.
func (a *Agent) endRequest() {
	a.requests.Add(-1)
	release(a.slots, 1)
}

// acquire waits for an element of slots, and takes up to n of them. It returns 0 if ctx ends first.
func acquire(ctx context.Context, slots <-chan struct{}, n int) (taken int) {
	select {
	case <-ctx.Done():
		return 0
	case <-slots:
	}
	for taken = 1; taken < n; taken++ {
		select {
		case <-slots:
		default:
			return taken
		}
	}
	return taken
}

func release(slots chan<- struct{}, n int) {
	for range n {
		slots <- struct{}{}
	}
}
