package ingest

import (
	"cmp"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventhook/eventhook"
)

// Tracer records requests to the ingest URL. It is safe for concurrent use.
type Tracer interface {
	// Received is called when a request was answered. It does not keep the request.
	Received(w Webhook)
}

// Webhook is a request to the ingest URL with its answer.
type Webhook struct {
	Request        *http.Request
	Tenant, Source string // slugs of the URL; "" if it has other text in their place
	Sender         netip.Addr
	Began          time.Time
	Status         int
	Outcome        Outcome
	Reason         string           // why verification failed, see Observer
	Event          *eventhook.Event // nil if the request was refused or is a handshake
}

// traceStart returns the beginning of a request, or the zero time without a Tracer.
func (h *Handler) traceStart() (began time.Time) {
	if h.tracer != nil {
		began = h.now()
	}
	return began
}

// traced is a request of which the Tracer is notified.
type traced struct {
	request *http.Request
	address
	began time.Time
}

// traceRefusal notifies the Tracer of a refused request.
func (h *Handler) traceRefusal(t traced, refused *refusal) {
	if h.tracer != nil {
		w := h.webhook(t)
		w.Outcome, w.Reason, w.Status = refused.outcome, refused.reason, problemResponses[refused.outcome].status
		h.tracer.Received(w)
	}
}

// traceResult notifies the Tracer of a request with a result.
func (h *Handler) traceResult(t traced, src *source, res result) {
	if h.tracer == nil {
		return
	}
	w := h.webhook(t)
	w.Event, w.Status, w.Outcome = res.event, http.StatusOK, OutcomeAccepted
	switch {
	case res.reply != nil:
		w.Status, w.Outcome = cmp.Or(res.reply.status, http.StatusOK), OutcomeHandshake
	case src.config.Response != nil:
		w.Status = src.config.Response.Status
	}
	if res.event != nil && res.event.Status == eventhook.EventDuplicate {
		w.Outcome = OutcomeDuplicate
	}
	h.tracer.Received(w)
}

func (h *Handler) webhook(t traced) Webhook {
	w := Webhook{Request: t.request, Sender: h.Sender(t.request), Began: t.began}
	if eventhook.IsSlug(t.tenant) && eventhook.IsSlug(t.source) {
		w.Tenant, w.Source = t.tenant, t.source
	}
	return w
}
