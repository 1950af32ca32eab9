package ingest

import (
	"errors"
	"io"
	"net/http"

	"github.com/eventhook/eventhook"
)

// readRequest reads headers and body into one piece of memory. The body is
// read whole or refused, never cut. Memory follows the bytes that came, not
// the length that was announced, so slow senders cannot use it up. held is to
// be let go in any case, when the request is done.
func (h *Handler) readRequest(r *http.Request, end *endpoint) (p eventhook.Payload, held int, no *refused) {
	if r.ContentLength > int64(end.bodyLimit) {
		return p, 0, &refused{outcome: OutcomeTooLarge}
	}
	const usual, most = 1024, 16 << 10 // bytes of headers; of a body before any of it came
	buf := make([]byte, 0, usual+min(max(0, r.ContentLength)+1, most))
	buf = appendHeaders(buf, r.Host, r.Header, end.redact)
	b := body{h: h, limits: end.limits, buf: buf, head: len(buf), limit: len(buf) + end.bodyLimit}
	err := b.read(r.Body, int(r.ContentLength))
	switch {
	case err == nil:
		return eventhook.Payload{Headers: b.buf[:b.head:b.head], Body: b.buf[b.head:]}, b.held, nil
	case errors.Is(err, errTooLarge):
		return p, b.held, &refused{outcome: OutcomeTooLarge}
	case errors.Is(err, errShed):
		return p, b.held, &refused{outcome: OutcomeShed, retryAfter: errShed.RetryAfter}
	}
	return p, b.held, &refused{outcome: OutcomeUnreadable}
}

var errTooLarge = errors.New("body too large")

// body is a request being read: its headers, then what has come of its body.
type body struct {
	h      *Handler
	limits *limits
	buf    []byte
	head   int // bytes of headers
	limit  int // of headers and body
	held   int // bytes of memory that are counted
}

// read appends what r has. announced is the body's length, -1 if unknown.
func (b *body) read(r io.Reader, announced int) error {
	if !b.hold(cap(b.buf)) {
		return errShed
	}
	for {
		if len(b.buf) == cap(b.buf) && !b.grow(announced) {
			return errShed
		}
		n, err := r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		switch {
		case len(b.buf) > b.limit:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow doubles the room, but to no more than can be needed: one byte beyond
// the end, where the end is found.
func (b *body) grow(announced int) bool {
	size := min(2*cap(b.buf), b.limit+1)
	if end := b.head + announced + 1; end > cap(b.buf) {
		size = min(size, end)
	}
	if !b.hold(size - cap(b.buf)) {
		return false
	}
	b.buf = append(make([]byte, 0, size), b.buf...)
	return true
}

// hold counts n more bytes and reports whether there is room for them.
func (b *body) hold(n int) bool {
	b.held += n
	total, own := b.h.inFlight.Add(int64(n)), b.limits.inFlight.Add(int64(n))
	return total <= b.h.config.InFlightBytes && own <= b.limits.most
}

// letGo ends what a request has held.
func (h *Handler) letGo(l *limits, held int) {
	h.inFlight.Add(-int64(held))
	l.inFlight.Add(-int64(held))
}
