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
	// ours are the headers that the gateway says something with.
	ours = []string{"Content-Type", "Idempotency-Key", "Traceparent", "User-Agent", "X-Request-Id"}
	// forwarding tell of the way to us, which ends here: what they say of the
	// sender the receiver would take for the way to itself.
	forwarding = []string{"Forwarded", "Via", "X-Forwarded", "X-Real-Ip", "True-Client-Ip", "Fly-Client-Ip", "Fastly-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip"}
	// rewriting have a proxy or a framework take a request for another: its
	// method, its path, the file to answer with, who has been let in. A webhook
	// is anybody's to write; from us, the receiver may trust them.
	rewriting = []string{"Proxy", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Rewrite-Url"}
	// notPassedOn begin such headers. Cloudflare's own webhooks prove who they
	// are in Cf-Webhook-Auth, and so not all of Cf- is there.
	notPassedOn = []string{eventhook.GatewayHeaderPrefix, "X-Forwarded-", "X-Original-", "Proxy-", "X-Envoy-", "X-Accel-", "X-Sendfile",
		"Cf-Access-", "Cf-Connecting-", "Cf-Ip", "Cf-Pseudo-", "Cf-Ray", "Cf-Visitor", "Cf-Worker"}
	// credentials are never passed on.
	credentials = []string{"Authorization", "Cookie"}
)

// passOn copies the headers that a webhook came with, but for those that were
// meant for us alone.
func passOn(to http.Header, from payload.HeaderBlock) {
	var named []string // in Connection
	for name, value := range from.All() {
		if strings.EqualFold(name, "Connection") {
			for one := range strings.SplitSeq(value, ",") {
				named = append(named, http.CanonicalHeaderKey(strings.TrimSpace(one)))
			}
		}
	}
	for name, value := range from.All() {
		canonical := http.CanonicalHeaderKey(name)
		if eventhook.IsHeaderName(name) && !isOnlyForUs(canonical, value) && !slices.Contains(named, canonical) {
			to.Add(name, value)
		}
	}
}

func isOnlyForUs(name, value string) bool {
	name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) // CGI, and what descends from it, takes them for the same
	return eventhook.IsHopByHop(name) || slices.Contains(forwarding, name) || slices.Contains(rewriting, name) || slices.Contains(credentials, name) ||
		slices.ContainsFunc(notPassedOn, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
		name == "Idempotency-Key" || name == "Traceparent" || name == "User-Agent" ||
		value == eventhook.Redacted || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// introduce sets the headers by which the receiver knows the event and the attempt.
func (r *HTTP) introduce(h http.Header, e *eventhook.Event, attempt int) {
	h.Set("Idempotency-Key", e.ID.String()+"/"+r.place)
	h.Set(eventhook.GatewayHeaderPrefix+"Event-Id", e.ID.String())
	h.Set(eventhook.GatewayHeaderPrefix+"Attempt", strconv.Itoa(attempt))
	for name, value := range map[string]string{eventhook.GatewayHeaderPrefix + "Event-Type": e.EventType, "X-Request-Id": e.RequestID} {
		if value = strings.TrimSpace(value); value != "" && eventhook.IsHeaderValue(value) {
			h.Set(name, value)
		}
	}
}

// traceFlags are the last two digits of the traceparent that an event came with
// (W3C Trace Context, section 3.2.2.5), else that it is sampled.
func traceFlags(e *eventhook.Event, v *payload.View) string {
	const before = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-")
	if parent := v.Header("Traceparent"); len(parent) == before+len("01") && strings.Contains(parent, e.Trace()) {
		return parent[before:]
	}
	return "01"
}
