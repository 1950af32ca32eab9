package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/usage"
)

// MessageStore stores the events of messages. Store is that of *Batcher, and Stored returns which events are
// in the database.
type MessageStore interface {
	Store(events []*eventhook.Event) error
	Stored(ctx context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error)
	// Ready returns why this instance cannot store events now, or nil.
	Ready() error
	RejectionStore
}

// Messages are messages of a source in their order.
type Messages struct {
	Tenant, Source string // slugs
	List           []*consumers.Message
	// Waits is called when the messages have to wait, with the reason for users. If it is the quota, bytes are what the
	// first message needs of it; otherwise they are 0.
	Waits func(reason string, bytes int)
}

// Bounds of messages whose events are stored at once.
const (
	maxTakenMessages = 256
	maxTakenBytes    = 8 << 20
)

const (
	messageRetry   = time.Second
	maxMessageWait = 2 * time.Second // until a quota is tried again: it may have been raised
	maxRefusals    = 3               // of an event by the database, until its message is refused
)

// TakeMessages stores events of the first messages, and records why messages are refused, whose IsRefused it
// sets. It returns the number of messages that are done: their events and rejections are on disk. While the rate
// limit of the source, the quota of its tenant or the database do not allow a message, TakeMessages waits. It
// returns an error if ctx ends, or if the source does not exist or is disabled; then some events may be stored
// nevertheless.
func (h *Handler) TakeMessages(ctx context.Context, in Messages, store MessageStore) (done int, err error) {
	for {
		taken, hold, err := h.takeSome(ctx, in, store)
		switch {
		case len(taken.list) > 0:
			return taken.store(ctx, store, in.Waits)
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, err
		}
		in.Waits(hold.reason, hold.bytes)
		if !backoff.Sleep(ctx, hold.time) {
			return 0, ctx.Err()
		}
	}
}

// AwaitMessages waits until TakeMessages would take a message that needs so many bytes of the quota, as Waits reported
// them. It takes nothing, and does not read the list of in. The errors are those of TakeMessages.
func (h *Handler) AwaitMessages(ctx context.Context, in Messages, bytes int, store MessageStore) error {
	for {
		s, hold, err := h.messageSource(ctx, in, store)
		if s != nil {
			hold = h.holdOf(s, bytes)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case hold.time == 0:
			return nil
		}
		in.Waits(hold.reason, hold.bytes)
		if !backoff.Sleep(ctx, hold.time) {
			return ctx.Err()
		}
	}
}

// hold says how long messages have to wait until they are tried again; the zero hold, that they need not wait.
type hold struct {
	time   time.Duration
	reason string // for users
	bytes  int    // that the first message needs of the quota, if this is the reason
}

var notReady = hold{time: messageRetry, reason: "the gateway cannot use its database now"}

const atRateLimit = "the rate limit of the source is reached"

// atQuota returns the hold of an event that exceeds a quota.
func atQuota(over *usage.Excess, bytes int, now time.Time) hold {
	return hold{max(messageRetry, min(over.ResetsAt.Sub(now), maxMessageWait)),
		fmt.Sprintf("the quota %s of the tenant is reached until %s", over.Quota, over.ResetsAt.UTC().Format(time.RFC3339)), bytes}
}

// takenMessages are messages that count against the limits and are stored next.
type takenMessages struct {
	handler  *Handler
	source   *source
	list     []takenMessage
	at       address
	refusals map[eventhook.EventID]int // how often the database has refused an event
}

// messageSource returns the source of messages, or nil and a hold if it cannot be read now.
func (h *Handler) messageSource(ctx context.Context, in Messages, store MessageStore) (s *source, wait hold, err error) {
	if store.Ready() != nil {
		return nil, notReady, nil //nolint:nilerr // the instance says why
	}
	s, err = h.sources.Get(ctx, address{in.Tenant, in.Source})
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound, err == nil && s.config.Consume == nil:
		return nil, hold{}, errSourceNotFound
	case err != nil:
		return nil, notReady, nil //nolint:nilerr // the database, whose errors are logged
	}
	return s, hold{}, nil
}

// takeSome takes the messages that the limits allow now. If it takes none, it returns a hold.
func (h *Handler) takeSome(ctx context.Context, in Messages, store MessageStore) (t *takenMessages, wait hold, err error) {
	t = &takenMessages{handler: h, at: address{in.Tenant, in.Source}, refusals: map[eventhook.EventID]int{}}
	if t.source, wait, err = h.messageSource(ctx, in, store); t.source == nil {
		return t, wait, err
	}
	bytes := 0
	for i, m := range in.List[:min(len(in.List), maxTakenMessages)] {
		if bytes += len(m.Data); i > 0 && bytes > maxTakenBytes {
			break
		}
		one, wait := h.takeMessage(t.source, m, i)
		if wait.time > 0 {
			return t, wait, nil
		}
		t.list = append(t.list, one)
	}
	return t, hold{}, nil
}

// takeMessage builds the event of a message and counts it against the limits, or returns a hold.
func (h *Handler) takeMessage(s *source, m *consumers.Message, number int) (t takenMessage, _ hold) {
	now := h.now()
	wait := s.limits.verified.wait(now)
	if wait == 0 {
		wait = s.limits.verified.take(now)
	}
	h.shared.note(s.limits, wait == 0)
	if wait > 0 {
		return t, hold{time: wait, reason: atRateLimit}
	}
	t = s.newTaken(m, now, number)
	if t.event == nil {
		return t, hold{}
	}
	if over := s.account.Take(storedBytes(t.event), now); over != nil {
		return t, atQuota(over, storedBytes(t.event), now)
	}
	return t, hold{}
}

// holdOf returns the hold of a message that needs so many bytes of the quota.
func (h *Handler) holdOf(s *source, bytes int) hold {
	now := h.now()
	if wait := s.limits.verified.wait(now); wait > 0 {
		return hold{time: wait, reason: atRateLimit}
	}
	if over := s.account.Take(bytes, now); over != nil {
		return atQuota(over, bytes, now)
	}
	s.account.Return(bytes, now)
	return hold{}
}

func storedBytes(e *eventhook.Event) int { return len(e.Headers) + len(e.Body) }

// store stores events and rejections, and tries again until it has succeeded or ctx ends.
func (t *takenMessages) store(ctx context.Context, store MessageStore, waits func(string, int)) (int, error) {
	for isRepeated := false; ; isRepeated = true {
		err := t.storeOnce(ctx, store, isRepeated)
		if err == nil {
			t.conclude()
			return len(t.list), nil
		}
		if ctx.Err() == nil {
			waits(notReady.reason, 0)
			t.handler.logStore(t.at, err)
		}
		if !backoff.Sleep(ctx, messageRetry) {
			t.giveUp()
			return 0, ctx.Err()
		}
	}
}

var errRefusedEvents = errors.New("the database refused events")

// storeOnce stores the events that are not stored yet in one commit, and then records the rejections. An
// attempt that failed may have stored events.
func (t *takenMessages) storeOnce(ctx context.Context, store MessageStore, isRepeated bool) error {
	missing := t.missing()
	if isRepeated && len(missing) > 0 {
		if err := t.findStored(ctx, store, missing); err != nil {
			return err
		}
		missing = t.missing()
	}
	if len(missing) > 0 {
		if err := store.Store(missing); err != nil {
			for _, e := range missing {
				e.Status = ""
			}
			return err
		}
	}
	if t.refuseEvents() {
		return errRefusedEvents
	}
	last, counts := t.source.rejectionsOf(t.list, t.handler.now())
	if len(counts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return store.RecordRejections(ctx, last, counts)
}

// missing returns the events that are not stored, as far as it is known.
func (t *takenMessages) missing() (list []*eventhook.Event) {
	for _, one := range t.list {
		if one.refused == nil && one.event.Status == "" {
			list = append(list, one.event)
		}
	}
	return list
}

func (t *takenMessages) findStored(ctx context.Context, store MessageStore, missing []*eventhook.Event) error {
	ids := make([]eventhook.EventID, len(missing))
	for i, e := range missing {
		ids[i] = e.ID
	}
	found, err := store.Stored(ctx, ids)
	if err != nil {
		return err
	}
	for _, e := range missing {
		if found[e.ID] {
			e.Status = eventhook.EventPending // or processed meanwhile
		}
	}
	return nil
}

// refuseEvents counts the events that the database has refused alone, and refuses the messages of those that
// it has refused several times. It reports whether events are to be tried again.
func (t *takenMessages) refuseEvents() (isAgain bool) {
	for i := range t.list {
		one := &t.list[i]
		if one.refused != nil || one.event.Status != "" {
			continue
		}
		if t.refusals[one.event.ID]++; t.refusals[one.event.ID] < maxRefusals {
			isAgain = true
			continue
		}
		header, _ := messageHeader(one.message)
		one.refuse(&refusal{outcome: OutcomeUnreadable, detail: "the database refuses the event"}, header)
		t.source.account.Return(storedBytes(one.event), t.handler.now())
	}
	return isAgain
}

// giveUp returns the quota of events that are not stored, as far as it is known.
func (t *takenMessages) giveUp() {
	for _, e := range t.missing() {
		t.source.account.Return(storedBytes(e), t.handler.now())
	}
}

// conclude counts the messages.
func (t *takenMessages) conclude() {
	h := t.handler
	for _, one := range t.list {
		switch {
		case one.refused != nil:
			one.message.IsRefused = true
			t.source.account.Refused()
			h.observer.Answered(one.refused.outcome, one.refused.reason)
			if h.refusalLines.AllowN(h.now(), 1) {
				h.log.Warn("a message was refused", "tenant", t.at.tenant, "source", t.at.source, "outcome", one.refused.outcome,
					"position", eventhook.SanitizeLabel(one.message.Position))
			}
		case one.event.Status == eventhook.EventDuplicate:
			t.source.account.Duplicate()
			h.observer.Answered(OutcomeDuplicate, "")
		default:
			h.observer.Answered(OutcomeAccepted, "")
		}
	}
}

func (h *Handler) logStore(at address, err error) {
	if failed, ok := errors.AsType[*notStoredError](err); ok {
		err = failed.cause
	}
	if h.errorLines.AllowN(h.now(), 1) {
		h.log.Warn("messages could not be stored; trying again", "tenant", at.tenant, "source", at.source, "error", err)
	}
}
