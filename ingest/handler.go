package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
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
	inFlight  atomic.Int64  // bytes of memory that requests hold
	refusals  *rate.Limiter // of log lines about requests
	faults    *rate.Limiter // and about what we failed at
}

// NewHandler makes the handler. The config has been validated.
func NewHandler(config Config, sources Sources, batcher *Batcher, observer Observer, log *slog.Logger, now func() time.Time) *Handler {
	const linesPerSecond, burst = 5, 20
	h := &Handler{config: config, sources: newSnapshot(config, sources, now), batcher: batcher, observer: observer, log: log, now: now,
		forgeries: newForgeries(config), refusals: rate.NewLimiter(linesPerSecond, burst), faults: rate.NewLimiter(linesPerSecond, burst)}
	for _, p := range config.TrustedProxies {
		h.trusted = append(h.trusted, plainPrefix(netip.MustParsePrefix(p)))
	}
	return h
}

// Register adds the tenants' URLs to a router, for every method there is or
// may be: the answer to a wrong one is ours too.
func (h *Handler) Register(e *echo.Echo) {
	e.Any(Path(":tenant", ":source"), h.serve)
	e.RouteNotFound(Path(":tenant", ":source"), h.serve)
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
	cause      error         // what we failed at, for the log
}

func (h *Handler) serve(c echo.Context) error {
	r, w := c.Request(), c.Response().Writer
	at := addressOf(r, c.Param("tenant"), c.Param("source"))
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

// receive takes a request down the road to the disk. The source's limits are
// looked at before anything is read or verified, and used only by requests
// that are genuine: whatever is refused before costs the provider nothing.
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
	if wait := end.limits.wait(now); wait > 0 {
		return nil, nil, &refused{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	if !end.accepts(r.Header.Get("Content-Type")) {
		return nil, nil, &refused{outcome: OutcomeContentType}
	}
	raw, held, no := h.readRequest(r, end)
	defer h.letGo(end.limits, held)
	if no != nil {
		return nil, nil, no
	}
	if err := end.verifier.Verify(h.signed(r, end, raw.Body, now)); err != nil {
		return nil, nil, h.forged(client, err)
	}
	if wait := end.limits.take(h.now()); wait > 0 {
		return nil, nil, &refused{outcome: OutcomeRateLimited, retryAfter: wait}
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
	if !eventhook.IsSlug(at.tenant) || !eventhook.IsSlug(at.source) {
		return nil, &refused{outcome: OutcomeNotFound} // made-up names are not asked for, kept or logged
	}
	end, err := h.sources.Get(ctx, at)
	switch {
	case err == nil:
		return end, nil
	case eventhook.KindOf(err) == eventhook.KindNotFound:
		return nil, &refused{outcome: OutcomeNotFound}
	case ctx.Err() != nil:
		return nil, &refused{outcome: OutcomeUnreadable} // the sender is gone
	}
	return nil, &refused{outcome: OutcomeFailed, cause: fmt.Errorf("find the source: %w", err)}
}

func (h *Handler) signed(r *http.Request, end *endpoint, body []byte, now time.Time) *verify.Request {
	url := end.signedURL
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return &verify.Request{Method: r.Method, URL: url, Header: r.Header, Body: body, At: now}
}

func (h *Handler) forged(client netip.Addr, err error) *refused {
	no := &refused{outcome: OutcomeUnverified, reason: "other"}
	if v, ok := errors.AsType[*verify.Error](err); ok {
		no.reason = string(v.Reason)
	}
	if h.forgeries.exceeded(client, h.now()) {
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
		SourceIP:       addrText(client),
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
		// A tenant's text must not act as a page of ours.
		header["X-Content-Type-Options"], header["Content-Security-Policy"] = noSniff, sandbox
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
// source, the client and the reason. The source's name is a slug.
func (h *Handler) logRefusal(at address, r *http.Request, no *refused) {
	if no.outcome == OutcomeNotFound || no.outcome == OutcomeMethod {
		return
	}
	if no.cause != nil {
		if h.faults.AllowN(h.now(), 1) {
			h.log.Error("a webhook could not be accepted", "tenant", at.tenant, "source", at.source, "error", no.cause)
		}
		return
	}
	if h.refusals.AllowN(h.now(), 1) {
		h.log.Warn("a webhook was refused", "tenant", at.tenant, "source", at.source, "outcome", no.outcome, "reason", no.reason,
			"client", clientAddress(r, h.trusted))
	}
}
