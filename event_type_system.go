package eventhook

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// systemEventTypes lists the types of system events: the events that the gateway
// itself publishes. Types visible to the tenant report changes of the tenant's own
// resources.
var systemEventTypes = []EventType{
	newSystemEventType("agent.deleted", "An agent was deleted; its keys are no longer valid.", VisibleToTenant),
	newSystemEventType("agent.offline", "An agent has made no claim for 90 seconds.", VisibleToTenant),
	newSystemEventType("agent.online", "An agent makes claims.", VisibleToTenant),
	newSystemEventType("agent.registered", "An agent was created.", VisibleToTenant),
	newSystemEventType("api_key.created", "An API key was created.", VisibleToTenant),
	newSystemEventType("api_key.deleted", "An API key was deleted.", VisibleToTenant),
	newSystemEventType("api_key.revoked_via_tenant_cascade", "An API key was revoked because its tenant was closed.", VisibleToAdmin),
	newSystemEventType("delivery.dead_via_tenant_cascade", "Open deliveries ended because their tenant was closed.", VisibleToAdmin),
	newSystemEventType("promise.rejected_via_tenant_cascade", "Promises were rejected because their tenant was closed.", VisibleToAdmin),
	newSystemEventType("route.created", "A route was created.", VisibleToTenant),
	newSystemEventType("route.deleted", "A route was deleted.", VisibleToTenant),
	newSystemEventType("route.updated", "A route was updated.", VisibleToTenant),
	newSystemEventType("source.created", "A source was created.", VisibleToTenant),
	newSystemEventType("source.deleted", "A source was deleted.", VisibleToTenant),
	newSystemEventType("source.disabled_via_tenant_cascade", "A source was disabled because its tenant was closed.", VisibleToAdmin),
	newSystemEventType("source.handshake_reset", "The handshake of a source was reset: the source waits for its provider's handshake.", VisibleToTenant),
	newSystemEventType("source.handshake_secret_revealed", "The secret from a source's handshake was revealed to a caller.", VisibleToTenant),
	newSystemEventType("source.updated", "A source was updated.", VisibleToTenant),
	newSystemEventType("system.webhook_delivery_failed", "A delivery failed and has no retries left.", VisibleToTenant),
	newSystemEventType("system.webhook_test", "A caller tested a subscription.", VisibleToTenant),
	newSystemEventType("task.cancelled_via_tenant_cascade", "Tasks were cancelled because their tenant was closed.", VisibleToAdmin),
	newSystemEventType("tenant.activated", "The tenant was activated.", VisibleToTenant),
	newSystemEventType("tenant.closed", "The tenant was closed.", VisibleToAdmin),
	newSystemEventType("tenant.created", "The tenant was created.", VisibleToAdmin),
	newSystemEventType("tenant.purged", "The data of a closed tenant was deleted.", VisibleToAdmin),
	newSystemEventType("tenant.suspended", "The tenant was suspended.", VisibleToTenant),
	newSystemEventType("tenant.updated", "The tenant was updated.", VisibleToTenant),
	newSystemEventType("webhook.created", "A subscription was created.", VisibleToTenant),
	newSystemEventType("webhook.deleted", "A subscription was deleted.", VisibleToTenant),
	newSystemEventType("webhook.disabled", "A subscription was disabled: its deliveries failed, or its receiver answered 410 Gone.", VisibleToTenant),
	newSystemEventType("webhook.disabled_via_tenant_cascade", "A subscription was disabled because its tenant was closed.", VisibleToAdmin),
	newSystemEventType("webhook.paused", "A subscription was paused.", VisibleToTenant),
	newSystemEventType("webhook.recovered", "The deliveries that a subscription missed during an outage have ended.", VisibleToTenant),
	newSystemEventType("webhook.recovering", "A subscription's receiver answers again after an outage: the missed deliveries are being sent.", VisibleToTenant),
	newSystemEventType("webhook.resumed", "A subscription was resumed.", VisibleToTenant),
	newSystemEventType("webhook.updated", "A subscription was updated.", VisibleToTenant),
	newSystemEventType("workflow.cancelled_via_tenant_cascade", "Workflows were cancelled because their tenant was closed.",
		VisibleToAdmin),
}

// cascadeSuffix ends the types of the events that report the effects of closing a tenant.
const cascadeSuffix = "_via_tenant_cascade"

func newSystemEventType(name, description string, v Visibility) EventType {
	return EventType{Name: name, Description: description, Category: "eventhook", Visibility: v}
}

// SystemEventTypes returns the catalogue entries of all system events, sorted by
// name. Every tenant has them. Their ids and versions are zero.
func SystemEventTypes() []EventType { return slices.Clone(systemEventTypes) }

// FindSystemEventType returns the catalogue entry of a system event type, and
// whether it exists.
func FindSystemEventType(name string) (EventType, bool) {
	i := slices.IndexFunc(systemEventTypes, func(t EventType) bool { return t.Name == name })
	if i < 0 {
		return EventType{}, false
	}
	return systemEventTypes[i], true
}

// IsVisibleToTenants reports whether a tenant's subscriptions receive events of a
// type: all types except system event types for the admin.
func IsVisibleToTenants(eventType string) bool {
	t, isSystem := FindSystemEventType(eventType)
	return !isSystem || t.Visibility == VisibleToTenant
}

// IsReservedEventType reports whether only the gateway may publish events of a type:
// the first part of the name is the first part of a system event type, as in
// tenant.reopened, ignoring case and surrounding white space. The first part of an event
// that only the closing of a tenant publishes, such as delivery, is not reserved: only the
// whole name is. An event of a source may have any type.
func IsReservedEventType(eventType string) bool {
	kind, _, hasKind := strings.Cut(eventType, ".")
	return hasKind && slices.ContainsFunc(systemEventTypes, func(t EventType) bool {
		reserved, _, _ := strings.Cut(t.Name, ".")
		if strings.HasSuffix(t.Name, cascadeSuffix) {
			return strings.EqualFold(t.Name, strings.TrimSpace(eventType))
		}
		return strings.EqualFold(reserved, strings.TrimSpace(kind))
	})
}

// CheckPublishedEventType says why a caller cannot publish events of a type, "" if
// it can. The type must be valid in a catalogue, have no white space and no empty
// part, and must not be reserved.
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
		return fmt.Sprintf("%q begins with %q, which is reserved for events of the gateway", eventType, kind+".")
	}
	return ""
}

// checkTypeCharacters says why events of a type cannot be published, "" if they can.
// Events of sources may have types that it refuses.
func checkTypeCharacters(eventType string) string {
	switch {
	case strings.ContainsFunc(eventType, unicode.IsSpace):
		return "must have no white space"
	case strings.ContainsFunc(eventType, isInvisible):
		return "must have no control or formatting characters"
	case strings.Contains("."+eventType+".", ".."):
		return "must have text before and after each dot"
	}
	return ""
}
