package send

import (
	"bytes"
	"context"
	"net/http"

	"github.com/eventhook/eventhook"
)

// Preview returns the headers and the body of the next attempt at a delivery, without its
// signatures and credentials, for a user who may read the event and not send it. The
// auth_header in a body is redacted. The header is nil if the request cannot be composed; then a is the failed
// attempt. Preview sends nothing.
func (r *Receiver) Preview(ctx context.Context, d *eventhook.Delivery) (header http.Header, body []byte, a eventhook.Attempt) {
	ctx, cancel := context.WithTimeout(ctx, r.sub.Timeout())
	defer cancel()
	a = eventhook.Attempt{StartedAt: r.sender.deps.Now()}
	if r.blocked != nil {
		r.compose(ctx, d, d.Attempts+1, &a) // completes the attempt
		return nil, nil, a
	}
	m, err := r.message(ctx, d.Event)
	if err != nil {
		return nil, nil, unsent(a, err)
	}
	if key := r.sub.AuthHeader.Reveal(); key != "" { // some formats have it in the body
		m.body = bytes.ReplaceAll(m.body, []byte(key), []byte(eventhook.Redacted))
	}
	header = r.headers(d, d.Attempts+1, a.StartedAt, m)
	for _, name := range []string{"Authorization", "Webhook-Signature", r.names.signature, "Idempotency-Key", "Traceparent"} {
		header.Del(name)
	}
	return header, m.body, a
}
