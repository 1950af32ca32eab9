package eventhook_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestListsAreNotWithoutEnd(t *testing.T) {
	settings := func(more int) eventhook.SourceSettings {
		return eventhook.SourceSettings{
			IdempotencyKeyPaths: slices.Repeat([]string{"body.a"}, 20+more), EventTypePaths: slices.Repeat([]string{"body.a"}, 20+more),
			AllowedIPRanges: slices.Repeat([]string{"192.0.2.0/24"}, 1000+more), ContentTypes: slices.Repeat([]string{"text/plain"}, 50+more),
		}
	}
	checkFaults(t, "a source with as much as it may have", settings(0).Validate())
	checkFaults(t, "a source with more", settings(1).Validate(), "idempotency_key_paths", "event_type_paths", "allowed_ip_ranges", "content_types")
	r := eventhook.Route{Name: "x", Targets: []eventhook.Target{{Type: "task", TaskKind: "k"}}, FilterEventTypes: slices.Repeat([]string{"a"}, 100)}
	checkFaults(t, "a route with as many types as it may have", r.Validate())
	r.FilterEventTypes = append(r.FilterEventTypes, "b")
	checkFaults(t, "a route with more", r.Validate(), "filter_event_types")
}

func TestFiltersAreText(t *testing.T) {
	r := eventhook.Route{Name: "x", Targets: []eventhook.Target{{Type: "task", TaskKind: "k"}}, FilterExpression: "'\x00'", FilterFunction: "\xff"}
	checkFaults(t, "a route", r.Validate(), "filter_expression", "filter_function")
}

func TestEventTypes(t *testing.T) {
	good := eventhook.EventType{Name: "payment.succeeded", Visibility: eventhook.VisibleToTenant}
	checkFaults(t, "a type", good.Validate())
	for _, name := range []string{"", "*", "a.*", "a*", "a\x00", strings.Repeat("n", 256)} {
		bad := good
		bad.Name = name
		checkFaults(t, "the name "+name, bad.Validate(), "name")
	}
	checkFaults(t, "all at once", eventhook.EventType{Name: "*", Description: strings.Repeat("d", 2001), Category: "\xff"}.Validate(),
		"name", "description", "category", "visibility")
}

func TestGatewayEventTypes(t *testing.T) {
	all := eventhook.GatewayEventTypes()
	byName := func(a, b eventhook.EventType) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(all, byName) || len(slices.CompactFunc(slices.Clone(all), func(a, b eventhook.EventType) bool { return a.Name == b.Name })) != len(all) {
		t.Error("they are not in the order of their names, each once")
	}
	for _, e := range all {
		checkFaults(t, e.Name, e.Validate())
		if got, ok := eventhook.GatewayEventType(e.Name); !ok || got.Name != e.Name {
			t.Errorf("%s is not found", e.Name)
		}
	}
	if _, ok := eventhook.GatewayEventType("payment.succeeded"); ok {
		t.Error("a tenant's type is found among them")
	}
	its, admin := eventhook.Actor{Type: eventhook.ActorKey}, eventhook.Actor{Type: eventhook.ActorOnBehalf}
	hidden, _ := eventhook.GatewayEventType("tenant.created")
	open, _ := eventhook.GatewayEventType("source.updated")
	if !hidden.IsHiddenFrom(its) || hidden.IsHiddenFrom(admin) || open.IsHiddenFrom(its) {
		t.Error("what is the admin's must be hidden from a tenant's key, and from nobody else")
	}
}
