package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/tracing"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/route"
)

// Without a tracer, the functions below return what they are given, and nil interfaces.

func (g *gateway) ingestTracer() ingest.Tracer {
	if g.tracer == nil {
		return nil
	}
	return g.tracer
}

func (g *gateway) sendTracer() send.Tracer {
	if g.tracer == nil {
		return nil
	}
	return g.tracer
}

func (g *gateway) brokerTracer() brokers.Tracer {
	if g.tracer == nil {
		return nil
	}
	return g.tracer
}

// tracedStore records the commits of webhooks.
func (g *gateway) tracedStore(s ingest.Store) ingest.Store {
	if g.tracer == nil {
		return s
	}
	return tracing.Store{Store: s, Tracer: g.tracer}
}

// tracedPublishes records the commits of published events.
func (g *gateway) tracedPublishes(s outbound.PublishStore) outbound.PublishStore {
	if g.tracer == nil {
		return s
	}
	return tracing.PublishStore{PublishStore: s, Tracer: g.tracer}
}

// tracedPlans records plans and their effects.
func (g *gateway) tracedPlans(o route.Observer) route.Observer {
	if g.tracer == nil {
		return o
	}
	return planTracer{o, g.tracer}
}

type planTracer struct {
	route.Observer
	tracer *tracing.Tracer
}

func (t planTracer) Settled(batch []*effects.Settlement, lost int, took time.Duration) {
	t.Observer.Settled(batch, lost, took)
	t.tracer.Settled(batch)
}

func (t planTracer) Planned(batch []*effects.Settlement) {
	t.Observer.Planned(batch)
	t.tracer.Settled(batch)
}

// tracedWork notes the executions that requests start.
type tracedWork struct{ api.WorkStore }

func (w tracedWork) StartWork(ctx context.Context, x eventhook.Execution) (eventhook.Execution, bool, error) {
	x, started, err := w.WorkStore.StartWork(ctx, x)
	if err == nil && started {
		tracing.Started(ctx, &x)
	}
	return x, started, err
}

// tracedRoutes are the operations of the API that publish events or start work: the http.route by
// the path of the router.
var tracedRoutes = map[string]string{
	"/api/tenants/:tenant/eventhook/events": "/api/tenants/{tenant}/eventhook/events",
	"/api/tenants/:tenant/eventhook/work":   "/api/tenants/{tenant}/eventhook/work",
}

// traceAPI records the requests to tracedRoutes.
func (g *gateway) traceAPI(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		named := tracedRoutes[strings.TrimSuffix(c.Path(), "/")]
		r := c.Request()
		if named == "" || r.Method != http.MethodPost {
			return next(c)
		}
		span, ctx := g.tracer.Begin(r)
		c.SetRequest(r.WithContext(ctx))
		status := http.StatusInternalServerError // of a request that panics
		defer func() { span.End(r, named, c.Param("tenant"), status) }()
		err := next(c)
		status = c.Response().Status
		return err
	}
}

// maxExportAtStop bounds the time for which a slow collector delays a stop.
const maxExportAtStop = 5 * time.Second

// closeTracer exports the spans that have not been exported, for at most maxExportAtStop.
func (g *gateway) closeTracer() {
	if g.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(g.config.StopTimeout, maxExportAtStop))
	defer cancel()
	if err := g.tracer.Close(ctx); err != nil {
		g.log.Warn("some spans were not exported", "error", err)
	}
}
