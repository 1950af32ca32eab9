package pg

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// attentionQuery finds the items of a type.
type attentionQuery struct {
	of       eventhook.AttentionType
	resource string // type of the resource
	sql      string
	has      []string // parameters besides tenant and limit
	summary  func(r *overviewReader, a eventhook.Attention) string
}

var windowParameters = []string{"span", "since", "until"}

// attentionQueries are in the order of eventhook.AttentionTypes.
var attentionQueries = []attentionQuery{
	{eventhook.AttentionSubscriptionDisabled, "subscription", disabledSQL, nil, nil}, // see describeFailing
	{eventhook.AttentionCircuitOpen, "subscription", circuitSQL, nil, nil},
	{eventhook.AttentionDeliveriesDead, "delivery", deadDeliveriesSQL, windowParameters,
		func(r *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("%s became dead in the %s. Dead deliveries are sent again only if they are retried or replayed.",
				counted(a.Count, "delivery", "deliveries"), r.period())
		}},
	{eventhook.AttentionExecutionsDead, "execution", deadExecutionsSQL, []string{"since"},
		func(r *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("%s died in the %s after the last attempt.", counted(a.Count, "execution", "executions"), r.period())
		}},
	{eventhook.AttentionAgentOffline, "agent", offlineAgentsSQL, []string{"now"},
		func(_ *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("The agent %s is offline and holds %s.", a.Name, counted(a.Count, "delivery", "deliveries"))
		}},
	{eventhook.AttentionQuota, "tenant", usedQuotasSQL, []string{"now"},
		func(_ *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("The tenant has used %d %% of its %s.", a.Count, quotaWords[a.Reason])
		}},
	{eventhook.AttentionRequestsRefused, "source", refusingSourcesSQL, windowParameters,
		func(r *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("The source %s refused %s in the %s.", a.Name, counted(a.Count, "request", "requests"), r.period())
		}},
	{eventhook.AttentionKeyExpiring, "api_key", expiringKeysSQL, []string{"now"},
		func(_ *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("The key %s expires on %s.", a.Name, a.Since.UTC().Format("2 January 2006 at 15:04 UTC"))
		}},
	{eventhook.AttentionHandshake, "source", unrevealedSQL, nil,
		func(_ *overviewReader, a eventhook.Attention) string {
			return fmt.Sprintf("The secret that the source %s has received waits to be revealed and confirmed at the provider.", a.Name)
		}},
}

// quotaWords say what a quota limits, by the names in usedQuotasSQL.
var quotaWords = map[string]string{"max_events_per_day": "events per day", "max_storage_bytes": "storage"}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// period names the window.
func (r *overviewReader) period() string {
	if r.window.Until.Sub(r.window.Since) > time.Hour {
		return "last 24 hours"
	}
	return "last hour"
}

// attention reads what needs a person.
func (r *overviewReader) attention(ctx context.Context) error {
	var list []eventhook.Attention
	for _, q := range attentionQueries {
		items, err := r.find(ctx, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.of, err)
		}
		list = append(list, items...)
	}
	if err := r.describeFailing(ctx, list); err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b eventhook.Attention) int { // keeps the order of the types
		return boolOrder(b.IsCritical) - boolOrder(a.IsCritical)
	})
	r.x.Attention = list[:min(len(list), eventhook.MaxOverviewItems)]
	return nil
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r *overviewReader) find(ctx context.Context, q attentionQuery) ([]eventhook.Attention, error) {
	args := pgx.StrictNamedArgs{"tenant": r.tenantID(), "limit": eventhook.MaxOverviewItems}
	for _, name := range q.has {
		args[name] = r.args(pgx.StrictNamedArgs{"now": r.now})[name]
	}
	rows, err := r.db.lists.Query(ctx, q.sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (eventhook.Attention, error) {
		a := eventhook.Attention{Type: q.of, ResourceType: q.resource}
		err := row.Scan((*[16]byte)(&a.TenantID), &a.ResourceID, &a.Name, &a.Count, &a.Since, &a.Reason)
		if err == nil && q.summary != nil {
			a.Summary = q.summary(r, a)
		}
		a.IsCritical = isCritical(a)
		return a, err
	})
}

// isCritical reports whether events are not delivered or are refused now.
func isCritical(a eventhook.Attention) bool {
	const all = 100 // percent
	switch a.Type {
	case eventhook.AttentionSubscriptionDisabled, eventhook.AttentionCircuitOpen, eventhook.AttentionDeliveriesDead:
		return true
	case eventhook.AttentionQuota:
		return a.Count >= all
	default:
		return false
	}
}

// describeFailing adds the summaries of failing subscriptions, which name the hosts, and copies
// their missed deliveries and errors to the subscriptions of the overview.
func (r *overviewReader) describeFailing(ctx context.Context, list []eventhook.Attention) error {
	failing := map[string]*eventhook.Attention{}
	var ids [][16]byte
	for i := range list {
		if list[i].ResourceType == "subscription" {
			id, err := eventhook.ParseID[eventhook.Subscription](list[i].ResourceID)
			if err != nil {
				return err
			}
			failing[list[i].ResourceID], ids = &list[i], append(ids, id)
		}
	}
	hosts, err := r.hosts(ctx, ids)
	for _, a := range failing {
		a.Summary = failingSummary(a, hosts[a.ResourceID])
	}
	for i := range r.x.Subscriptions {
		if a := failing[r.x.Subscriptions[i].ID.String()]; a != nil {
			r.x.Subscriptions[i].Missed, r.x.Subscriptions[i].LastError = int(a.Count), a.Reason
		}
	}
	return err
}

func failingSummary(a *eventhook.Attention, host string) string {
	state := "is disabled"
	if a.Type == eventhook.AttentionCircuitOpen {
		state = "is failing"
	}
	if host != "" {
		host = " to " + host
	}
	return fmt.Sprintf("The subscription %s%s %s: %s missed.", a.Name, host, state, counted(a.Count, "delivery is", "deliveries are"))
}

// hosts returns the hosts of the URLs of subscriptions by id. A host is missing if the encryption
// key of the URL is lost.
func (r *overviewReader) hosts(ctx context.Context, ids [][16]byte) (map[string]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := r.db.lists.Query(ctx, `SELECT `+subscriptionColumns+subscriptionTables+` WHERE s.id = ANY($1::uuid[])`, ids)
	if err != nil {
		return nil, err
	}
	list, err := r.db.collectSubscriptions(rows)
	hosts := map[string]string{}
	for _, s := range list {
		if u, err := url.Parse(s.URL.Reveal()); err == nil {
			hosts[s.ID.String()] = u.Hostname()
		}
	}
	return hosts, err
}
