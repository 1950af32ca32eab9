package ingest

import (
	"context"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/verify"
)

// Explanation is what the gateway would make of a request to a source.
type Explanation struct {
	Err        error  // why it is not verified, a *verify.Error; nil: it is
	Scheme     string // of the provider, or the verifier's type where that is spelled out
	CoversBody bool   // a changed body would be noticed
	// Event is what would be stored, its headers redacted. There is one for a
	// request that is not verified too, since type and key help to see what it
	// is; the gateway never stores that one.
	Event *eventhook.Event
	// Handshake names the provider's handshake that would take the request, so
	// that nothing is stored; "" if none would. Some take it unverified.
	Handshake string
	// Refused is the outcome of a request that would not be taken, verified or
	// not: for its method, say, or a handshake that is not right; "" if it would.
	Refused Outcome
	// RefusedWhy tells more of it, where there is more to tell.
	RefusedWhy string
}

// Explain judges a request as the gateway would at the moment r.At, and stores
// nothing. Whether the source is enabled, its limits and its allowlist do not
// count. keys may be nil, see verify.New. The error is of KindInvalid if the
// source's verifier is not valid, or if CheckRequest finds faults.
func Explain(ctx context.Context, s eventhook.Source, publicURL string, keys verify.Keys, r *verify.Request) (Explanation, error) {
	if err := CheckRequest(r).Err("the request is not valid"); err != nil {
		return Explanation{}, err
	}
	resolved, err := resolve(s)
	if err != nil {
		return Explanation{}, err
	}
	end, err := newEndpoint(s, publicURL, keys)
	if err != nil {
		return Explanation{}, err
	}
	sent, host := asReceived(r)
	x := Explanation{Scheme: resolved.Scheme, CoversBody: resolved.Config.CoversBody(), Err: end.verifier.Verify(ctx, sent)}
	head := appendHeaders(nil, host, sent.Header, end.redact)
	view, viewErr := end.view(sent.Header, sent.Body, unlimited{})
	if viewErr != nil {
		view = payload.New(nil, sent.Header, "", sent.Body).SetContent(nil)
	}
	x.Event = end.event(sent.Header, eventhook.Payload{Headers: head, Body: sent.Body}, view, sent.At)
	if x.Err == nil {
		x.Event.SignedHash = end.signedHash(sent)
	}
	switch outcome, why := end.handshakeWith(sent, x.Err == nil); outcome {
	case "":
		if x.Refused = end.wouldRefuse(sent, x.Event); viewErr != nil && x.Refused != OutcomeMethod {
			x.Refused, x.RefusedWhy = OutcomeTooLarge, "its decoded body is larger than the source allows"
		}
	case OutcomeHandshake:
		x.Handshake = resolved.Preset.Handshake
	default:
		x.Handshake, x.Refused, x.RefusedWhy = resolved.Preset.Handshake, outcome, why
	}
	return x, nil
}

// handshakeWith is OutcomeHandshake for a request that the provider's
// handshake would answer, its refusal if it would refuse it, and "" for any
// other. Nothing is done but look.
func (e *endpoint) handshakeWith(r *verify.Request, verified bool) (o Outcome, why string) {
	c := challenge{Request: r, end: e, at: address{e.source.TenantSlug, e.source.Slug}}
	tries := []step{e.handshake.unsigned[r.Method]}
	if verified {
		tries = append(tries, e.handshake.signed[r.Method])
	}
	for _, look := range tries {
		if look == nil {
			continue
		}
		switch reply, no := look(c); {
		case no != nil:
			return no.outcome, no.detail
		case reply != nil:
			return OutcomeHandshake, ""
		}
	}
	return "", ""
}

// wouldRefuse is the outcome of a request that makes no event whatever it
// proves, "" if it may.
func (e *endpoint) wouldRefuse(r *verify.Request, made *eventhook.Event) Outcome {
	switch {
	case !e.takes(r.Method):
		return OutcomeMethod
	case len(r.Body) > e.bodyLimit:
		return OutcomeTooLarge
	case !slices.Contains(e.methods, r.Method):
		return OutcomeHandshakeMalformed
	case !e.accepts(r.Header.Get("Content-Type")):
		return OutcomeContentType
	case !decodes(r.Header):
		return OutcomeEncoding
	case made.IdempotencyKey == "" && e.source.RequireIdempotencyKey:
		return OutcomeKeyMissing
	}
	return ""
}

// asReceived is the request as a server sees it: the host is no header.
func asReceived(r *verify.Request) (sent *verify.Request, host string) {
	received := *r
	received.Header = r.Header.Clone()
	if u, err := neturl.Parse(r.URL); err == nil {
		host = u.Host
	}
	if own := r.Header.Get("Host"); own != "" {
		host = own
	}
	received.Header.Del("Host")
	return &received, host
}

// CheckRequest reports what no request of HTTP could be.
func CheckRequest(r *verify.Request) eventhook.Faults {
	var f eventhook.Faults
	if !verify.IsToken(r.Method) {
		f.Add("method", "is not a method of HTTP")
	}
	if u, err := neturl.Parse(r.URL); r.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		f.Add("url", "want a whole URL, such as https://hooks.example/in?a=b")
	}
	for name, values := range r.Header {
		at := "headers." + eventhook.SanitizeLabel(name)
		if !verify.IsToken(name) {
			f.Add(at, "is not the name of a header")
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) {
				f.Add(at, "holds a control character, which a header cannot carry")
			}
		}
	}
	return f
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// NewHeader makes the headers of a request from names in any case.
func NewHeader(fields map[string][]string) http.Header {
	header := make(http.Header, len(fields))
	for name, values := range fields {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	return header
}
