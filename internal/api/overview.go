package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// OverviewStore reads overviews from counts and from the state of queues and resources, never from
// events one by one.
type OverviewStore interface {
	Overview(ctx context.Context, tenant eventhook.TenantID, w eventhook.TrafficWindow) (eventhook.Overview, error)
	// GatewayOverview is Overview for all tenants.
	GatewayOverview(ctx context.Context, w eventhook.TrafficWindow) (eventhook.Overview, error)
	// SourceTraffic returns the traffic of a source in a window.
	SourceTraffic(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID, w eventhook.TrafficWindow) (eventhook.Traffic, error)
	// WorkQueues returns the queues of a tenant that have open executions, at most 100, by name.
	WorkQueues(ctx context.Context, tenant eventhook.TenantID) ([]eventhook.WorkQueue, error)
}

// OverviewQuery selects the window of an overview.
type OverviewQuery struct {
	Window string `query:"window" enum:"1h,24h" default:"1h" doc:"The last hour in steps of a minute, or the last 24 hours in steps of 10 minutes."`
}

const aboutOverview = "Counts are sums over all instances, which write them every 2 seconds; a count belongs to the minute in which its instance noted it. " +
	"An instance that crashes loses its last seconds. Latencies are estimates from a histogram. Deliveries that expire unsent, " +
	"or end because their tenant is closed, are not counted as dead."

func (s *server) registerOverview(api huma.API) {
	get := func(id, path, summary, about string) operation {
		return operation{id: id, method: http.MethodGet, path: base + path, summary: summary, about: about, scope: eventhook.ScopeRead, tag: "overview"}
	}
	register(s, api, get("get-overview", "/overview", "Get an overview of a tenant",
		"Returns traffic, queues, what needs a person, and the state of sources and subscriptions. "+aboutOverview), s.getOverview)
	register(s, api, get("get-work-queues", "/work/queues", "Get the queues of executions",
		"Returns the queues that have open executions, by name; at most 100."), s.listWorkQueues)
	register(s, api, get("get-usage", "/usage", "Get the usage of a tenant's quotas", ""), s.getUsage)
	all := get("get-gateway-overview", "", "Get an overview of all tenants",
		"Like Get an overview of a tenant, with a list of tenants in place of sources and subscriptions. "+aboutOverview)
	all.path, all.scope, all.tag = "/api/admin/overview", "", "admin"
	register(s, api, all, s.getGatewayOverview)
}

type overviewInput struct {
	TenantPath
	OverviewQuery
}

type overviewAnswer struct{ Body Overview }

func (s *server) getOverview(ctx context.Context, by caller, in *overviewInput) (*overviewAnswer, error) {
	now := s.Now()
	w := in.at(now)
	x, err := s.Overviews.Overview(ctx, by.tenant, w)
	if err != nil {
		return nil, err
	}
	x.Attention = needed(x.Attention)
	out := Overview{OverviewPart: viewOverview(x, w, now, nil), SourcesCount: x.SourceCount, SubscriptionsCount: x.SubscriptionCount,
		Sources: make([]SourceOverview, len(x.Sources)), Subscriptions: make([]SubscriptionOverview, len(x.Subscriptions))}
	for i, v := range x.Sources {
		out.Sources[i] = viewSourceOverview(v)
	}
	for i, v := range x.Subscriptions {
		out.Subscriptions[i] = viewSubscriptionOverview(v)
	}
	return &overviewAnswer{out}, nil
}

type gatewayOverviewAnswer struct{ Body GatewayOverview }

func (s *server) getGatewayOverview(ctx context.Context, _ caller, in *OverviewQuery) (*gatewayOverviewAnswer, error) {
	now := s.Now()
	w := in.at(now)
	x, err := s.Overviews.GatewayOverview(ctx, w)
	if err != nil {
		return nil, err
	}
	x.Attention = needed(x.Attention)
	slugs, err := slugsOf(ctx, s, x.Attention, func(a eventhook.Attention) eventhook.TenantID { return a.TenantID })
	if err != nil {
		return nil, err
	}
	out := GatewayOverview{viewOverview(x, w, now, slugs), make([]TenantOverview, len(x.Tenants)), x.TenantCount}
	items := map[eventhook.TenantID]int{}
	for _, a := range x.Attention {
		items[a.TenantID]++
	}
	for i, t := range x.Tenants {
		out.Tenants[i] = TenantOverview{t.Slug, t.Name, string(t.Status), items[t.ID], viewTotals(t.Traffic)}
	}
	return &gatewayOverviewAnswer{out}, nil
}

// needed returns the items without handshakes whose secret is used without being revealed.
func needed(list []eventhook.Attention) []eventhook.Attention {
	return slices.DeleteFunc(list, func(a eventhook.Attention) bool {
		preset, _ := verify.FindPreset(a.Reason, "")
		return a.Type == eventhook.AttentionHandshake && !preset.ConfirmsSecret
	})
}

// at returns the window that ends at a time.
func (q OverviewQuery) at(now time.Time) eventhook.TrafficWindow {
	const minutes, tens = 60, 24 * 6
	if q.Window == "24h" {
		return eventhook.TrafficWindowAt(now, eventhook.TrafficMinutes, tens)
	}
	return eventhook.TrafficWindowAt(now, eventhook.TrafficMinute, minutes)
}

// viewOverview returns the common part of an overview. slugs are the slugs of tenants, nil in the
// overview of a tenant.
func viewOverview(x eventhook.Overview, w eventhook.TrafficWindow, now time.Time, slugs map[eventhook.TenantID]string) OverviewPart {
	step := time.Duration(w.Span)
	out := OverviewPart{AsOf: utc(now), WindowSeconds: int(w.Until.Sub(w.Since) / time.Second), StepSeconds: int(step / time.Second),
		Queues:    OverviewQueues{viewQueue(x.Queues.Events), viewQueue(x.Queues.Executions), viewQueue(x.Queues.Deliveries)},
		Attention: make([]AttentionItem, len(x.Attention))}
	var total eventhook.Traffic
	for at := w.Since; at.Before(w.Until); at = at.Add(step) {
		t := x.Series[at]
		total.Add(t)
		out.Series = append(out.Series, TrafficPoint{utc(at), viewTraffic(t)})
	}
	out.Totals = viewTotals(total)
	for i, a := range x.Attention {
		out.Attention[i] = viewAttention(a, slugs[a.TenantID])
	}
	return out
}
