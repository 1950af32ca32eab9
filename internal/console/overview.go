package console

import (
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var overviewPages = []page{
	{pattern: "GET /console", template: "overview_all", handle: (*Console).overviewAll},
	{pattern: "GET /console/t/{tenant}", template: "overview", handle: (*Console).overview, isLive: true},
}

// overviewPage is the data of the overview of a tenant, or of all tenants.
type overviewPage struct {
	AsOf          time.Time
	Window        string // 1h or 24h
	Hour, Day     string // addresses of the page with each window
	Attention     []attention
	Traffic       traffic
	Queues        client.OverviewQueues
	OldestQueue   float64 // age in seconds of the oldest due work
	Sources       []client.SourceOverview
	Subscriptions []client.SubscriptionOverview
	Tenants       []client.TenantOverview
	// MoreSources, MoreSubscriptions and MoreTenants are the numbers of those that the page omits.
	MoreSources, MoreSubscriptions, MoreTenants int64
	// Steps is the number of the window's seconds, for rates.
	Seconds float64
}

// overviewAll shows all tenants to an admin. Another person is sent to the overview of the tenant, or
// to the choice of one.
func (c *Console) overviewAll(r *request) (view, error) {
	if !r.isAdmin() {
		if tenant := r.lastTenant(); tenant != "" {
			return redirect(tenantBase(tenant), "")
		}
		return view{Title: "Choose a tenant", Page: "choose", Data: r.identity.Tenants}, nil
	}
	found, err := r.api.GetGatewayOverview(r.Context(), client.GetGatewayOverviewParams{Window: filterAs[client.GetGatewayOverviewParamsWindow](r, "window")})
	if err != nil {
		return view{}, err
	}
	page := newOverview(r, found.WindowSeconds, found.Queues, trafficOf(found.Series, found.Totals, found.StepSeconds))
	page.AsOf, page.Tenants, page.MoreTenants = found.AsOf, found.Tenants, found.TenantsCount-int64(len(found.Tenants))
	for _, item := range found.Attention {
		page.Attention = append(page.Attention, attention{AttentionItem: item, Base: tenantBase(orEmpty(item.Tenant)),
			IsAdmin: true, CanManage: r.can(needsAdmin)})
	}
	return view{Title: "All tenants", Data: page}, nil
}

func (c *Console) overview(r *request) (view, error) {
	found, err := r.api.GetOverview(r.Context(), r.tenant, client.GetOverviewParams{Window: filterAs[client.GetOverviewParamsWindow](r, "window")})
	if err != nil {
		return view{}, err
	}
	page := newOverview(r, found.WindowSeconds, found.Queues, trafficOf(found.Series, found.Totals, found.StepSeconds))
	page.AsOf = found.AsOf
	page.Sources, page.MoreSources = found.Sources, found.SourcesCount-int64(len(found.Sources))
	page.Subscriptions, page.MoreSubscriptions = found.Subscriptions, found.SubscriptionsCount-int64(len(found.Subscriptions))
	for _, item := range found.Attention {
		page.Attention = append(page.Attention, attention{AttentionItem: item, Base: r.base(),
			IsAdmin: r.isAdmin(), CanManage: r.can("manage")})
	}
	return view{Title: "Overview", Data: page}, nil
}

func newOverview(r *request, windowSeconds int64, queues client.OverviewQueues, t traffic) overviewPage {
	const hour = 3600
	page := overviewPage{Window: "1h", Hour: r.with("window", ""), Day: r.with("window", "24h"), Traffic: t, Queues: queues, Seconds: float64(windowSeconds)}
	if windowSeconds > hour {
		page.Window = "24h"
	}
	page.OldestQueue = max(queues.Events.OldestAgeSeconds, queues.Executions.OldestAgeSeconds, queues.Deliveries.OldestAgeSeconds)
	return page
}

// Span names the window.
func (p overviewPage) Span() string {
	if p.Window == "1h" {
		return "1 h"
	}
	return "24 h"
}

// Rate returns a count of the window per second.
func (p overviewPage) Rate(count int64) float64 { return float64(count) / p.Seconds }

// attention is something that needs a person, with the path of the tenant's pages.
type attention struct {
	client.AttentionItem
	Base    string
	IsAdmin bool // who may open the page of the tenant
	// CanManage is true for a person who may do what the item asks for.
	CanManage bool
}

// Cause is the reason of an item in the words of the pages; "" if the summary has it.
func (a attention) Cause() string {
	switch a.Type {
	case client.AttentionItemTypeRequestsRefused:
		return remedyOf(a.Reason).Title
	case client.AttentionItemTypeQuotaNearlyUsed:
		return ""
	default:
		return a.Reason
	}
}

// Act is what a person does first about an attention item.
func (a attention) Act() string {
	switch {
	case a.Type == client.AttentionItemTypeRequestsRefused:
		return "See why"
	case a.Type == client.AttentionItemTypeDeliveriesDead:
		return "See causes"
	case !a.CanManage:
		return "Open"
	case a.Type == client.AttentionItemTypeSubscriptionDisabled, a.Type == client.AttentionItemTypeCircuitOpen:
		return "Recover"
	case a.Type == client.AttentionItemTypeHandshakeWaiting:
		return "Finish set-up"
	}
	return "Open"
}

// Href is the page on which a person deals with an attention item; "" if the person may open none.
func (a attention) Href() string {
	id := url.PathEscape(a.ResourceID)
	switch {
	case a.Type == client.AttentionItemTypeDeliveriesDead:
		return a.Base + "/deliveries/dead"
	case a.Type == client.AttentionItemTypeExecutionsDead && id != "":
		return a.Base + "/work/" + id
	case a.Type == client.AttentionItemTypeExecutionsDead:
		return a.Base + "/work?status=dead"
	case a.ResourceType == client.AttentionItemResourceTypeTenant:
		return a.tenantHref()
	case a.ResourceType == client.AttentionItemResourceTypeSource && id != "":
		return a.Base + "/sources/" + id
	case a.ResourceType == client.AttentionItemResourceTypeSubscription && id != "":
		return a.Base + "/subscriptions/" + id
	case a.ResourceType == client.AttentionItemResourceTypeAgent && id != "":
		return a.Base + "/agents/" + id
	case a.ResourceType == client.AttentionItemResourceTypeAPIKey:
		return a.Base + "/keys"
	}
	return a.Base
}

// tenantHref is the page with the quotas of the tenant.
func (a attention) tenantHref() string {
	if !a.IsAdmin {
		return ""
	}
	return Root + "/tenants/" + strings.TrimPrefix(a.Base, Root+"/t/")
}

// traffic is what went in and out, as numbers and charts.
type traffic struct {
	client.TrafficTotals
	In, Out        []float64 // per second
	InNow, OutNow  float64   // of the last whole step
	Flow, Latency  web.Chart
	HasLatency     bool
	HasAnyTraffic  bool
	StepIsAMinute  bool
	FailedShareNow float64
}

// trafficOf makes the charts of a series. The last step is not over: the charts end before it.
func trafficOf(series []client.TrafficPoint, totals client.TrafficTotals, stepSeconds int64) traffic {
	const minute = 60
	t := traffic{TrafficTotals: totals, StepIsAMinute: stepSeconds == minute, HasAnyTraffic: totals.Received+totals.Sent+totals.FailedAttempts+totals.Refused > 0}
	if len(series) > 1 {
		series = series[:len(series)-1]
	}
	var times []time.Time
	var failed, p50, p99 []float64
	for _, p := range series {
		step := float64(stepSeconds)
		times = append(times, p.At)
		t.In, t.Out = append(t.In, float64(p.Received)/step), append(t.Out, float64(p.Sent)/step)
		failed = append(failed, float64(p.FailedAttempts)/step)
		p50, p99 = append(p50, orMissing(p.LatencyP50Ms)), append(p99, orMissing(p.LatencyP99Ms))
		t.HasLatency = t.HasLatency || p.LatencyP50Ms != nil
	}
	if n := len(t.In); n > 0 {
		t.InNow, t.OutNow = t.In[n-1], t.Out[n-1]
	}
	t.Flow = web.Chart{Title: "Events per second", Format: web.Rate, Times: times, Series: []web.Series{
		{Name: "in", Class: "accent", Values: t.In}, {Name: "out", Class: "ok", Values: t.Out}, {Name: "failed attempts", Class: "failed", Values: failed}}}
	t.Latency = web.Chart{Title: "Latency from received to delivered", Format: web.Milliseconds, Times: times, Series: []web.Series{
		{Name: "p50", Class: "accent", Values: p50}, {Name: "p99", Class: "warning", Values: p99}}}
	return t
}

func orMissing(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
