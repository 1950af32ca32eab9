package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// DeadGroupStore groups dead deliveries.
type DeadGroupStore interface {
	// DeadGroups counts the dead deliveries of a tenant by destination and cause. It reads
	// SubscriptionID, CreatedAfter and CreatedBefore of the filter.
	DeadGroups(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter) (eventhook.DeadGroups, error)
	// DestinationNames returns the names and hosts of the destinations of groups, in their
	// order; empty texts for a destination that was deleted.
	DestinationNames(ctx context.Context, tenant eventhook.TenantID, groups []eventhook.DeadGroup) ([]eventhook.DestinationName, error)
}

// DeadGroup is a group of dead deliveries.
type DeadGroup struct {
	Key            string    `json:"key" doc:"Identifies destination and cause; selects the group in POST …/deliveries/retry."`
	SubscriptionID *string   `json:"subscription_id" format:"uuid" doc:"Destination subscription; null for a target of a route."`
	RouteID        *string   `json:"route_id" format:"uuid" doc:"Route of the target; null for a subscription."`
	TargetIndex    *int      `json:"target_index" doc:"Index of the route's target, starting at 0; null for a subscription."`
	Name           *string   `json:"name" doc:"Name of the subscription or the route; null if it is deleted."`
	Host           *string   `json:"host" doc:"Host of the destination as it is configured now; null if it is deleted."`
	Cause          string    `json:"cause" example:"500 from billing.example" doc:"Why the deliveries are dead, without ids and numbers that differ between them."`
	StatusCode     *int      `json:"status_code" doc:"Status code of the last attempt; null if the receiver did not answer."`
	Count          int       `json:"count" doc:"Number of deliveries."`
	IsExact        bool      `json:"is_exact" doc:"Whether count is the number of all; false if the search ended before it had counted all deliveries: see scanned_until."`
	FirstAt        time.Time `json:"first_at" doc:"When the first of the counted deliveries became dead."`
	LastAt         time.Time `json:"last_at" doc:"When the last of the counted deliveries became dead."`
	SampleIDs      []string  `json:"sample_ids" doc:"The newest deliveries, at most 5."`
}

// DeadGroups is the response with the groups of dead deliveries.
type DeadGroups struct {
	Items        []DeadGroup `json:"items" doc:"The largest groups, at most 250, the largest first."`
	GroupsCount  int         `json:"groups_count" doc:"Number of all groups that were found."`
	Scanned      int         `json:"scanned" doc:"Number of deliveries that were counted."`
	ScannedUntil *time.Time  `json:"scanned_until" doc:"Only deliveries created after this time were counted, because the search ended after 2 s; null if all were counted. Continue with this time as created_before."`
}

// maxDeadGroups is the maximum number of groups in a response.
const maxDeadGroups = 250

type deadGroupsQuery struct {
	TenantPath
	SubscriptionID string    `query:"subscription_id" format:"uuid" doc:"Group only deliveries to this subscription."`
	CreatedAfter   time.Time `query:"created_after" doc:"Group only deliveries created after this time."`
	CreatedBefore  time.Time `query:"created_before" doc:"Group only deliveries created before this time."`
}

type deadGroupsAnswer struct{ Body DeadGroups }

func (s *server) registerDeadGroups(api huma.API) {
	register(s, api, operation{id: "list-dead-groups", method: http.MethodGet, path: base + "/deliveries/dead-groups", scope: eventhook.ScopeRead,
		tag: "deliveries", summary: "List dead deliveries grouped by cause",
		about: "Groups dead deliveries by destination and cause, newest deliveries first, for at most 2 s: is_exact and scanned_until say whether all were counted."}, s.listDeadGroups)
}

func (s *server) listDeadGroups(ctx context.Context, by caller, in *deadGroupsQuery) (*deadGroupsAnswer, error) {
	f := eventhook.DeliveryFilter{CreatedAfter: sinceEpoch(in.CreatedAfter), CreatedBefore: sinceEpoch(in.CreatedBefore)}
	var err error
	if f.SubscriptionID, err = idFilter[eventhook.Subscription]("query.subscription_id", in.SubscriptionID); err != nil {
		return nil, err
	}
	found, err := s.DeadGroups.DeadGroups(ctx, by.tenant, f)
	if err != nil {
		return nil, err
	}
	out := DeadGroups{[]DeadGroup{}, len(found.Groups), found.Scanned, optionalMoment(found.ScannedUntil)}
	groups := found.Groups[:min(len(found.Groups), maxDeadGroups)]
	names, err := s.DeadGroups.DestinationNames(ctx, by.tenant, groups)
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		out.Items = append(out.Items, viewDeadGroup(g, names[i], out.ScannedUntil == nil))
	}
	return &deadGroupsAnswer{out}, nil
}

func viewDeadGroup(g eventhook.DeadGroup, name eventhook.DestinationName, isExact bool) DeadGroup {
	v := DeadGroup{Key: g.Key, SubscriptionID: optionalID(g.SubscriptionID), RouteID: optionalID(g.RouteID), Name: optional(name.Name),
		Host: optional(name.Host), Cause: g.Cause, StatusCode: optionalNumber(g.StatusCode), Count: g.Count, IsExact: isExact,
		FirstAt: utc(g.FirstAt), LastAt: utc(g.LastAt), SampleIDs: idTexts(g.Samples)}
	if !g.RouteID.IsZero() {
		v.TargetIndex = new(g.TargetIndex)
	}
	if g.StatusCode != 0 && name.Host != "" {
		v.Cause += " from " + name.Host
	}
	return v
}
