package tracing

import (
	"net"
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/eventhook/eventhook"
)

// Attributes of the gateway.
const (
	tenantKey       = attribute.Key("eventhook.tenant")    // slug
	tenantIDKey     = attribute.Key("eventhook.tenant_id") // its slug is added at the export
	sourceKey       = attribute.Key("eventhook.source")    // slug
	outcomeKey      = attribute.Key("eventhook.outcome")
	reasonKey       = attribute.Key("eventhook.reason")
	eventIDKey      = attribute.Key("eventhook.event_id")
	eventTypeKey    = attribute.Key("eventhook.event_type")
	eventStatusKey  = attribute.Key("eventhook.event_status")
	duplicateOfKey  = attribute.Key("eventhook.duplicate_of")
	deliveryIDKey   = attribute.Key("eventhook.delivery_id")
	attemptKey      = attribute.Key("eventhook.attempt")
	subscriptionKey = attribute.Key("eventhook.subscription_id")
	routeIDKey      = attribute.Key("eventhook.route_id")
	routeNameKey    = attribute.Key("eventhook.route")
	targetKey       = attribute.Key("eventhook.target_index")
	actionsKey      = attribute.Key("eventhook.actions")
	executionIDKey  = attribute.Key("eventhook.execution_id")
	kindKey         = attribute.Key("eventhook.kind")
	promiseKey      = attribute.Key("eventhook.promise_status")
)

// system is the messaging.system of events and work.
const system = "eventhook"

// eventAttributes describe an event.
func eventAttributes(e *eventhook.Event) []attribute.KeyValue {
	list := []attribute.KeyValue{eventIDKey.String(e.ID.String()), tenantIDKey.String(e.TenantID.String())}
	if e.EventType != "" {
		list = append(list, eventTypeKey.String(text(e.EventType)))
	}
	if e.SourceSlug != "" {
		list = append(list, sourceKey.String(e.SourceSlug))
	}
	return list
}

// messageAttributes describe the creation of a message with an id.
func messageAttributes(operation, destination, id string) []attribute.KeyValue {
	return []attribute.KeyValue{semconv.MessagingSystemKey.String(system), semconv.MessagingOperationTypeKey.String("create"),
		semconv.MessagingOperationNameKey.String(operation), semconv.MessagingDestinationName(text(destination)), semconv.MessagingMessageID(id)}
}

// cloudEvent describes an event as subscribers get it.
func cloudEvent(id eventhook.EventID, kind, source string) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.CloudEventsEventID(id.String()), semconv.CloudEventsEventType(text(kind))}
	if source != "" {
		list = append(list, semconv.CloudEventsEventSource(text(source)))
	}
	return list
}

// knownMethods are the methods that http.request.method may have (semantic conventions).
var knownMethods = []string{http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
	http.MethodPost, http.MethodPut, http.MethodTrace}

// methodOf returns the method of a request for the name of its span and for http.request.method.
func methodOf(method string) (name, value string) {
	if slices.Contains(knownMethods, method) {
		return method, method
	}
	return "HTTP", "_OTHER"
}

// serverAttributes describe a request to the gateway, without its path and its query.
func serverAttributes(r *http.Request, route string, status int) []attribute.KeyValue {
	_, method := methodOf(r.Method)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	list := append(addressAttributes(r.Host), semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route), semconv.URLScheme(scheme),
		semconv.HTTPResponseStatusCode(status))
	if agent := r.UserAgent(); agent != "" {
		list = append(list, semconv.UserAgentOriginal(text(agent)))
	}
	return list
}

// addressAttributes describe the host and the port of a server.
func addressAttributes(hostPort string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(text(hostPort))}
	}
	list := []attribute.KeyValue{semconv.ServerAddress(text(host))}
	if n, err := strconv.Atoi(port); err == nil {
		list = append(list, semconv.ServerPort(n))
	}
	return list
}
