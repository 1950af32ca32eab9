package ingest

import (
	"errors"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/chunks"
)

// readRequest reads headers and body into one slice, whose memory is reserved in mem. It
// returns the complete body or refuses the request. The headers have spare capacity for the field
// of the verification. Memory grows with the bytes received, not with the announced length.
func (h *Handler) readRequest(r *http.Request, src *source, suffix string, mem *reservation) (p eventhook.Payload, refused *refusal) {
	const usualHead, maxFirst = 1024, 16 << 10 // bytes of headers; of the body buffer before any byte is received
	bodySpace := int(min(max(0, r.ContentLength)+1, maxFirst))
	head := appendRequestLine(make([]byte, 0, usualHead+bodySpace), r, src, suffix)
	head = appendHeaders(head, r.Host, r.Header, src.redact)
	headSize := len(head)
	head = append(head, make([]byte, src.verifiedSize)...)
	whole, err := readBody(r, head, bodySpace, src.bodyLimit, mem)
	if stopped := mem.finishReading(); stopped != "" {
		return p, &refusal{outcome: stopped, retryAfter: retryOf(stopped), closes: true}
	}
	switch {
	case err == nil:
		return eventhook.Payload{Headers: whole[:headSize:len(head)], Body: whole[len(head):]}, nil
	case errors.Is(err, chunks.ErrTooLong):
		return p, &refusal{outcome: OutcomeTooLarge}
	case errors.Is(err, errShed):
		return p, shed()
	}
	return p, &refusal{outcome: OutcomeUnreadable}
}

func shed() *refusal { return &refusal{outcome: OutcomeShed, retryAfter: errShed.RetryAfter} }

// retryOf returns the Retry-After for a request that was stopped.
func retryOf(stopped Outcome) time.Duration {
	if stopped == OutcomeEvicted {
		return errShed.RetryAfter
	}
	return 0
}

// readBody returns head followed by the body. It also reserves the memory of the parsed
// headers, which are about as large as head.
func readBody(r *http.Request, head []byte, bodySpace, limit int, mem *reservation) ([]byte, error) {
	if err := mem.Take(len(head)); err != nil {
		return nil, err
	}
	var b chunks.Buffer
	if err := b.Start(mem, head, bodySpace, limit); err != nil {
		return nil, err
	}
	if err := b.Read(mem, int(r.ContentLength)); err != nil {
		return nil, err
	}
	return b.Join()
}
