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
	checkFaults(t, "a source with as much as it may have", settings(0).Validate())
	checkFaults(t, "a source with more", settings(1).Validate(), "idempotency_key_paths", "event_type_paths", "allowed_ip_ranges", "content_types")
	r := eventhook.Route{Name: "x", Targets: []eventhook.Target{{Type: "task", Settings: []byte(`{"task_kind":"k"}`)}}, FilterEventTypes: slices.Repeat([]string{"a"}, 100)}
	checkFaults(t, "a route with as many types as it may have", r.Validate())
	r.FilterEventTypes = append(r.FilterEventTypes, "b")
	checkFaults(t, "a route with more", r.Validate(), "filter_event_types")
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
	checkFaults(t, "all at once", eventhook.EventType{Name: "*", Description: strings.Repeat("d", 2001), Category: "\xff"}.Validate(),
		"name", "description", "category", "visibility")
}

func TestReservedEventTypesCannotBePublished(t *testing.T) {
	for _, c := range []struct{ claim, eventType, part string }{
		{"a type of one's own", "payment.succeeded", ""},
		{"one of one word", "tenant", ""},
		{"a word that begins like theirs", "tenants.closed", ""},
		{"their word further on", "shop.tenant.closed", ""},
		{"nothing", "", "must be an event type"},
		{"a pattern", "payment.*", "must be an event type"},
		{"an empty part", "payment..made", "each dot"},
		{"nothing before a dot", ".made", "each dot"},
		{"nothing behind one", "payment.", "each dot"},
		{"of webhooks", "webhook.disabled", "webhook."},
		{"of the system", "system.webhook_test", "system."},
		{"of tenants, and none of today's", "tenant.reopened", "tenant."},
		{"of keys", "api_key.leaked", "api_key."},
		{"of sources", "source.created", "source."},
		{"of routes", "route.created", "route."},
		{"in capitals", "TENANT.Closed", "reserved for events of the gateway"},
		{"with a letter that folds to theirs", "\u017fource.created", "reserved for events of the gateway"},
		{"with white space before", " tenant.closed", "white space"},
		{"with white space within", "tenant .closed", "white space"},
		{"with white space that is none of ASCII", "payment\u00a0made", "white space"},
		{"on two lines", "payment\nmade", "control"},
		{"with what is not seen", "ten\u200bant.closed", "formatting"},
	} {
		if got := eventhook.CheckPublishedEventType(c.eventType); (got == "") != (c.part == "") || !strings.Contains(got, c.part) {
			t.Errorf("%s: of %q got %q, want what says %q", c.claim, c.eventType, got, c.part)
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
		t.Error("they are not in the order of their names, each once")
	}
	for _, e := range all {
		checkFaults(t, e.Name, e.Validate())
		if got, ok := eventhook.FindSystemEventType(e.Name); !ok || got.Name != e.Name {
			t.Errorf("%s is not found", e.Name)
		}
	}
	for _, e := range all {
		if eventhook.CheckPublishedEventType(e.Name) == "" {
			t.Errorf("%s: anybody may publish it", e.Name)
		}
	}
	if _, ok := eventhook.FindSystemEventType("payment.succeeded"); ok {
		t.Error("a tenant's type is found among them")
	}
	its, admin := eventhook.Actor{Type: eventhook.ActorKey}, eventhook.Actor{Type: eventhook.ActorOnBehalf}
	hidden, _ := eventhook.FindSystemEventType("tenant.created")
	open, _ := eventhook.FindSystemEventType("source.updated")
	if !hidden.IsHiddenFrom(its) || hidden.IsHiddenFrom(admin) || open.IsHiddenFrom(its) {
		t.Error("what is the admin's must be hidden from a tenant's key, and from nobody else")
	}
}
