package eventhook

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// systemEventTypes are the types of the gateway's own events. Those that a tenant
// is shown tell it about itself.
var systemEventTypes = []EventType{
	newSystemEventType("api_key.created", "An API key was made.", VisibleToTenant),
	newSystemEventType("api_key.deleted", "An API key was deleted.", VisibleToTenant),
	newSystemEventType("api_key.revoked_via_tenant_cascade", "An API key ended with its tenant.", VisibleToAdmin),
	newSystemEventType("route.created", "A route was made.", VisibleToTenant),
	newSystemEventType("route.deleted", "A route was deleted.", VisibleToTenant),
	newSystemEventType("route.updated", "A route was changed.", VisibleToTenant),
	newSystemEventType("source.created", "A source was made.", VisibleToTenant),
	newSystemEventType("source.deleted", "A source was deleted.", VisibleToTenant),
	newSystemEventType("source.disabled_via_tenant_cascade", "A source was disabled with its tenant.", VisibleToAdmin),
	newSystemEventType("source.handshake_reset", "A source waits for its provider's handshake again.", VisibleToTenant),
	newSystemEventType("source.handshake_secret_revealed", "The secret that a handshake has brought was shown to somebody.", VisibleToTenant),
	newSystemEventType("source.updated", "A source was changed.", VisibleToTenant),
	newSystemEventType("system.webhook_delivery_failed", "A delivery has used up its retries.", VisibleToTenant),
	newSystemEventType("system.webhook_test", "A subscription is being tested.", VisibleToTenant),
	newSystemEventType("tenant.activated", "The tenant is active again.", VisibleToTenant),
	newSystemEventType("tenant.closed", "The tenant was closed.", VisibleToAdmin),
	newSystemEventType("tenant.created", "The tenant was made.", VisibleToAdmin),
	newSystemEventType("tenant.suspended", "The tenant was suspended.", VisibleToTenant),
	newSystemEventType("tenant.updated", "The tenant was changed.", VisibleToTenant),
	newSystemEventType("webhook.created", "A subscription was made.", VisibleToTenant),
	newSystemEventType("webhook.deleted", "A subscription was deleted.", VisibleToTenant),
	newSystemEventType("webhook.disabled", "A subscription was disabled: its deliveries failed, or its receiver is gone.", VisibleToTenant),
	newSystemEventType("webhook.disabled_via_tenant_cascade", "A subscription was disabled with its tenant.", VisibleToAdmin),
	newSystemEventType("webhook.paused", "A subscription was paused.", VisibleToTenant),
	newSystemEventType("webhook.resumed", "A subscription was resumed.", VisibleToTenant),
	newSystemEventType("webhook.updated", "A subscription was changed.", VisibleToTenant),
}

func newSystemEventType(name, description string, v Visibility) EventType {
	return EventType{Name: name, Description: description, Category: "eventhook", Visibility: v}
}

// SystemEventTypes are the entries of every tenant's catalogue that are about
// the gateway's own events, by name. Their ids and versions are zero.
func SystemEventTypes() []EventType { return slices.Clone(systemEventTypes) }

// FindSystemEventType finds one of them.
func FindSystemEventType(name string) (EventType, bool) {
	i := slices.IndexFunc(systemEventTypes, func(t EventType) bool { return t.Name == name })
	if i < 0 {
		return EventType{}, false
	}
	return systemEventTypes[i], true
}

// IsVisibleToTenants reports whether a tenant's subscriptions get events of a type: of the
// gateway's own those that its catalogue shows the tenant.
func IsVisibleToTenants(eventType string) bool {
	t, isOwn := FindSystemEventType(eventType)
	return !isOwn || t.Visibility == VisibleToTenant
}

// IsReservedEventType reports whether only the gateway publishes events of a type: one
// of its own, and whatever else begins as they do, such as tenant.reopened, in
// any case and with white space around it. What a source brings may have any type.
func IsReservedEventType(eventType string) bool {
	kind, _, hasKind := strings.Cut(eventType, ".")
	return hasKind && slices.ContainsFunc(systemEventTypes, func(t EventType) bool {
		own, _, _ := strings.Cut(t.Name, ".")
		return strings.EqualFold(own, strings.TrimSpace(kind))
	})
}

// CheckPublishedEventType says what is wrong with the type that somebody publishes an
// event under, "" if nothing: it must be one that a catalogue can hold, without
// white space and empty parts, and none that IsReserved.
func CheckPublishedEventType(eventType string) string {
	entry := EventType{Name: eventType, Visibility: VisibleToTenant}
	for _, wrong := range entry.Validate() {
		return wrong.Message
	}
	if wrong := checkTypeCharacters(eventType); wrong != "" {
		return wrong
	}
	if IsReservedEventType(eventType) {
		kind, _, _ := strings.Cut(eventType, ".")
		return fmt.Sprintf("%q begins with %q, as the gateway's own do: nobody else publishes those", eventType, kind+".")
	}
	return ""
}

// checkTypeCharacters says why no event is published under a type, though an event of a
// source's may have it; "" if one can be.
func checkTypeCharacters(eventType string) string {
	switch {
	case strings.ContainsFunc(eventType, unicode.IsSpace):
		return "must have no white space"
	case strings.ContainsFunc(eventType, isInvisible):
		return "must have no control or formatting characters"
	case strings.Contains("."+eventType+".", ".."):
		return "must have something before and behind each dot"
	}
	return ""
}
