package ingest

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	neturl "net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// handshake is how a provider checks that a URL expects its webhooks. A handshake stores no
// event. It stays enabled for the life of a source, because many providers repeat it.
//
// A request is first passed to the unsigned step of its method. If that step does not
// recognize it, the request is verified and then passed to the signed step. If that step
// does not recognize it either, the request is an event.
type handshake struct {
	unsigned methodSteps // before verification: any sender can send such a request
	signed   methodSteps // after verification
	silent   bool        // the response to an unverified request has no body
}

// methodSteps has a step for each HTTP method.
type methodSteps map[string]step

// step returns the reply to a handshake or its refusal. It returns nil, nil if the
// request is not a handshake. If a request could be an event, a step must return
// nil, nil. A step has no side effects; the side effects of a handshake are in
// reply.action.
type step func(in received) (*reply, *refusal)

// handshakes has all handshakes by the name that presets use.
var handshakes = map[string]handshake{
	"adyen":            {unsigned: methodSteps{http.MethodPost: adyenTest}},
	"asana":            {unsigned: methodSteps{http.MethodPost: learnHeader}},
	"aws-sns":          {signed: methodSteps{http.MethodPost: confirmTopic}},
	"azure-event-grid": {unsigned: methodSteps{http.MethodOptions: permitOrigin}, signed: methodSteps{http.MethodPost: validateGrid}},
	"braintree":        {unsigned: methodSteps{http.MethodGet: proveToBraintree}},
	"challenge":        {unsigned: methodSteps{http.MethodGet: echoChallenge}},
	"cloudevents":      {unsigned: methodSteps{http.MethodOptions: permitOrigin}},
	"discord":          {signed: methodSteps{http.MethodPost: answerPing}},
	"ebay":             {unsigned: methodSteps{http.MethodGet: proveToEbay}},
	"fastly":           {}, // asks the host, not the source: handshake_fastly.go
	"google-sync":      {signed: methodSteps{http.MethodPost: acceptSync}},
	"linkedin":         {unsigned: methodSteps{http.MethodGet: proveToLinkedIn}},
	"meta":             {unsigned: methodSteps{http.MethodGet: echoHub}},
	"microsoft":        {unsigned: methodSteps{http.MethodPost: echoValidationToken}},
	"monday":           {unsigned: methodSteps{http.MethodPost: echoOnlyMember}},
	"notion":           {unsigned: methodSteps{http.MethodPost: learnMember}},
	"okta":             {signed: methodSteps{http.MethodGet: echoOktaHeader}},
	"slack":            {signed: methodSteps{http.MethodPost: echoSlack}},
	"smartsheet":       {unsigned: methodSteps{http.MethodPost: echoSmartsheet}},
	"strava":           {unsigned: methodSteps{http.MethodGet: echoHubJSON}},
	"trello":           {unsigned: methodSteps{http.MethodHead: acceptHead}},
	"twitch":           {signed: methodSteps{http.MethodPost: echoTwitch}},
	"websub":           {unsigned: methodSteps{http.MethodGet: confirmWebSub}},
	"woocommerce":      {unsigned: methodSteps{http.MethodPost: acceptWooPing}},
	"x":                {unsigned: methodSteps{http.MethodGet: proveToX}},
	"xero":             {signed: methodSteps{http.MethodPost: acceptIntent}, silent: true},
	"zoom":             {signed: methodSteps{http.MethodPost: proveToZoom}},
}

// exists reports whether the handshake has any steps.
func (s handshake) exists() bool { return len(s.unsigned)+len(s.signed) > 0 }

// handshakeConfig is the part of a source's configuration that its handshake uses.
type handshakeConfig struct {
	handshake     handshake
	options       map[string]string
	secret        eventhook.Secret // the newest one
	awaitsSecret  bool             // the source has no secret yet
	neverVerifies bool             // the source accepts unsigned requests
}

func newHandshakeConfig(config eventhook.Source, r verify.Resolved) handshakeConfig {
	c := handshakeConfig{handshake: handshakes[r.Preset.Handshake], options: r.Options, awaitsSecret: r.Waiting && !isUnconfirmed(config, r),
		neverVerifies: r.Config.Type == "none"}
	if len(r.Secrets) > 0 {
		c.secret = eventhook.NewSecret(r.Secrets[0])
	}
	return c
}

// allowsMethod reports whether the source accepts events or handshakes with a method.
func (s *source) allowsMethod(method string) bool {
	return slices.Contains(s.methods, method) || s.handshake.unsigned[method] != nil || s.handshake.signed[method] != nil
}

// allowedMethods returns the allowed methods as the value of an Allow header.
func (s *source) allowedMethods() string {
	methods := slices.Concat(s.methods, slices.Collect(maps.Keys(s.handshake.unsigned)), slices.Collect(maps.Keys(s.handshake.signed)))
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods), ", ")
}

// received is a request to a source whose body has been read.
type received struct {
	*verify.Request
	source *source
	at     address
	client netip.Addr
}

// answerHandshake runs a step, if there is one. Both results are nil if the request is not a
// handshake. A refused handshake is charged to its client's budget of forgeries, and an
// answered one counts against limit.
func (h *Handler) answerHandshake(ctx context.Context, s step, in received, limit requestRate) (*reply, *refusal) {
	if s == nil {
		return nil, nil
	}
	reply, refused := s(in)
	if reply != nil {
		refused = h.prepareReply(ctx, reply, in, limit)
	}
	if refused != nil {
		return nil, h.chargeForgery(in.client, refused).withBody(in.Body)
	}
	return reply, nil
}

// prepareReply counts a handshake against limit and runs the action of its reply. The
// action continues if the sender disconnects, so that it is not left half done.
func (h *Handler) prepareReply(ctx context.Context, p *reply, in received, limit requestRate) *refusal {
	if wait := limit.take(h.now()); wait > 0 {
		return &refusal{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	if p.action == nil {
		return nil
	}
	return p.action(context.WithoutCancel(ctx), h, in)
}

// malformed refuses a handshake that does not have the provider's form. The detail is for
// users of the tenant and must not contain anything that was sent.
func malformed(detail string) *refusal {
	return &refusal{outcome: OutcomeHandshakeMalformed, detail: detail}
}

// unwanted refuses a well-formed handshake, for example because of a wrong token. The detail
// is as for malformed.
func unwanted(detail string) *refusal {
	return &refusal{outcome: OutcomeHandshakeRefused, detail: detail}
}

// query returns the parameters of the URL.
func (in received) query() (neturl.Values, error) {
	_, raw, _ := strings.Cut(in.URL, "?")
	return neturl.ParseQuery(raw)
}

// parameters returns the named parameters of the URL. It refuses the request as malformed
// unless each of them occurs exactly once and can be echoed (see isEcho).
func (in received) parameters(names ...string) (map[string]string, *refusal) {
	query, err := in.query()
	if err != nil {
		return nil, malformed("the query cannot be read")
	}
	found := make(map[string]string, len(names))
	for _, name := range names {
		text, ok := only(query[name])
		if !ok {
			return nil, malformed("the parameter " + name + " is missing, repeated, too long or not plain text")
		}
		found[name] = text
	}
	return found, nil
}

// header returns a header that occurs exactly once and can be echoed; only then ok is true.
// found reports whether it occurs at all.
func (in received) header(name string) (text string, found, ok bool) {
	values := in.Header.Values(name)
	text, ok = only(values)
	return text, len(values) > 0, ok
}

// only returns the only element of a list if it can be echoed.
func only(values []string) (string, bool) {
	if len(values) != 1 || !isEcho(values[0]) {
		return "", false
	}
	return values[0], true
}

// isEcho reports whether a text can be sent back to its sender: 1 to 4096 bytes of UTF-8
// without control characters.
func isEcho(s string) bool {
	const maxBytes = 4096
	return s != "" && len(s) <= maxBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
