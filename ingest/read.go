package ingest

import (
	"errors"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/chunks"
)

// readRequest reads headers and body into one piece of memory, which hold
// counts. The body is read whole or refused, never cut. Memory follows the
// bytes that came, not the length that was announced.
func (h *Handler) readRequest(r *http.Request, end *endpoint, hold *holding) (p eventhook.Payload, no *refused) {
	const usual, most = 1024, 16 << 10 // bytes of headers; of a body before any of it came
	room := int(min(max(0, r.ContentLength)+1, most))
	head := appendHeaders(make([]byte, 0, usual+room), r.Host, r.Header, end.redact)
	whole, err := readBody(r, head, room, end.bodyLimit, hold)
	if stopped := hold.arrive(); stopped != "" {
		return p, &refused{outcome: stopped, retryAfter: retryOf(stopped), closes: true}
	}
	switch {
	case err == nil:
		return eventhook.Payload{Headers: whole[:len(head):len(head)], Body: whole[len(head):]}, nil
	case errors.Is(err, chunks.ErrTooLong):
		return p, &refused{outcome: OutcomeTooLarge}
	case errors.Is(err, errShed):
		return p, shed()
	}
	return p, &refused{outcome: OutcomeUnreadable}
}

func shed() *refused { return &refused{outcome: OutcomeShed, retryAfter: errShed.RetryAfter} }

func retryOf(stopped Outcome) time.Duration {
	if stopped == OutcomeEvicted {
		return errShed.RetryAfter
	}
	return 0
}

// readBody returns head and the body behind it. The parsed headers are as large
// as head, and count too.
func readBody(r *http.Request, head []byte, room, limit int, hold *holding) ([]byte, error) {
	if err := hold.Take(len(head)); err != nil {
		return nil, err
	}
	var b chunks.Buffer
	if err := b.Start(hold, head, room, limit); err != nil {
		return nil, err
	}
	if err := b.Read(hold, int(r.ContentLength)); err != nil {
		return nil, err
	}
	return b.Join()
}
