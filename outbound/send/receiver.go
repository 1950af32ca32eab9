package send

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// Receiver is where one subscription's deliveries go, and how they are signed:
// whatever is the same for each. It never changes.
type Receiver struct {
	sender *HTTPSender
	of     *eventhook.Subscription
	url    *url.URL
	header http.Header // what the subscription adds
	signer
	hidden  hidden
	blocked error // why nothing can be sent, such as secrets that are lost; else nil
}

var (
	errSecretsLost = errors.New("its secrets are sealed with a key that the gateway no longer has: give it new ones")
	errNoURL       = errors.New("it has no valid URL")
	errNoSecret    = errors.New("it has no secret to sign with")
)

// newReceiver fails in words for people, without secrets.
func newReceiver(sender *HTTPSender, s *eventhook.Subscription) (*Receiver, error) {
	to, err := url.Parse(s.URL.Reveal())
	of := newSigner(s)
	switch {
	case s.SecretsLost:
		return nil, errSecretsLost
	case err != nil || to.Host == "":
		return nil, errNoURL // url.Parse repeats the text
	case !of.isAble():
		return nil, errNoSecret
	}
	e := &Receiver{sender: sender, of: s, url: to, header: http.Header{}, signer: of, hidden: newHidden(s, to)}
	for name, value := range s.Headers {
		e.header.Set(name, value)
	}
	if !s.AuthHeader.IsZero() {
		e.header.Set("Authorization", s.AuthHeader.Reveal())
	}
	return e, nil
}

// request is one attempt, as it is sent: the body that every attempt has, and
// headers that are this one's.
func (r *Receiver) request(d *eventhook.Delivery, attempt int, at time.Time, userAgent string) *http.Request {
	body := Body(d.Event)
	return &http.Request{
		Method: http.MethodPost, URL: r.url, Host: r.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.introduce(d, attempt, at, body, userAgent), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
}

// introduce makes the headers. What the subscription adds cannot stand for one
// of ours, whatever it is called.
func (r *Receiver) introduce(d *eventhook.Delivery, attempt int, at time.Time, body []byte, userAgent string) http.Header {
	const ours = 13
	event := d.Event
	id, trace := event.ID.String(), event.Trace()
	h := make(http.Header, ours+1+len(r.header))
	// A connection that the receiver has closed meanwhile costs no attempt: a key
	// without a value is not sent, and has the client send again what was not answered.
	h["Idempotency-Key"] = nil
	for name, values := range r.header {
		h[name] = values
	}
	values := make([]string, 0, ours)
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Content-Type", "application/json")
	set("User-Agent", userAgent)
	set("Webhook-Id", id)
	set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	set("Webhook-Signature", r.standard(id, at, body))
	set("X-Eventhook-Signature", r.plain(body))
	set("X-Eventhook-Event-Id", id)
	set("X-Eventhook-Event-Type", headerText(event.EventType))
	set("X-Eventhook-Delivery-Id", d.ID.String())
	set("X-Eventhook-Attempt", strconv.Itoa(attempt))
	set("X-Eventhook-Trace-Id", trace)
	set("Traceparent", traceparent(trace, event.Envelope))
	if isLine(event.RequestID) {
		set("X-Request-Id", event.RequestID)
	}
	return h
}

// traceparent is that of W3C Trace Context, with a new span.
func traceparent(trace string, of *eventhook.Envelope) string {
	flags := "01"
	if of != nil && len(of.TraceFlags) == len(flags) && strings.Trim(of.TraceFlags, "0123456789abcdef") == "" {
		flags = of.TraceFlags
	}
	const size = 8
	var span [size]byte
	for i, bits := 0, rand.Uint64()|1; i < size; i, bits = i+1, bits>>8 { //nolint:gosec // unique, not secret
		span[i] = byte(bits)
	}
	return "00-" + trace + "-" + hex.EncodeToString(span[:]) + "-" + flags
}

// headerText is a text as a header's value: percent-encoded as in a URL, where
// it is not visible ASCII. Text that is, but for %, stays as it is.
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

// isLine reports whether a text can be a header's value as it is.
func isLine(s string) bool {
	return s != "" && strings.TrimSpace(s) == s && isPlain(strings.ReplaceAll(s, " ", ""))
}

func isPlain(s string) bool { return !strings.ContainsFunc(s, isEscaped) }

func isEscaped(c rune) bool { return c <= ' ' || c >= 0x7f }
