package send

import (
	"net/http"

	"github.com/eventhook/eventhook"
)

// Tracer records attempts. Safe for concurrent use.
type Tracer interface {
	// Attempted is called after each attempt. It does not keep the request.
	Attempted(a Attempted)
}

// Attempted is an attempt at a delivery, counted from 1, with its result. Its traceparent header
// names the span of the attempt. Request is nil if nothing was sent.
type Attempted struct {
	Delivery *eventhook.Delivery
	Attempt  int
	Request  *http.Request
	Result   eventhook.Attempt
}

// trace notifies the Tracer, if there is one, of an attempt that counts.
func (d Deps) trace(a Attempted) {
	if d.Tracer != nil && a.Result.ErrorClass != eventhook.ErrorBusy {
		d.Tracer.Attempted(a)
	}
}
