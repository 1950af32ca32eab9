package send

import (
	"cmp"
	"net/textproto"

	"github.com/eventhook/eventhook"
)

// headerNames are the canonical names of the gateway's own headers of a subscription, which
// begin with its header_prefix.
type headerNames struct{ signature, eventID, eventType, deliveryID, attempt, traceID string }

var defaultHeaderNames = newHeaderNames(eventhook.DefaultHeaderPrefix)

func headerNamesOf(s *eventhook.Subscription) headerNames {
	if cmp.Or(s.HeaderPrefix, eventhook.DefaultHeaderPrefix) == eventhook.DefaultHeaderPrefix {
		return defaultHeaderNames
	}
	return newHeaderNames(s.HeaderPrefix)
}

func newHeaderNames(prefix string) headerNames {
	name := func(end string) string { return textproto.CanonicalMIMEHeaderKey(prefix + end) }
	return headerNames{name("-Signature"), name("-Event-Id"), name("-Event-Type"), name("-Delivery-Id"), name("-Attempt"),
		name("-Trace-Id")}
}
