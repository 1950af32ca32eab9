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
	// Waits is called with the reason, for users, when the messages have to wait.
	Waits func(reason string)
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
		taken, wait, why, err := h.takeSome(ctx, in, store)
		switch {
		case len(taken.list) > 0:
			return taken.store(ctx, store, in.Waits)
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, err
		}
		in.Waits(why)
		if !backoff.Sleep(ctx, wait) {
			return 0, ctx.Err()
		}
	}
}

// AwaitMessages waits until TakeMessages would take the first message of in; without a message, until it would take
// an empty one. It takes nothing. The errors are those of TakeMessages.
func (h *Handler) AwaitMessages(ctx context.Context, in Messages, store MessageStore) error {
	for {
		s, wait, why, err := h.messageSource(ctx, in, store)
		if s != nil {
			wait, why = h.messageWait(s, in.List)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case wait == 0:
			return nil
		}
		in.Waits(why)
		if !backoff.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// takenMessages are messages that count against the limits and are stored next.
type takenMessages struct {
	handler  *Handler
	source   *source
	list     []takenMessage
	at       address
	refusals map[eventhook.EventID]int // how often the database has refused an event
}

// messageSource returns the source of messages. If it cannot be read now, messageSource returns nil, how long to wait,
// and why.
func (h *Handler) messageSource(ctx context.Context, in Messages, store MessageStore) (s *source, wait time.Duration, why string, err error) {
	if store.Ready() != nil {
		return nil, messageRetry, notReadyText, nil //nolint:nilerr // the instance says why
	}
	s, err = h.sources.Get(ctx, address{in.Tenant, in.Source})
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound, err == nil && s.config.Consume == nil:
		return nil, 0, "", errSourceNotFound
	case err != nil:
		return nil, messageRetry, notReadyText, nil //nolint:nilerr // the database, whose errors are logged
	}
	return s, 0, "", nil
}

// takeSome takes the messages that the limits allow now. If it takes none, it returns how long to wait, and why.
func (h *Handler) takeSome(ctx context.Context, in Messages, store MessageStore) (t *takenMessages, wait time.Duration, why string, err error) {
	t = &takenMessages{handler: h, at: address{in.Tenant, in.Source}, refusals: map[eventhook.EventID]int{}}
	if t.source, wait, why, err = h.messageSource(ctx, in, store); t.source == nil {
		return t, wait, why, err
	}
	bytes := 0
	for i, m := range in.List[:min(len(in.List), maxTakenMessages)] {
		if bytes += len(m.Data); i > 0 && bytes > maxTakenBytes {
			break
		}
		one, wait, why := h.takeMessage(t.source, m, i)
		if wait > 0 {
			return t, wait, why, nil
		}
		t.list = append(t.list, one)
	}
	return t, 0, "", nil
}

const notReadyText = "the gateway cannot use its database now"

// takeMessage builds the event of a message and counts it against the limits, or returns how long to wait.
func (h *Handler) takeMessage(s *source, m *consumers.Message, number int) (t takenMessage, wait time.Duration, why string) {
	now := h.now()
	wait = s.limits.verified.wait(now)
	if wait == 0 {
		wait = s.limits.verified.take(now)
	}
	h.shared.note(s.limits, wait == 0)
	if wait > 0 {
		return t, wait, atRateLimit
	}
	t = s.newTaken(m, now, number)
	if over := t.count(s.account, now); over != nil {
		wait, why = quotaWait(over, now)
	}
	return t, wait, why
}

// count counts the event against the quota, unless the message is refused. It returns the excess, and then counts nothing.
func (t takenMessage) count(a *usage.Account, at time.Time) *usage.Excess {
	if t.event == nil {
		return nil
	}
	return a.Take(storedBytes(t.event), at)
}

// uncount undoes count.
func (t takenMessage) uncount(a *usage.Account, at time.Time) {
	if t.event != nil {
		a.Return(storedBytes(t.event), at)
	}
}

func storedBytes(e *eventhook.Event) int { return len(e.Headers) + len(e.Body) }

const atRateLimit = "the rate limit of the source is reached"

func quotaWait(over *usage.Excess, now time.Time) (wait time.Duration, why string) {
	return max(messageRetry, min(over.ResetsAt.Sub(now), maxMessageWait)),
		fmt.Sprintf("the quota %s of the tenant is reached until %s", over.Quota, over.ResetsAt.UTC().Format(time.RFC3339))
}

// messageWait returns how long the first message of a list has to wait for the limits, and why; without one, how long
// an empty message has to.
func (h *Handler) messageWait(s *source, list []*consumers.Message) (wait time.Duration, why string) {
	now := h.now()
	if wait := s.limits.verified.wait(now); wait > 0 {
		return wait, atRateLimit
	}
	first := takenMessage{event: &eventhook.Event{}}
	if len(list) > 0 {
		first = s.newTaken(list[0], now, 0)
	}
	if over := first.count(s.account, now); over != nil {
		return quotaWait(over, now)
	}
	first.uncount(s.account, now)
	return 0, ""
}

// store stores events and rejections, and tries again until it has succeeded or ctx ends.
func (t *takenMessages) store(ctx context.Context, store MessageStore, waits func(string)) (int, error) {
	for isRepeated := false; ; isRepeated = true {
		err := t.storeOnce(ctx, store, isRepeated)
		if err == nil {
			t.conclude()
			return len(t.list), nil
		}
		if ctx.Err() == nil {
			waits(notReadyText)
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
		one.uncount(t.source.account, t.handler.now())
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
