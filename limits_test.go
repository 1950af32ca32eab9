package eventhook_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestListsHaveMaximumLengths(t *testing.T) {
	settings := func(more int) eventhook.SourceSettings {
		return eventhook.SourceSettings{
			IdempotencyKeyPaths: slices.Repeat([]string{"body.a"}, 20+more), EventTypePaths: slices.Repeat([]string{"body.a"}, 20+more),
			AllowedIPRanges: slices.Repeat([]string{"192.0.2.0/24"}, 1000+more), ContentTypes: slices.Repeat([]string{"text/plain"}, 50+more),
		}
	}
	checkFaults(t, "a source with lists of the maximum length", settings(0).Validate())
	checkFaults(t, "a source with longer lists", settings(1).Validate(), "idempotency_key_paths", "event_type_paths", "allowed_ip_ranges", "content_types")
	r := eventhook.Route{Name: "x", Targets: []eventhook.Target{{Type: "task", Settings: []byte(`{"task_kind":"k"}`)}}, FilterEventTypes: slices.Repeat([]string{"a"}, 100)}
	checkFaults(t, "a route with the maximum number of types", r.Validate())
	r.FilterEventTypes = append(r.FilterEventTypes, "b")
	checkFaults(t, "a route with more types", r.Validate(), "filter_event_types")
}

func TestFilterCodeMustBeText(t *testing.T) {
	r := eventhook.Route{Name: "x", Targets: []eventhook.Target{{Type: "task", Settings: []byte(`{"task_kind":"k"}`)}}, FilterExpression: "'\x00'", FilterFunction: "\xff"}
	checkFaults(t, "a route", r.Validate(), "filter_expression", "filter_function")
}

func TestEventTypeValidate(t *testing.T) {
	good := eventhook.EventType{Name: "payment.succeeded", Visibility: eventhook.VisibleToTenant}
	checkFaults(t, "a type", good.Validate())
	for _, name := range []string{"", "*", "a.*", "a*", "a\x00", strings.Repeat("n", 256)} {
		bad := good
		bad.Name = name
		checkFaults(t, "the name "+name, bad.Validate(), "name")
	}
	checkFaults(t, "several faults", eventhook.EventType{Name: "*", Description: strings.Repeat("d", 2001), Category: "\xff"}.Validate(),
		"name", "description", "category", "visibility")
}

func TestReservedEventTypesCannotBePublished(t *testing.T) {
	for _, c := range []struct{ claim, eventType, part string }{
		{"a type that is not reserved", "payment.succeeded", ""},
		{"a reserved word without a dot", "tenant", ""},
		{"a word that starts with a reserved word", "tenants.closed", ""},
		{"a reserved word as the second part", "shop.tenant.closed", ""},
		{"an empty type", "", "must be an event type"},
		{"a pattern", "payment.*", "must be an event type"},
		{"an empty part", "payment..created", "each dot"},
		{"an empty first part", ".created", "each dot"},
		{"an empty last part", "payment.", "each dot"},
		{"a type of subscriptions", "webhook.disabled", "webhook."},
		{"a type of the system", "system.webhook_test", "system."},
		{"an unknown type with a reserved first part", "tenant.reopened", "tenant."},
		{"a type of API keys", "api_key.leaked", "api_key."},
		{"a type of sources", "source.created", "source."},
		{"a type of routes", "route.created", "route."},
		{"a reserved word in upper case", "TENANT.Closed", "reserved for events of the gateway"},
		{"a letter that case folding maps to a reserved word", "\u017fource.created", "reserved for events of the gateway"},
		{"leading white space", " tenant.closed", "white space"},
		{"inner white space", "tenant .closed", "white space"},
		{"white space outside of ASCII", "payment\u00a0made", "white space"},
		{"a line break", "payment\nmade", "control"},
		{"an invisible character", "ten\u200bant.closed", "formatting"},
	} {
		if got := eventhook.CheckPublishedEventType(c.eventType); (got == "") != (c.part == "") || !strings.Contains(got, c.part) {
			t.Errorf("%s: CheckPublishedEventType(%q): got %q, want a text with %q", c.claim, c.eventType, got, c.part)
		}
	}
	for _, spaced := range []string{" tenant.closed", "tenant .closed", "\tSystem.x"} {
		if !eventhook.IsReservedEventType(spaced) {
			t.Errorf("%q is not reserved", spaced)
		}
	}
}

func TestSystemEventTypes(t *testing.T) {
	all := eventhook.SystemEventTypes()
	byName := func(a, b eventhook.EventType) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(all, byName) || len(slices.CompactFunc(slices.Clone(all), func(a, b eventhook.EventType) bool { return a.Name == b.Name })) != len(all) {
		t.Error("the types are not sorted by name, or a type occurs twice")
	}
	for _, e := range all {
		checkFaults(t, e.Name, e.Validate())
		if got, ok := eventhook.FindSystemEventType(e.Name); !ok || got.Name != e.Name {
			t.Errorf("FindSystemEventType does not find %s", e.Name)
		}
	}
	for _, e := range all {
		if eventhook.CheckPublishedEventType(e.Name) == "" {
			t.Errorf("CheckPublishedEventType allows callers to publish %s", e.Name)
		}
	}
	if _, ok := eventhook.FindSystemEventType("payment.succeeded"); ok {
		t.Error("FindSystemEventType finds a type that is not a system event")
	}
	tenantKey, admin := eventhook.Actor{Type: eventhook.ActorKey}, eventhook.Actor{Type: eventhook.ActorOnBehalf}
	hidden, _ := eventhook.FindSystemEventType("tenant.created")
	visible, _ := eventhook.FindSystemEventType("source.updated")
	if !hidden.IsHiddenFrom(tenantKey) || hidden.IsHiddenFrom(admin) || visible.IsHiddenFrom(tenantKey) {
		t.Error("want types for the admin hidden from a tenant's key only")
	}
}
