package ingest

import (
	"errors"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/internal/chunks"
)

// The names of headers that the event of a message has besides the message's own ones.
const (
	subjectHeader  = "X-Message-Subject"
	keyHeader      = "X-Message-Key"
	positionHeader = "X-Message-Position"
)

// messageMethod stands for the method of a request in the rejections of messages.
const messageMethod = "MESSAGE"

// maxMessageHeaders is the maximum size of the headers of a message, in bytes.
const maxMessageHeaders = 256 << 10

// takenMessage is a message that became an event, or was refused.
type takenMessage struct {
	message *consumers.Message
	event   *eventhook.Event
	refused *refusal // nil unless it was refused
	names   []string // of the headers of a refused message
}

// newTaken builds the event of a message. number is that of the message among those that are taken at once:
// the ids of their events have the same order.
func (s *source) newTaken(m *consumers.Message, now time.Time, number int) takenMessage {
	header, isTooLarge := messageHeader(m)
	t := takenMessage{message: m}
	reason := s.checkMessage(m, header, isTooLarge)
	if reason == nil {
		t.event, reason = s.messageEvent(m, header, now)
	}
	if reason != nil {
		t.refuse(reason, header)
		return t
	}
	const versionSeven = 0x70
	t.event.ID[6], t.event.ID[7] = versionSeven|byte(number>>8&0x0f), byte(number) //nolint:mnd // see NewID
	return t
}

// refuse records why a message with a header is refused.
func (t *takenMessage) refuse(reason *refusal, header http.Header) {
	t.refused, t.names = reason.withBody(t.message.Data), headerNames(header)
}

// checkMessage is checkHead for a message.
func (s *source) checkMessage(m *consumers.Message, header http.Header, hasTooLargeHeader bool) *refusal {
	switch {
	case m.Unreadable != "":
		return &refusal{outcome: OutcomeUnreadable, detail: m.Unreadable}
	case len(m.Data) > s.bodyLimit:
		return &refusal{outcome: OutcomeTooLarge}
	case hasTooLargeHeader:
		return &refusal{outcome: OutcomeTooLarge, detail: "the headers of the message are larger than 256 KiB"}
	case eventhook.HopsOf(header[eventhook.HopsHeader]) > eventhook.MaxHops:
		return &refusal{outcome: OutcomeLoop}
	case !s.allowsContentType(m.ContentType):
		return &refusal{outcome: OutcomeContentType}
	case !isDecodable(header):
		return &refusal{outcome: OutcomeEncoding}
	}
	return nil
}

func (s *source) messageEvent(m *consumers.Message, header http.Header, now time.Time) (*eventhook.Event, *refusal) {
	block := appendHeaders(nil, s.config.Consume.Type, header, s.redact)
	view, err := s.view(header, m.Data, unlimited{})
	switch {
	case errors.Is(err, chunks.ErrTooLong):
		return nil, &refusal{outcome: OutcomeTooLarge}
	case err != nil:
		return nil, &refusal{outcome: OutcomeUnreadable}
	}
	e := s.newEvent(header, eventhook.Payload{Headers: block, Body: m.Data}, view, now)
	if e.IdempotencyKey == "" {
		e.IdempotencyKey = eventhook.NormalizeKey(m.Position)
	}
	if e.IdempotencyKey == "" && s.config.RequireIdempotencyKey {
		return nil, &refusal{outcome: OutcomeKeyMissing}
	}
	return e, nil
}

// messageHeader returns the headers of a message as those of a request. It leaves out names that a request
// cannot have. The attributes of CloudEvents that a request has in headers of its own become these headers.
func messageHeader(m *consumers.Message) (h http.Header, isTooLarge bool) {
	h = http.Header{}
	size := 0
	for _, one := range m.Headers {
		if size += len(one.Name) + len(one.Value); size > maxMessageHeaders {
			return h, true
		}
		if name := textproto.CanonicalMIMEHeaderKey(one.Name); isHeaderName(name) {
			h[name] = append(h[name], headerValue(one.Value))
		}
	}
	if m.ContentType != "" {
		h.Set("Content-Type", headerValue(m.ContentType))
	}
	for _, from := range []struct{ attribute, header string }{
		{"Ce-" + eventhook.HopsAttribute, eventhook.HopsHeader}, {"Ce-Traceparent", "Traceparent"}, {"Ce-Requestid", RequestIDHeader},
	} {
		if values := h[textproto.CanonicalMIMEHeaderKey(from.attribute)]; len(values) > 0 && h[from.header] == nil {
			h[from.header] = values
		}
	}
	for _, p := range []struct{ name, value string }{
		{subjectHeader, m.Subject}, {keyHeader, m.Key}, {positionHeader, m.Position},
	} {
		if p.value != "" {
			h.Set(p.name, headerValue(eventhook.SanitizeLabel(p.value)))
		}
	}
	return h, false
}

func isHeaderName(name string) bool {
	return name != "" && name != "Host" && !strings.ContainsFunc(name, func(r rune) bool {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !isLetter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headerValue replaces control characters, which a request cannot have in a header, with spaces.
func headerValue(s string) string {
	isControl := func(r rune) bool { return r < ' ' && r != '\t' || r == '\x7f' }
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	return string(replaceBytes([]byte(s), isControl))
}

func replaceBytes(b []byte, isReplaced func(rune) bool) []byte {
	for i, c := range b {
		if isReplaced(rune(c)) {
			b[i] = ' '
		}
	}
	return b
}

// rejectionsOf returns what is recorded of the refused messages.
func (s *source) rejectionsOf(taken []takenMessage, now time.Time) (last []eventhook.Rejection, counts []eventhook.RejectionCount) {
	now = now.Truncate(time.Millisecond) // the precision of the time in an id
	var sum sourceRejections
	sum.counts = map[string]eventhook.RejectionCount{}
	for _, t := range taken {
		if t.refused == nil {
			continue
		}
		reason := t.refused.reasonLabel()
		sum.add(eventhook.RejectionCount{SourceID: s.config.ID, Reason: reason, Count: 1, FirstAt: now, LastAt: now})
		last = append(last, eventhook.Rejection{ID: eventhook.NewID[eventhook.Rejection](now), SourceID: s.config.ID,
			Outcome: string(t.refused.outcome), Reason: reason, Detail: eventhook.SanitizeLabel(t.refused.detail), Method: messageMethod,
			HeaderNames: t.names, BodySize: int64(t.refused.bodySize), BodySHA256: t.refused.bodySHA256})
	}
	if extra := len(last) - maxRejectionsPerSource; extra > 0 {
		last = last[extra:]
	}
	for _, c := range sum.counts {
		counts = append(counts, c)
	}
	return last, counts
}
