package targets

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

var (
	// gatewayHeaders are set by the gateway, so a route cannot configure them.
	gatewayHeaders = []string{"Content-Type", "Idempotency-Key", "Traceparent", "User-Agent", "X-Request-Id"}
	// forwardingHeaders describe how the webhook reached the gateway. A receiver would misread them
	// as the path of the gateway's request.
	forwardingHeaders = []string{"Forwarded", "Via", "X-Forwarded", "X-Real-Ip", "True-Client-Ip", "Fly-Client-Ip", "Fastly-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip"}
	// rewritingHeaders make a proxy or a framework change the method, the path, the file to serve
	// or the authenticated user of a request. A sender can set them freely, and the receiver may
	// trust them in a request from the gateway.
	rewritingHeaders = []string{"Proxy", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Rewrite-Url"}
	// droppedPrefixes are prefixes of forwarding and rewriting headers. The prefix Cf- is not
	// listed as a whole, because Cloudflare authenticates its webhooks with Cf-Webhook-Auth.
	droppedPrefixes = []string{eventhook.GatewayHeaderPrefix, "X-Forwarded-", "X-Original-", "Proxy-", "X-Envoy-", "X-Accel-", "X-Sendfile",
		"Cf-Access-", "Cf-Connecting-", "Cf-Ip", "Cf-Pseudo-", "Cf-Ray", "Cf-Visitor", "Cf-Worker"}
	// credentialHeaders would give the sender's credentials to the receiver.
	credentialHeaders = []string{"Authorization", "Cookie"}
)

// copyHeaders copies the headers of a webhook to a request, except hop-by-hop headers and headers
// that must not reach the receiver.
func copyHeaders(to http.Header, from payload.HeaderBlock) {
	var connectionHeaders []string // named in Connection
	for name, value := range from.All() {
		if strings.EqualFold(name, "Connection") {
			for option := range strings.SplitSeq(value, ",") {
				connectionHeaders = append(connectionHeaders, http.CanonicalHeaderKey(strings.TrimSpace(option)))
			}
		}
	}
	for name, value := range from.All() {
		canonical := http.CanonicalHeaderKey(name)
		if eventhook.IsHeaderName(name) && !isDropped(canonical, value) && !slices.Contains(connectionHeaders, canonical) {
			to.Add(name, value)
		}
	}
}

// isDropped reports whether a header must not reach the receiver. Header names are compared in
// canonical form.
func isDropped(name, value string) bool {
	name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) // CGI and its successors treat - and _ alike
	return eventhook.IsHopByHop(name) || slices.Contains(forwardingHeaders, name) || slices.Contains(rewritingHeaders, name) || slices.Contains(credentialHeaders, name) ||
		slices.ContainsFunc(droppedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
		name == "Idempotency-Key" || name == "Traceparent" || name == "User-Agent" ||
		value == eventhook.Redacted || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// addEventHeaders sets the headers that identify the event and the attempt to the receiver.
func (r *HTTP) addEventHeaders(h http.Header, e *eventhook.Event, attempt int) {
	h.Set("Idempotency-Key", e.ID.String()+"/"+r.idempotencyPrefix)
	h.Set(eventhook.GatewayHeaderPrefix+"Event-Id", e.ID.String())
	h.Set(eventhook.GatewayHeaderPrefix+"Attempt", strconv.Itoa(attempt))
	h.Set(eventhook.HopsHeader, strconv.Itoa(e.Hops()+1))
	for name, value := range map[string]string{eventhook.GatewayHeaderPrefix + "Event-Type": e.EventType, "X-Request-Id": e.RequestID} {
		if value = strings.TrimSpace(value); value != "" && eventhook.IsHeaderValue(value) {
			h.Set(name, value)
		}
	}
}
