package eventhook

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// gatewayTypes are the types of the gateway's own events. Those that a tenant
// is shown tell it about itself.
var gatewayTypes = []EventType{
	gatewayType("api_key.created", "An API key was made.", VisibleToTenant),
	gatewayType("api_key.deleted", "An API key was deleted.", VisibleToTenant),
	gatewayType("api_key.revoked_via_tenant_cascade", "An API key ended with its tenant.", VisibleToAdmin),
	gatewayType("route.created", "A route was made.", VisibleToTenant),
	gatewayType("route.deleted", "A route was deleted.", VisibleToTenant),
	gatewayType("route.updated", "A route was changed.", VisibleToTenant),
	gatewayType("source.created", "A source was made.", VisibleToTenant),
	gatewayType("source.deleted", "A source was deleted.", VisibleToTenant),
	gatewayType("source.disabled_via_tenant_cascade", "A source was disabled with its tenant.", VisibleToAdmin),
	gatewayType("source.handshake_reset", "A source waits for its provider's handshake again.", VisibleToTenant),
	gatewayType("source.handshake_secret_revealed", "The secret that a handshake has brought was shown to somebody.", VisibleToTenant),
	gatewayType("source.updated", "A source was changed.", VisibleToTenant),
	gatewayType("system.webhook_delivery_failed", "A delivery has used up its retries.", VisibleToTenant),
	gatewayType("system.webhook_test", "A subscription is being tested.", VisibleToTenant),
	gatewayType("tenant.activated", "The tenant is active again.", VisibleToTenant),
	gatewayType("tenant.closed", "The tenant was closed.", VisibleToAdmin),
	gatewayType("tenant.created", "The tenant was made.", VisibleToAdmin),
	gatewayType("tenant.suspended", "The tenant was suspended.", VisibleToTenant),
	gatewayType("tenant.updated", "The tenant was changed.", VisibleToTenant),
	gatewayType("webhook.created", "A subscription was made.", VisibleToTenant),
	gatewayType("webhook.deleted", "A subscription was deleted.", VisibleToTenant),
	gatewayType("webhook.disabled", "A subscription was disabled: its deliveries failed, or its receiver is gone.", VisibleToTenant),
	gatewayType("webhook.disabled_via_tenant_cascade", "A subscription was disabled with its tenant.", VisibleToAdmin),
	gatewayType("webhook.paused", "A subscription was paused.", VisibleToTenant),
	gatewayType("webhook.resumed", "A subscription was resumed.", VisibleToTenant),
	gatewayType("webhook.updated", "A subscription was changed.", VisibleToTenant),
}

func gatewayType(name, description string, v Visibility) EventType {
	return EventType{Name: name, Description: description, Category: "eventhook", Visibility: v}
}

// GatewayEventTypes are the entries of every tenant's catalogue that are about
// the gateway's own events, by name. Their ids and versions are zero.
func GatewayEventTypes() []EventType { return slices.Clone(gatewayTypes) }

// GatewayEventType finds one of them.
func GatewayEventType(name string) (EventType, bool) {
	i := slices.IndexFunc(gatewayTypes, func(t EventType) bool { return t.Name == name })
	if i < 0 {
		return EventType{}, false
	}
	return gatewayTypes[i], true
}

// IsForTenants reports whether a tenant's subscriptions get events of a type: of the
// gateway's own those that its catalogue shows the tenant.
func IsForTenants(eventType string) bool {
	t, isOwn := GatewayEventType(eventType)
	return !isOwn || t.Visibility == VisibleToTenant
}

// IsReserved reports whether only the gateway publishes events of a type: one
// of its own, and whatever else begins as they do, such as tenant.reopened, in
// any case and with white space around it. What a source brings may have any type.
func IsReserved(eventType string) bool {
	kind, _, hasKind := strings.Cut(eventType, ".")
	return hasKind && slices.ContainsFunc(gatewayTypes, func(t EventType) bool {
		own, _, _ := strings.Cut(t.Name, ".")
		return strings.EqualFold(own, strings.TrimSpace(kind))
	})
}

// CheckPublished says what is wrong with the type that somebody publishes an
// event under, "" if nothing: it must be one that a catalogue can hold, without
// white space and empty parts, and none that IsReserved.
func CheckPublished(eventType string) string {
	entry := EventType{Name: eventType, Visibility: VisibleToTenant}
	for _, wrong := range entry.Validate() {
		return wrong.Message
	}
	if wrong := oddType(eventType); wrong != "" {
		return wrong
	}
	if IsReserved(eventType) {
		kind, _, _ := strings.Cut(eventType, ".")
		return fmt.Sprintf("%q begins with %q, as the gateway's own do: nobody else publishes those", eventType, kind+".")
	}
	return ""
}

// oddType says why no event is published under a type, though an event of a
// source's may have it; "" if one can be.
func oddType(eventType string) string {
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
