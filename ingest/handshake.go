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

// handshake is how a provider finds out that a URL wants its webhooks. It
// stores no event, and it stays on for the life of the source, since many
// providers ask again.
type handshake struct {
	unsigned steps // judged before verification: the request proves nothing
	signed   steps // judged after it
	silent   bool  // a request that is not verified is refused without a body
}

// steps are by the method of the request.
type steps map[string]step

// step answers a handshake or refuses it. Both are nil if the request is not
// one: it may be an event, so a step takes nothing for a handshake that could
// be one. Steps do nothing but look; what must be done is reply.first.
type step func(c challenge) (*reply, *refused)

// handshakes are all there are, by the name that presets call them.
var handshakes = map[string]handshake{
	"adyen":            {unsigned: steps{http.MethodPost: adyenTest}},
	"asana":            {unsigned: steps{http.MethodPost: learnHeader}},
	"aws-sns":          {signed: steps{http.MethodPost: confirmTopic}},
	"azure-event-grid": {unsigned: steps{http.MethodOptions: permitOrigin}, signed: steps{http.MethodPost: validateGrid}},
	"braintree":        {unsigned: steps{http.MethodGet: proveToBraintree}},
	"challenge":        {unsigned: steps{http.MethodGet: echoChallenge}},
	"cloudevents":      {unsigned: steps{http.MethodOptions: permitOrigin}},
	"discord":          {signed: steps{http.MethodPost: answerPing}},
	"ebay":             {unsigned: steps{http.MethodGet: proveToEbay}},
	"fastly":           {}, // asks the host, not the source: handshake_fastly.go
	"google-sync":      {signed: steps{http.MethodPost: acceptSync}},
	"linkedin":         {unsigned: steps{http.MethodGet: proveToLinkedIn}},
	"meta":             {unsigned: steps{http.MethodGet: echoHub}},
	"microsoft":        {unsigned: steps{http.MethodPost: echoValidationToken}},
	"monday":           {unsigned: steps{http.MethodPost: echoOnlyMember}},
	"notion":           {unsigned: steps{http.MethodPost: learnMember}},
	"okta":             {signed: steps{http.MethodGet: echoOktaHeader}},
	"slack":            {signed: steps{http.MethodPost: echoSlack}},
	"smartsheet":       {unsigned: steps{http.MethodPost: echoSmartsheet}},
	"strava":           {unsigned: steps{http.MethodGet: echoHubJSON}},
	"trello":           {unsigned: steps{http.MethodHead: acceptHead}},
	"twitch":           {signed: steps{http.MethodPost: echoTwitch}},
	"websub":           {unsigned: steps{http.MethodGet: confirmWebSub}},
	"woocommerce":      {unsigned: steps{http.MethodPost: acceptWooPing}},
	"x":                {unsigned: steps{http.MethodGet: proveToX}},
	"xero":             {signed: steps{http.MethodPost: acceptIntent}, silent: true},
	"zoom":             {signed: steps{http.MethodPost: proveToZoom}},
}

// exists reports whether there are any steps.
func (s handshake) exists() bool { return len(s.unsigned)+len(s.signed) > 0 }

// shaker is what a source's handshake needs to know of it.
type shaker struct {
	handshake  handshake
	options    map[string]string
	secret     eventhook.Secret // the newest
	waiting    bool             // for its first secret
	unverified bool             // its requests prove nothing, ever
}

func newShaker(source eventhook.Source, r verify.Resolved) shaker {
	s := shaker{handshake: handshakes[r.Preset.Handshake], options: r.Options, waiting: r.Waiting && !isUnconfirmed(source, r),
		unverified: r.Config.Type == "none"}
	if len(r.Secrets) > 0 {
		s.secret = eventhook.NewSecret(r.Secrets[0])
	}
	return s
}

// takes reports whether requests of a method are looked at.
func (e *endpoint) takes(method string) bool {
	return slices.Contains(e.methods, method) || e.handshake.unsigned[method] != nil || e.handshake.signed[method] != nil
}

// allow lists the methods that are taken.
func (e *endpoint) allow() string {
	methods := slices.Concat(e.methods, slices.Collect(maps.Keys(e.handshake.unsigned)), slices.Collect(maps.Keys(e.handshake.signed)))
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods), ", ")
}

// challenge is a request that may be a handshake.
type challenge struct {
	*verify.Request
	end    *endpoint
	at     address
	client netip.Addr
}

// shake takes a step, if there is one. Both answers are nil if the request is
// no handshake. One that is refused uses its client's budget of forgeries, and
// one that is answered uses p.
func (h *Handler) shake(ctx context.Context, s step, c challenge, p pace) (*reply, *refused) {
	if s == nil {
		return nil, nil
	}
	reply, no := s(c)
	if reply != nil {
		no = h.prepare(ctx, reply, c, p)
	}
	if no != nil {
		return nil, h.overdrawn(c.client, no).having(c.Body)
	}
	return reply, nil
}

// prepare counts a handshake, and does what must be done before the reply is
// true. That goes on when the sender leaves: it would be half done.
func (h *Handler) prepare(ctx context.Context, p *reply, c challenge, use pace) *refused {
	if wait := use.take(h.now()); wait > 0 {
		return &refused{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	if p.first == nil {
		return nil
	}
	return p.first(context.WithoutCancel(ctx), h, c)
}

// malformed and unwanted refuse a handshake; the detail is for the source's
// people and holds nothing that was sent.
func malformed(detail string) *refused {
	return &refused{outcome: OutcomeHandshakeMalformed, detail: detail}
}

func unwanted(detail string) *refused {
	return &refused{outcome: OutcomeHandshakeRefused, detail: detail}
}

// query are the parameters of the URL.
func (c challenge) query() (neturl.Values, error) {
	_, raw, _ := strings.Cut(c.URL, "?")
	return neturl.ParseQuery(raw)
}

// parameters are some of them by name. They are malformed unless each is there
// once, and may be repeated to the sender.
func (c challenge) parameters(names ...string) (map[string]string, *refused) {
	query, err := c.query()
	if err != nil {
		return nil, malformed("the query cannot be read")
	}
	found := make(map[string]string, len(names))
	for _, name := range names {
		text, ok := only(query[name])
		if !ok {
			return nil, malformed("the parameter " + name + " is absent, repeated, too long or not plain text")
		}
		found[name] = text
	}
	return found, nil
}

// header is a header that is there once and may be repeated to the sender.
// found says that it is there at all.
func (c challenge) header(name string) (text string, found, ok bool) {
	values := c.Header.Values(name)
	text, ok = only(values)
	return text, len(values) > 0, ok
}

// only is the one element of a list, if it may be repeated to the sender.
func only(values []string) (string, bool) {
	if len(values) != 1 || !isEcho(values[0]) {
		return "", false
	}
	return values[0], true
}

// isEcho reports whether a text may be repeated to whoever sent it: 1 to 4096
// bytes without control characters.
func isEcho(s string) bool {
	const most = 4096
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
