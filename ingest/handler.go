package ingest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/verify"
)

// Observer hears how each request was answered. reason says why verification
// failed, one of verify's.
type Observer interface {
	Answered(o Outcome, reason string)
}

// Handler is the tenant's URL.
type Handler struct {
	config    Config
	sources   *snapshot.Cache[address, *endpoint]
	batcher   *Batcher
	observer  Observer
	log       *slog.Logger
	now       func() time.Time
	trusted   []netip.Prefix
	forgeries *forgeries
	inFlight  atomic.Int64 // bytes of bodies
	logLimit  *rate.Limiter
}

// NewHandler makes the handler. The config has been validated.
func NewHandler(config Config, sources Sources, batcher *Batcher, observer Observer, log *slog.Logger, now func() time.Time) *Handler {
	const linesPerSecond, burst = 5, 20
	h := &Handler{config: config, sources: newSnapshot(config, sources, now), batcher: batcher, observer: observer, log: log, now: now,
		forgeries: newForgeries(config), logLimit: rate.NewLimiter(linesPerSecond, burst)}
	for _, p := range config.TrustedProxies {
		h.trusted = append(h.trusted, netip.MustParsePrefix(p).Masked())
	}
	return h
}

// Register adds the tenants' URLs to a router.
func (h *Handler) Register(e *echo.Echo) {
	e.Any(Path(":tenant", ":source"), h.serve)
}

// ForgetSource drops what is cached of a source, ForgetTenant of all sources
// of a tenant, ForgetAll of everything.
func (h *Handler) ForgetSource(tenant, source string) { h.sources.ForgetKey(address{tenant, source}) }

// ForgetTenant drops what is cached of all sources of a tenant.
func (h *Handler) ForgetTenant(tenant string) {
	h.sources.Forget(func(a address) bool { return a.tenant == tenant })
}

// ForgetAll drops everything that is cached.
func (h *Handler) ForgetAll() { h.sources.Clear() }

// refused is why a request is not accepted.
type refused struct {
	outcome    Outcome
	reason     string        // for log and metric, never for the sender
	retryAfter time.Duration // 0: none is told
}

func (h *Handler) serve(c echo.Context) error {
	r, w := c.Request(), c.Response().Writer
	at := address{c.Param("tenant"), c.Param("source")}
	e, end, no := h.receive(r, at)
	if no != nil {
		h.observer.Answered(no.outcome, no.reason)
		h.logRefusal(at, r, no)
		refuse(w, no.outcome, no.retryAfter)
		c.Response().Committed = true
		return nil
	}
	h.answer(w, end, e)
	c.Response().Committed = true
	return nil
}

// receive takes a request down the road to the disk.
func (h *Handler) receive(r *http.Request, at address) (*eventhook.Event, *endpoint, *refused) {
	if r.Method != http.MethodPost {
		return nil, nil, &refused{outcome: OutcomeMethod}
	}
	end, no := h.find(r.Context(), at)
	if no != nil {
		return nil, nil, no
	}
	now := h.now()
	client := clientAddress(r, h.trusted)
	if !end.allows(client) {
		return nil, nil, &refused{outcome: OutcomeNotAllowed}
	}
	undo, wait := end.take(now)
	if wait > 0 {
		return nil, nil, &refused{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	if !end.accepts(r.Header.Get("Content-Type")) {
		return nil, nil, &refused{outcome: OutcomeContentType}
	}
	raw, no := h.readRequest(r, end)
	if no != nil {
		return nil, nil, no
	}
	defer h.inFlight.Add(-int64(len(raw.Body)))
	if err := end.verifier.Verify(h.signed(r, end, raw.Body, now)); err != nil {
		undo()
		return nil, nil, h.forged(client, now, err)
	}
	e, no := h.event(r, end, raw, client, now)
	if no != nil {
		return nil, nil, no
	}
	if err := h.batcher.Accept(e); err != nil {
		return nil, nil, notStored(err)
	}
	return e, end, nil
}

func (h *Handler) find(ctx context.Context, at address) (*endpoint, *refused) {
	end, err := h.sources.Get(ctx, at)
	switch {
	case err == nil:
		return end, nil
	case eventhook.KindOf(err) == eventhook.KindNotFound:
		return nil, &refused{outcome: OutcomeNotFound}
	}
	h.log.Error("a source could not be read", "tenant", at.tenant, "source", at.source, "error", err)
	return nil, &refused{outcome: OutcomeFailed}
}

func (h *Handler) signed(r *http.Request, end *endpoint, body []byte, now time.Time) *verify.Request {
	url := end.signedURL
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return &verify.Request{Method: r.Method, URL: url, Header: r.Header, Body: body, At: now}
}

func (h *Handler) forged(client netip.Addr, now time.Time, err error) *refused {
	no := &refused{outcome: OutcomeUnverified, reason: "other"}
	if v, ok := errors.AsType[*verify.Error](err); ok {
		no.reason = string(v.Reason)
	}
	if h.forgeries.exceeded(client, now) {
		no.outcome, no.retryAfter = OutcomeForgeryLimit, time.Second
	}
	return no
}

func notStored(err error) *refused {
	if e, ok := errors.AsType[*eventhook.Error](err); ok && e.Kind == eventhook.KindUnavailable {
		return &refused{outcome: OutcomeShed, retryAfter: e.RetryAfter}
	}
	return &refused{outcome: OutcomeFailed}
}

// readRequest reads headers and body into one piece of memory. The body is
// read whole or refused, never cut. Memory follows the bytes that came, not
// the length that was announced, so slow senders cannot use it up.
func (h *Handler) readRequest(r *http.Request, end *endpoint) (p eventhook.Payload, no *refused) {
	if r.ContentLength > int64(end.bodyLimit) {
		return p, &refused{outcome: OutcomeTooLarge}
	}
	const usual, most = 1024, 16 << 10 // bytes of headers; of a body before any of it came
	buf := make([]byte, 0, usual+min(max(0, r.ContentLength)+1, most))
	buf = appendHeaders(buf, r.Host, r.Header, end.redact)
	headers := len(buf)
	buf, err := h.readBody(buf, r.Body, headers+end.bodyLimit)
	if err == nil {
		return eventhook.Payload{Headers: buf[:headers:headers], Body: buf[headers:]}, nil
	}
	h.inFlight.Add(-int64(len(buf) - headers))
	switch {
	case errors.Is(err, errTooLarge):
		return p, &refused{outcome: OutcomeTooLarge}
	case errors.Is(err, errShed):
		return p, &refused{outcome: OutcomeShed, retryAfter: time.Second}
	}
	return p, &refused{outcome: OutcomeUnreadable}
}

var errTooLarge = errors.New("body too large")

// readBody appends what r has to buf, which must not grow beyond limit bytes,
// and counts it as in flight, also when it fails.
func (h *Handler) readBody(buf []byte, r io.Reader, limit int) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		inFlight := h.inFlight.Add(int64(n))
		switch {
		case len(buf) > limit:
			return buf, errTooLarge
		case inFlight > h.config.InFlightBytes:
			return buf, errShed
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}

// event makes the event of a verified request.
func (h *Handler) event(r *http.Request, end *endpoint, raw eventhook.Payload, client netip.Addr, now time.Time) (*eventhook.Event, *refused) {
	contentType := r.Header.Get("Content-Type")
	view := payload.New(r.Header, contentType, raw.Body)
	key, ok := view.FirstText(end.keyPaths)
	if !ok && end.source.RequireIdempotencyKey {
		return nil, &refused{outcome: OutcomeKeyMissing}
	}
	eventType, _ := view.FirstText(end.typePaths)
	return &eventhook.Event{
		ID:             eventhook.NewID[eventhook.Event](now),
		TenantID:       end.source.TenantID,
		SourceID:       end.source.ID,
		Origin:         eventhook.OriginSource,
		EventType:      eventhook.Label(eventType),
		IdempotencyKey: eventhook.Key(key),
		ContentType:    eventhook.Label(contentType),
		BodySize:       len(raw.Body),
		SourceIP:       client.String(),
		TraceID:        traceID(r.Header.Get("Traceparent")),
		RequestID:      eventhook.Label(r.Header.Get("X-Request-Id")),
		Payload:        raw,
	}, nil
}

// answer tells the sender that the event is stored.
func (h *Handler) answer(w http.ResponseWriter, end *endpoint, e *eventhook.Event) {
	outcome := OutcomeAccepted
	if e.Status == eventhook.EventDuplicate {
		outcome = OutcomeDuplicate
	}
	h.observer.Answered(outcome, "")
	header := w.Header()
	if reply := end.source.Response; reply != nil {
		if reply.ContentType != "" {
			header.Set("Content-Type", reply.ContentType)
		}
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Body) // the sender may be gone
		return
	}
	header["Content-Type"] = jsonType
	const usual = 160
	b := append(make([]byte, 0, usual), `{"event_id":"`...)
	b = e.ID.AppendText(b)
	b = append(b, `","status":"`...)
	b = append(b, outcome...)
	if outcome == OutcomeDuplicate {
		b = append(b, `","duplicate_of":"`...)
		b = e.DuplicateOf.AppendText(b)
	}
	_, _ = w.Write(append(b, `"}`...)) // the sender may be gone
}

// logRefusal writes a capped line without anything of the request but its
// source and the reason.
func (h *Handler) logRefusal(at address, r *http.Request, no *refused) {
	if no.outcome == OutcomeNotFound || no.outcome == OutcomeMethod || !h.logLimit.AllowN(h.now(), 1) {
		return
	}
	h.log.Warn("a webhook was refused", "tenant", at.tenant, "source", at.source, "outcome", no.outcome, "reason", no.reason,
		"client", clientAddress(r, h.trusted))
}
