package send

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// Receiver sends the deliveries of one subscription. It has the parts of a request that
// are the same for each delivery. It never changes and is safe for concurrent use.
type Receiver struct {
	sender *HTTPSender
	sub    *eventhook.Subscription
	client Client // authenticates the requests
	url    *url.URL
	header http.Header // the custom headers of the subscription
	names  headerNames
	signer
	hidden  hidden
	blocked error // why no request can be sent, for example because the secrets are lost; nil: requests can be sent
}

var (
	errSecretsLost = errors.New("its secrets are sealed with a key that the gateway no longer has: set new secrets")
	errNoURL       = errors.New("it has no valid URL")
	errNoSecret    = errors.New("it has no secret to sign with")
)

// newReceiver returns the receiver of a subscription. Its errors are shown to users and
// contain no secrets.
func newReceiver(sender *HTTPSender, s *eventhook.Subscription) (*Receiver, error) {
	to, err := url.Parse(s.URL.Reveal())
	signer := newSigner(s)
	switch {
	case s.SecretsLost:
		return nil, errSecretsLost
	case err != nil || to.Host == "":
		return nil, errNoURL // url.Parse repeats the text
	case !signer.canSign():
		return nil, errNoSecret
	}
	auth, err := eventhook.OpenAuth(s.Auth)
	if err != nil {
		return nil, err
	}
	client, err := sender.deps.clientFor(auth)
	if err != nil {
		return nil, err
	}
	r := &Receiver{sender: sender, sub: s, client: client, url: to, header: http.Header{}, names: headerNamesOf(s), signer: signer,
		hidden: newHidden(s, auth, to)}
	for name, value := range s.Headers {
		r.header.Set(name, value)
	}
	if !s.AuthHeader.IsZero() && s.Format != eventhook.FormatPagerDuty { // there, it is the routing key in the body
		r.header.Set("Authorization", s.AuthHeader.Reveal())
	}
	return r, nil
}

// request returns the request of one attempt.
func (r *Receiver) request(d *eventhook.Delivery, attempt int, at time.Time, m message) *http.Request {
	body := m.body
	return &http.Request{
		Method: http.MethodPost, URL: r.url, Host: r.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.headers(d, attempt, at, m), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
}

// headers returns the headers of an attempt. A custom header of the subscription never
// replaces a header of the gateway.
func (r *Receiver) headers(d *eventhook.Delivery, attempt int, at time.Time, m message) http.Header {
	const maxHeaders = 14 // of the gateway
	event := d.Event
	id, trace := event.ID.String(), event.Trace()
	h := make(http.Header, maxHeaders+1+len(r.header))
	// net/http retries a request with this key at once if the receiver had closed the
	// idle connection. A key without values is not sent, see http.Transport.
	h["Idempotency-Key"] = nil
	for name, values := range r.header {
		h[name] = values
	}
	values := make([]string, 0, maxHeaders)
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Content-Type", m.mediaType)
	set("User-Agent", r.sender.deps.UserAgent)
	set("Webhook-Id", id)
	set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	set("Webhook-Signature", r.standardSignature(id, at, m.body))
	set(r.names.signature, r.bodySignature(m.body))
	set(r.names.eventID, id)
	set(r.names.eventType, headerText(event.EventType))
	set(r.names.deliveryID, d.ID.String())
	set(r.names.attempt, strconv.Itoa(attempt))
	set(r.names.traceID, trace)
	set(eventhook.HopsHeader, strconv.Itoa(event.Hops()+1))
	set("Traceparent", eventhook.Traceparent(trace, eventhook.NewSpanID(), event.TraceFlags()))
	if isLine(event.RequestID) {
		set("X-Request-Id", event.RequestID)
	}
	return h
}

// headerText returns s as a header value. If s has a % or a character other than visible
// ASCII, these characters are percent-encoded.
func headerText(s string) string {
	if isPlain(s) && !strings.Contains(s, "%") {
		return s
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isEscaped(rune(c)) || c == '%' {
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isLine reports whether s is a valid header value without encoding.
func isLine(s string) bool {
	return s != "" && strings.TrimSpace(s) == s && isPlain(strings.ReplaceAll(s, " ", ""))
}

func isPlain(s string) bool { return !strings.ContainsFunc(s, isEscaped) }

func isEscaped(c rune) bool { return c <= ' ' || c >= 0x7f }
