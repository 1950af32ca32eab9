package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/ingest/consume"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/certfile"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/httpguard"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/internal/tracing"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/outbound/replay"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/verify"
)

// gateway is one instance with all its parts.
type gateway struct {
	config      configs.Config
	database    *database
	keys        keys
	db          *pg.DB
	log         *slog.Logger
	public      net.Listener
	management  net.Listener
	certificate *certfile.Pair // of both listeners, or nil

	startedAt     time.Time
	stopping      chan struct{}    // closed when the stop begins
	hangups       <-chan os.Signal // SIGHUP, or nil
	metrics       *telemetry.Metrics
	tracer        *tracing.Tracer // nil without an endpoint
	meter         *usage.Meter
	cpuLimiter    *cpushare.Limiter
	keyUses       *api.KeyUses
	heartbeats    *api.AgentHeartbeats
	health        *telemetry.Management
	outage        *telemetry.Outage
	logLevel      *telemetry.LogLevel
	tenantSlugs   *tenantSlugs
	out           outside
	publishedKeys verify.Keys
	handler       *ingest.Handler
	batcher       *ingest.Batcher
	ingestLog     *ingestLog      // nil without a log in front of the database
	consumers     *consume.Runner // nil without the role ingest
	isPrepared    bool            // prepareStore has succeeded; used by one goroutine at a time
	process       *route.Processor
	subscribers   subscribers
	sessions      *session.Sessions // of the console
	logo          branding.Logo     // of the portal

	reread       func() (configs.Config, error) // reads the configuration again, or nil
	applyWhenFit func(context.Context) error    // applies files that could not be applied at the start, or nil
}

// newGateway opens the database and the listeners and connects the parts. It does
// not serve requests yet. Call run or close.
func newGateway(ctx context.Context, c configs.Config, log *slog.Logger) (g *gateway, err error) {
	c = forRoles(c)
	g = &gateway{config: c, log: log, startedAt: now(), stopping: make(chan struct{})}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.tracer, err = tracing.Open(ctx, version, log, now); err != nil {
		return g, input.Usagef("%s", err)
	}
	if g.logo, err = c.Portal.LoadLogo(); err != nil {
		return g, input.Usagef("%s", err)
	}
	if g.database, err = openDatabase(ctx, c, log); err != nil {
		return g, err
	}
	if g.keys, err = openKeys(c); err != nil {
		return g, err
	}
	if g.db, g.isPrepared, err = openStore(ctx, c, g.database, g.keys, log); err != nil {
		return g, err
	}
	if err := g.db.Fit(); err != nil && g.isPrepared {
		log.Error("this instance is not ready: it accepts no webhooks, seals no secrets and processes nothing", "error", err,
			"keys", g.keys.ring.KeyIDs())
	}
	if g.certificate, err = loadCertificate(c, log); err != nil {
		return g, err
	}
	if g.public, err = listen("listen", c.Listen); err != nil {
		return g, err
	}
	if g.management, err = listen("management_listen", c.ManagementListen); err != nil {
		return g, err
	}
	if g.config.PublicURL == "" {
		g.config.PublicURL = g.scheme() + terminal.Address(g.public.Addr())
		g.config.Ingest.PublicURL = g.config.PublicURL
	}
	return g, g.wire()
}

func listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %s (if the port is in use, choose another, or 0 for any): %w", key, address, err)
	}
	return l, nil
}

// localProcessor passes accepted events to the processor of this instance. Other
// instances are notified of events for which it has no capacity.
type localProcessor struct {
	*route.Processor
	db *pg.DB
}

func (p localProcessor) EventsLeft() { p.db.WakeEvents() }

// processObserver reports processed events to the metrics and the usage meter.
type processObserver struct {
	*telemetry.Metrics
	meter *usage.Meter
}

func (s processObserver) Settled(batch []*effects.Settlement, lost int, took time.Duration) {
	s.Metrics.Settled(batch, lost, took)
	s.meter.Settled(batch)
}

func (s processObserver) Planned(batch []*effects.Settlement) {
	s.Metrics.Planned(batch)
	s.meter.Settled(batch)
}

// wire creates the parts of the gateway and connects them.
func (g *gateway) wire() error {
	g.metrics = telemetry.NewMetrics()
	g.health = telemetry.NewManagement(g.metrics, g.ping, g.info)
	g.health.Profiler, g.health.Log = g.config.PProf, g.log
	g.wireMetrics()
	g.wireLog()
	if g.certificate != nil {
		g.metrics.WatchCertificate(g.certificate.ExpiresAt)
	}
	g.sessions = g.newSessions(session.Console, session.ConsoleCookies())
	g.keyUses = api.NewKeyUses()
	g.heartbeats = api.NewAgentHeartbeats(g.db, now)
	g.meter = usage.New(g.config.Ingest.CachedSources, g.db, g.log, now)
	g.cpuLimiter = cpushare.New(g.config.Evaluation, g.metrics, now)
	g.out = newOutside(g.config, g.log)
	g.wireSubscribers()
	settler := g.newSettler()
	g.process = route.New(g.config.Route, route.Deps{
		Queue: settler, Fanout: settler.fanout, Routing: g.db, Observer: g.tracedPlans(processObserver{g.metrics, g.meter}), Traces: g.tracer != nil, Log: g.log, Now: now, Lease: g.config.Lease(),
		CPULimiter: g.cpuLimiter, Target: g.out.compileTarget,
	})
	g.batcher = ingest.NewBatcher(g.config.Ingest, g.config.Lease(), g.tracedStore(settler), localProcessor{g.process, g.db}, g.metrics, g.log, now)
	if err := g.openIngestLog(); err != nil {
		return err
	}
	g.metrics.WatchUnreadable(g.db.Unreadable)
	if g.tracer != nil {
		g.tracer.ReadTenants(g.db.TenantSlugs)
		g.metrics.WatchSpans(g.tracer.Dropped)
	}
	g.metrics.WatchWaiting(g.batcher.Waiting)
	g.publishedKeys = g.out.keys()
	g.handler = ingest.NewHandler(g.config.Ingest, ingest.Deps{
		Sources: g.ingestSources(), Learner: g.db, Services: g.db, Ready: g.ingestReady, Keys: g.publishedKeys, Confirm: g.out.confirm,
		Meter: g.meter, Acceptor: g.acceptor(), Observer: g.metrics, Tracer: g.ingestTracer(), Log: g.log, Now: now,
	})
	g.metrics.WatchIngestMemory(g.handler.HeldBytes)
	g.wireConsumers()
	return nil
}

// router returns the handler of the public listener: ingest, the API and the console, as far as the
// instance has these roles. Other paths are answered 404.
func (g *gateway) router() http.Handler {
	e := g.newRouter()
	if g.config.HasRole(configs.RoleIngest) {
		g.handler.Register(e)
	}
	if g.config.HasRole(configs.RoleAPI) {
		g.registerAPI(e)
	}
	if g.config.HasRole(configs.RoleConsole) {
		g.registerConsole(e)
		g.registerPortal(e)
	}
	return e
}

func (g *gateway) newRouter() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = api.HandleError
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: g.logPanic}))
	if g.tracer != nil {
		e.Use(g.traceAPI)
	}
	return e
}

func (g *gateway) registerAPI(e *echo.Echo) {
	explainer := routeExplainer{g.db, g.out, g.cpuLimiter}
	api.Register(e, api.Deps{
		Events: g.db, Rejections: g.db, Work: tracedWork{g.db}, Promises: g.db, Admin: g.db, Keys: g.db, Handshakes: g.db,
		AdminKeys: g.keys.admin, AdminReadKeys: g.keys.adminRead, CursorKey: g.keys.ring.Derive("cursors"),
		Sources: g.db, RouteStore: g.db, CheckEngine: checkEngine, EventTypes: g.db, Usage: g.db, Overviews: g.db, System: systemStatus{g}, Agents: g.db, AgentDeliveries: g.subscribers.agents, Heartbeats: g.heartbeats,
		Subscriptions: g.db, Deliveries: g.db, Replays: replayStore{g.db, g.subscribers.replays},
		Publisher: apiPublisher{g.subscribers.publisher}, Receivers: g.receivers(), Quotas: g.meter,
		Configuration: configuration{g.config, g.db, explainer}, Explain: g.db, Routes: explainer, PublicURL: g.config.PublicURL,
		Lookups: g.db, DeadGroups: g.db, Sender: replay.Sender{Store: g.db}, PortalLinks: g.db, PortalKey: g.keys.ring.Derive("portal-links"),
		PublicKeys:    g.publishedKeys,
		ClientAddress: g.handler.Sender, KeyUses: g.keyUses, OnRefusal: g.metrics.APIRefused,
		OnWorkerAct: g.metrics.Worked, Stopping: g.stopping, Log: g.log, Now: now, Version: version, Limits: apiLimits(g.config),
	})
}

// logPanic logs a request that panicked, with the request id of the response.
func (g *gateway) logPanic(c echo.Context, err error, stack []byte) error {
	header := c.Response().Header()
	id := header.Get(ingest.RequestIDHeader)
	if id == "" {
		id = ingest.RequestIDOf(c.Request().Header, now())
		header.Set(ingest.RequestIDHeader, id)
	}
	trace, _, _ := ingest.TraceOf(c.Request().Header)
	panics.Count(panics.Request)
	g.log.Error("a request panicked", "request_id", id, "trace_id", trace, "error", err, "stack", string(stack))
	return err
}

// apiLimits are the limits of requests to the API. Tenants share the database
// connections for reads by round robin.
func apiLimits(c configs.Config) api.Limits {
	return api.Limits{Bytes: c.API.InFlightBytes, TenantBytes: c.API.TenantBytes, KeyBytes: c.API.KeyBytes,
		TenantRequests: c.API.TenantRequests, KeyRequests: c.API.KeyRequests, ListConns: c.Database.ListConns, WorkConns: c.Database.WorkConns}
}

// serverFor returns a server with timeouts for headers, bodies and answers, so that
// a slow client cannot hold resources for longer.
func (g *gateway) serverFor(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           httpguard.Handler(time.Now, h),
		ConnContext:       httpguard.ConnContext,
		ReadHeaderTimeout: g.config.Server.ReadHeaderTimeout,
		ReadTimeout:       g.config.Server.ReadTimeout,
		WriteTimeout:      120 * time.Second, // longer than the longest long poll
		IdleTimeout:       g.config.Server.IdleTimeout,
		MaxHeaderBytes:    256 << 10,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// run serves until ctx ends or a listener fails, and calls ready when requests are
// served. It stops the parts in the order in which an event passes them: it refuses
// new requests, answers the running ones, commits accepted and published events,
// processes the events in memory, ends deliveries in progress, and stops the
// background loops.
func (g *gateway) run(ctx context.Context, ready func()) error {
	defer g.close()
	if err := script.Confinement(); err != nil {
		g.log.Warn("scripts run without a system call filter; their other limits are in force", "reason", err)
	}
	failed := make(chan error, 2)
	public, management := g.serverFor(g.router()), g.serverFor(g.health.Handler())
	serve := func(s *http.Server, l net.Listener) {
		if err := s.Serve(g.guard(l)); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: %w", err)
		}
	}
	background := g.start(g.backgroundLoops()...)
	dispatch := g.start(g.subscribers.dispatcher.Run, g.subscribers.prober.Run)
	connections := g.start(g.subscribers.brokers.Run)
	process := g.start(g.process.Run)
	batches := g.start(g.batcher.Run, g.runIngestLog, g.subscribers.publisher.Run, g.subscribers.agents.Run, g.heartbeats.Run)
	consumers := g.start(g.runConsumers)
	go panics.Guarded(func() { serve(public, g.public) })()
	go panics.Guarded(func() { serve(management, g.management) })()
	g.log.Info("serving", "instance", g.db.Instance(), "roles", strings.Join(g.config.Roles, ","), "url", g.config.PublicURL)
	ready()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	g.log.Info("stopping: refusing new requests and finishing the running ones")
	g.health.Stopping()
	close(g.stopping)
	g.shutDown(public)
	consumers.stop()
	batches.stop()
	process.stop()
	dispatch.stop()
	connections.stop()
	background.stop()
	g.shutDown(management)
	g.log.Info("stopped")
	return err
}

// shutDown waits for running requests until the stop timeout and then closes their
// connections.
func (g *gateway) shutDown(s *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), g.config.StopTimeout)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		g.log.Warn("some requests did not end within the stop timeout; closing their connections", "error", err)
		_ = s.Close()
	}
}

// loops are goroutines that run until stop is called.
type loops struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// stop cancels the context of the loops and waits for their end.
func (l *loops) stop() {
	l.cancel()
	l.group.Wait()
}

// start starts each function in a goroutine of its own.
func (g *gateway) start(run ...func(context.Context) error) *loops {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loops{cancel: cancel}
	for _, r := range run {
		l.group.Go(panics.Guarded(func() {
			if err := r(ctx); err != nil {
				g.log.Error("a background loop ended", "error", err)
			}
		}))
	}
	return l
}

// close releases everything that newGateway opened.
func (g *gateway) close() {
	for _, l := range []net.Listener{g.public, g.management} {
		if l != nil {
			_ = l.Close() // Serve may have closed it
		}
	}
	g.closeTracer()
	if g.ingestLog != nil {
		g.ingestLog.Close()
	}
	if g.db != nil {
		g.db.Close()
	}
	if g.database != nil {
		g.database.close(g.log)
	}
}
