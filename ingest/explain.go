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

// Explanation says how the gateway would handle a request to a source.
type Explanation struct {
	Err        error  // a *verify.Error if the request is not verified, else nil
	Scheme     string // of the provider, or the type of a verifier without a provider
	CoversBody bool   // the verifier detects a changed body
	// Event is the event with redacted headers. It is set for unverified requests, too,
	// because its type and key help to recognize the request; the gateway would not store it.
	Event *eventhook.Event
	// Handshake names the provider's handshake that the request matches, so that no event is
	// stored. It is "" if the request is not a handshake. Some handshakes match before verification.
	Handshake string
	// Refused is the outcome if the request would be refused for another reason than its
	// verification, such as its method or a malformed handshake. Otherwise it is "".
	Refused Outcome
	// RefusedWhy is a detail of Refused, or "".
	RefusedWhy string
}

// Explain evaluates a request as the gateway would at the time r.At, and stores nothing. It
// ignores whether the source is enabled, its rate limit and its allowlist. keys may be nil,
// see verify.New. The error is of KindInvalid if the source's verifier is invalid or if
// CheckRequest finds faults.
func Explain(ctx context.Context, s eventhook.Source, publicURL string, keys verify.Keys, r *verify.Request) (Explanation, error) {
	if err := CheckRequest(r).Err("the request is not valid"); err != nil {
		return Explanation{}, err
	}
	resolved, err := resolve(s)
	if err != nil {
		return Explanation{}, err
	}
	src, err := newSource(s, publicURL, keys)
	if err != nil {
		return Explanation{}, err
	}
	sent, host := asReceived(r)
	match, err := verify.Identify(ctx, src.verifier, sent)
	x := Explanation{Scheme: resolved.Scheme, CoversBody: resolved.Config.CoversBody(), Err: err}
	head := payload.HeaderBlock(appendHeaders(nil, host, sent.Header, src.redact))
	if err == nil {
		head = src.appendVerified(head, match)
	}
	view, viewErr := src.view(sent.Header, sent.Body, unlimited{})
	if viewErr != nil {
		view = payload.New(nil, sent.Header, "", sent.Body).SetContent(nil)
	}
	x.Event = src.newEvent(sent.Header, eventhook.Payload{Headers: head, Body: sent.Body}, view, sent.At)
	if x.Err == nil {
		x.Event.SignedHash = src.signedHash(sent)
	}
	switch outcome, why := src.handshakeOutcome(sent, x.Err == nil); outcome {
	case "":
		if x.Refused = src.refusalOutcome(sent, x.Event); viewErr != nil && x.Refused != OutcomeMethod {
			x.Refused, x.RefusedWhy = OutcomeTooLarge, "the decoded body is larger than the source allows"
		}
	case OutcomeHandshake:
		x.Handshake = resolved.Preset.Handshake
	default:
		x.Handshake, x.Refused, x.RefusedWhy = resolved.Preset.Handshake, outcome, why
	}
	return x, nil
}

// handshakeOutcome returns OutcomeHandshake if the provider's handshake would answer the
// request, the outcome and detail of the refusal if the handshake would refuse it, and ""
// if the request is not a handshake. It has no side effects.
func (s *source) handshakeOutcome(r *verify.Request, verified bool) (o Outcome, why string) {
	in := received{Request: r, source: s, at: address{s.config.TenantSlug, s.config.Slug}}
	steps := []step{s.handshake.unsigned[r.Method]}
	if verified {
		steps = append(steps, s.handshake.signed[r.Method])
	}
	for _, step := range steps {
		if step == nil {
			continue
		}
		switch reply, refused := step(in); {
		case refused != nil:
			return refused.outcome, refused.detail
		case reply != nil:
			return OutcomeHandshake, ""
		}
	}
	return "", ""
}

// refusalOutcome returns the outcome of a request that is not a handshake and that the
// source refuses even if it is genuine. It returns "" for a request that it accepts.
func (s *source) refusalOutcome(r *verify.Request, e *eventhook.Event) Outcome {
	switch {
	case !s.allowsMethod(r.Method):
		return OutcomeMethod
	case len(r.Body) > s.bodyLimit:
		return OutcomeTooLarge
	case !slices.Contains(s.methods, r.Method):
		return OutcomeHandshakeMalformed
	case !s.allowsContentType(r.Header.Get("Content-Type")):
		return OutcomeContentType
	case !isDecodable(r.Header):
		return OutcomeEncoding
	case e.IdempotencyKey == "" && s.config.RequireIdempotencyKey:
		return OutcomeKeyMissing
	}
	return ""
}

// asReceived returns the request as a net/http server sees it, with the host apart from the
// headers.
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

// CheckRequest reports the parts of a request that are invalid in HTTP.
func CheckRequest(r *verify.Request) eventhook.Faults {
	var f eventhook.Faults
	if !verify.IsToken(r.Method) {
		f.Add("method", "is not an HTTP method")
	}
	if u, err := neturl.Parse(r.URL); r.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		f.Add("url", "must be an absolute URL, such as https://hooks.example/in?a=b")
	}
	for name, values := range r.Header {
		at := "headers." + eventhook.SanitizeLabel(name)
		if !verify.IsToken(name) {
			f.Add(at, "is not a valid header name")
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) {
				f.Add(at, "contains a control character, which HTTP does not allow in a header")
			}
		}
	}
	return f
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// NewHeader returns request headers from names in any case.
func NewHeader(fields map[string][]string) http.Header {
	header := make(http.Header, len(fields))
	for name, values := range fields {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	return header
}
