package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
)

// taken is a message with its event.
type taken struct {
	jetstream.Msg
	event    *eventhook.Event
	sequence uint64
	again    bool // the message was delivered before: its event may be stored
}

// batch has the messages that a loop has taken and still has to store.
type batch struct {
	*Log
	sink     Sink
	together []taken // in commits of Ingest.BatchBytes
	alone    []taken // suspects, each in a commit of its own
	extended time.Time
}

// store stores messages and acknowledges them. Messages that are left when ctx ends are delivered to another
// instance.
func (l *Log) store(ctx context.Context, sink Sink, messages []jetstream.Msg) {
	b := &batch{Log: l, sink: sink, extended: time.Now()}
	for _, m := range messages {
		t, ok := l.open(m)
		switch {
		case !ok:
		case l.suspects.has(t.sequence):
			b.alone = append(b.alone, t)
		default:
			b.together = append(b.together, t)
		}
	}
	for len(b.together) > 0 && ctx.Err() == nil {
		b.storeTogether(ctx)
	}
	for len(b.alone) > 0 && ctx.Err() == nil {
		b.storeAlone(ctx, b.alone[0])
		b.alone = b.alone[1:]
		b.extend()
	}
	for _, t := range append(b.together, b.alone...) {
		_ = t.Nak()
	}
}

// laterWait is about how long a message with an unknown format is left to instances of a later version, while instances
// are upgraded.
const laterWait = 15 * time.Minute

// open decodes a message. A message with an unknown format is left to other instances for laterWait. Then it becomes a
// dead message, as a message that cannot be read does at once.
func (l *Log) open(m jetstream.Msg) (t taken, ok bool) {
	meta, err := m.Metadata()
	if err != nil { // every message of a consumer has it
		l.bury(m, err)
		return t, false
	}
	e, err := decode(m.Data())
	switch {
	case errors.Is(err, errVersion) && meta.NumDelivered < l.deliveriesToLater():
		if meta.NumDelivered == 1 {
			l.Log.Warn("a message of the log has an unknown format; it is left to instances of a later version, and then becomes a dead message",
				"sequence", meta.Sequence.Stream, "wait", laterWait)
		}
		_ = m.NakWithDelay(l.AckWait) // an instance of the later version may take it
		return t, false
	case err != nil:
		l.bury(m, err)
		return t, false
	}
	return taken{m, e, meta.Sequence.Stream, meta.NumDelivered > 1}, true
}

// deliveriesToLater is the number of deliveries after which a message with an unknown format becomes a dead message.
// There is one in each AckWait.
func (l *Log) deliveriesToLater() uint64 {
	const least = 2
	return uint64(max(laterWait/l.AckWait, least))
}

// next returns the messages of the next commit.
func (b *batch) next() []taken {
	bytes := 0
	for i, t := range b.together {
		if bytes += len(t.Data()); i > 0 && bytes > b.Ingest.BatchBytes {
			return b.together[:i]
		}
	}
	return b.together
}

// storeTogether stores the messages of one commit until it has succeeded or ctx ends. If the database
// fails only to store them, one of them may be the reason: then storeTogether stores some of them alone.
func (b *batch) storeTogether(ctx context.Context) {
	part, failures := b.next(), 0
	for isRepeated := false; ; isRepeated = true { // the database may have stored them
		err := b.storeOnce(ctx, part, isRepeated)
		if err == nil {
			b.together = b.together[len(part):]
			return
		}
		b.Log.Log.Debug("webhooks of the log could not be stored; trying again", "events", len(part), "error", err)
		if isRepeated && errors.Is(err, errNotStored) {
			failures++
		}
		if failures == maxFailures {
			b.Log.Log.Warn("webhooks of the log could not be stored together; storing some of them alone", "events", len(part), "error", err)
			b.separate(ctx, len(part))
			return
		}
		if !backoff.Sleep(ctx, retryWait) {
			return
		}
		b.extend()
	}
}

// separate stores the first n messages alone until some have failed. If more messages failed, the database would be
// the reason and not a message, and each try may take the timeout of a commit.
func (b *batch) separate(ctx context.Context, n int) {
	for failed := 0; failed < maxFailures && n > 0 && ctx.Err() == nil; n-- {
		if !b.storeAlone(ctx, b.together[0]) {
			failed++
		}
		b.together = b.together[1:]
		b.extend()
	}
}

// storeAlone stores one message. If this fails, the message is a suspect and is delivered again later.
func (b *batch) storeAlone(ctx context.Context, t taken) (ok bool) {
	err := b.storeOnce(ctx, []taken{t}, true)
	if err == nil {
		return true
	}
	b.suspects.add(t.sequence, 0)
	b.Log.Log.Warn("a webhook of the log could not be stored; trying again later",
		"event", t.event.ID, "trace_id", t.event.Trace(), "sequence", t.sequence, "error", err)
	_ = t.NakWithDelay(b.AckWait)
	return false
}

// extend tells the servers from time to time that the messages are being worked on.
func (b *batch) extend() {
	if time.Since(b.extended) < b.AckWait/extensions {
		return
	}
	b.extended = time.Now()
	for _, list := range [][]taken{b.together, b.alone} {
		for _, t := range list {
			_ = t.InProgress()
		}
	}
}

// errNotStored is the error of a database that answers and does not store.
var errNotStored = errors.New("the events were not stored")

// storeOnce stores the events that are not stored yet, in one commit, and acknowledges the messages.
func (b *batch) storeOnce(ctx context.Context, part []taken, isRepeated bool) error {
	isStored, err := storedBefore(ctx, b.sink, part, isRepeated)
	if err != nil {
		return err
	}
	var events []*eventhook.Event
	for _, t := range part {
		if !isStored[t.event.ID] {
			isStored[t.event.ID] = false
			t.event.Status = ""
			events = append(events, t.event)
		}
	}
	events = distinct(events)
	if len(events) > 0 {
		err = b.sink.Store(events)
	}
	switch {
	case errors.Is(err, eventhook.ErrNotReady):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errNotStored, err)
	}
	b.conclude(ctx, b.sink, part, isStored)
	return nil
}

// distinct removes repeated events. A stream has an event twice if its append was repeated.
func distinct(events []*eventhook.Event) []*eventhook.Event {
	seen := make(map[eventhook.EventID]bool, len(events))
	kept := events[:0]
	for _, e := range events {
		if !seen[e.ID] {
			seen[e.ID] = true
			kept = append(kept, e)
		}
	}
	return kept
}

// storedBefore returns which of the events are in the database. It asks only for those that may be.
func storedBefore(ctx context.Context, sink Sink, part []taken, isRepeated bool) (map[eventhook.EventID]bool, error) {
	var ids []eventhook.EventID
	for _, t := range part {
		if isRepeated || t.again {
			ids = append(ids, t.event.ID)
		}
	}
	if len(ids) == 0 {
		return map[eventhook.EventID]bool{}, nil
	}
	found, err := sink.Stored(ctx, ids)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = map[eventhook.EventID]bool{}
	}
	return found, nil
}
