package pg

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// listSubscriptionsSQL lists the subscriptions of a tenant by the index on tenant and id, or
// those of all tenants by the primary key. It reads the subscriptions that the filters
// exclude, too: their number is small. @types are the patterns that accept an event type,
// and @prefix selects the patterns that begin with it; NULL: none. visibleToScope only keeps pages
// full: SubscriptionSettings.IsVisibleTo decides.
const listSubscriptionsSQL = `SELECT ` + subscriptionColumns + subscriptionTables + `
WHERE (@tenant::uuid IS NULL OR s.tenant_id = @tenant) AND s.id < @before AND (@status = '' OR s.status = @status)
  AND (@scope = '' OR ` + visibleToScope + `)
  AND (@types::text[] IS NULL OR EXISTS (SELECT FROM unnest(s.event_types) AS p (pattern) WHERE p.pattern = ANY(@types) OR starts_with(p.pattern, @prefix)))
ORDER BY s.id DESC LIMIT @limit`

// visibleToScope is SubscriptionSettings.IsVisibleTo(@scope) of the subscription s.
const visibleToScope = `CASE jsonb_typeof(s.settings->'scope_filter') WHEN 'array'
      THEN s.settings->'scope_filter' <> '[]' AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(s.settings->'scope_filter') AS p (pattern)
          WHERE p.pattern <> @scope AND NOT starts_with(p.pattern, @scope || '/')) ELSE false END`

// Subscriptions lists a tenant's subscriptions, or those of all tenants if tenant is zero,
// newest first, with their secrets in plain text. Subscriptions whose secrets do not open,
// because their encryption key is lost, have SecretsLost and are logged.
func (db *DB) Subscriptions(ctx context.Context, tenant eventhook.TenantID,
	f eventhook.SubscriptionFilter) ([]eventhook.Subscription, error) {
	types, prefix := patternsOver(f.EventType)
	rows, err := db.lists.Query(ctx, listSubscriptionsSQL, pgx.QueryExecModeCacheDescribe, pgx.StrictNamedArgs{"tenant": uuidArg(tenant),
		"before": cursorArg(f.Before), "status": string(f.Status), "types": types, "prefix": prefix, "scope": f.Scope, "limit": f.Limit})
	if err != nil {
		return nil, translate("list subscriptions", err)
	}
	list, err := db.collectSubscriptions(rows)
	if f.Scope != "" {
		list = slices.DeleteFunc(list, func(s eventhook.Subscription) bool { return !s.IsVisibleTo(f.Scope) })
	}
	return list, translate("list subscriptions", err)
}

// patternsOver returns the patterns that accept an event type or all types of a pattern,
// and the prefix of the patterns that accept some types of a pattern. Both are nil for "".
func patternsOver(eventType string) (patterns []string, prefix *string) {
	if eventType == "" {
		return nil, nil
	}
	if p, isPattern := eventhook.TypePrefix(eventType); isPattern {
		prefix = &p
	}
	patterns = []string{"*", eventType}
	for i := range len(eventType) {
		if strings.HasPrefix(eventType[i:], ".") {
			patterns = append(patterns, eventType[:i+1]+"*")
		}
	}
	return patterns, prefix
}
