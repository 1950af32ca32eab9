package natslog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
)

// Sink stores the events of the log in the database.
type Sink interface {
	// Store stores events in one commit. If it returns nil, each event has its Status; an empty one
	// means that the database refused this event alone. If it returns an error, the events may be
	// stored nevertheless.
	Store(events []*eventhook.Event) error
	// Stored returns which of the events are in the database.
	Stored(ctx context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error)
	// Ready returns why events cannot be stored now, or nil.
	Ready() error
}

const (
	// extensions is how often an instance that is storing a message asks for more time within
	// Options.AckWait.
	extensions = 3
	// maxTaken is the number of messages that all instances together may have taken and not
	// acknowledged.
	maxTaken = 10_000
	// maxRefusals is how often the database may refuse a message before it becomes a dead message.
	maxRefusals = 5
	refusedWait = 2 * time.Second // until a refused message is delivered again
	retryWait   = 500 * time.Millisecond
	fetchWait   = 5 * time.Second
	moreWait    = 10 * time.Millisecond // for messages that another instance has taken meanwhile
)

// Run takes messages from the log and stores them in sink until ctx ends. The messages of a batch that
// is being stored then are stored and acknowledged, or delivered again to another instance.
func (l *Log) Run(ctx context.Context, sink Sink) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(panics.Guarded(func() { l.watch(ctx) }))
	for range l.Ingest.Writers {
		running.Go(panics.Guarded(func() { l.take(ctx, sink) }))
	}
	return nil
}

// take is one of the loops that store messages.
func (l *Log) take(ctx context.Context, sink Sink) {
	for ctx.Err() == nil {
		if !l.isReady.Load() || sink.Ready() != nil {
			pause(ctx, retryWait)
			continue
		}
		batch, err := l.fetch(ctx)
		if err != nil && ctx.Err() == nil {
			l.Log.Debug("cannot take webhooks from the log; trying again", "error", err)
			pause(ctx, retryWait)
		}
		if len(batch) > 0 {
			l.store(ctx, sink, batch)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// fetch takes the messages of one batch, within the bytes of a commit unless the first one has more. It
// waits for the first one, and then takes those that are there.
func (l *Log) fetch(ctx context.Context) ([]jetstream.Msg, error) {
	c, err := l.js.Consumer(ctx, l.Config.Name, consumer)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	first, err := collect(c.Fetch(1, jetstream.FetchContext(waiting)))
	if len(first) == 0 || err != nil {
		return first, err
	}
	events, bytes := l.Ingest.BatchEvents-1, l.Ingest.BatchBytes-len(first[0].Data())
	meta, _ := first[0].Metadata() // every message of a consumer has it
	isLast := meta != nil && meta.NumPending == 0 && meta.NumDelivered == 1
	if isLast || events < 1 || bytes < 1 {
		return first, nil
	}
	more, err := collect(c.Fetch(events, jetstream.FetchMaxBytes(bytes), jetstream.FetchMaxWait(moreWait)))
	return append(first, more...), err
}

func collect(batch jetstream.MessageBatch, err error) (list []jetstream.Msg, _ error) {
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		list = append(list, m)
	}
	err = batch.Error()
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = nil
	}
	return list, err
}

// taken is a message with its event.
type taken struct {
	jetstream.Msg
	event *eventhook.Event
	again bool // it was delivered before: its event may be stored
}

// store stores a batch in one commit, and acknowledges its messages.
func (l *Log) store(ctx context.Context, sink Sink, batch []jetstream.Msg) {
	var part []taken
	for _, m := range batch {
		if t, ok := l.open(m); ok {
			part = append(part, t)
		}
	}
	if len(part) > 0 {
		l.storePart(ctx, sink, part)
	}
}

// open decodes a message. A message of a later version is left to other instances, and a message that
// cannot be read becomes a dead message.
func (l *Log) open(m jetstream.Msg) (t taken, ok bool) {
	e, err := decode(m.Data())
	if errors.Is(err, errVersion) {
		_ = m.NakWithDelay(l.AckWait) // an instance of the later version may take it
		return t, false
	}
	meta, _ := m.Metadata() // every message of a consumer has it
	if err != nil {
		l.bury(m, err)
		return t, false
	}
	return taken{m, e, meta != nil && meta.NumDelivered > 1}, true
}

// storePart stores messages until it has succeeded or ctx ends. It tells the servers meanwhile that
// the messages are being worked on.
func (l *Log) storePart(ctx context.Context, sink Sink, part []taken) {
	extended := time.Now()
	isRepeated := false
	for {
		err := l.storeOnce(ctx, sink, part, isRepeated)
		if err == nil {
			return
		}
		isRepeated = true // the database may have stored them
		l.Log.Debug("webhooks of the log could not be stored; trying again", "events", len(part), "error", err)
		pause(ctx, retryWait)
		if ctx.Err() != nil {
			for _, t := range part {
				_ = t.Nak() // to another instance, at once
			}
			return
		}
		if time.Since(extended) >= l.AckWait/extensions {
			extended = time.Now()
			for _, t := range part {
				_ = t.InProgress()
			}
		}
	}
}

// storeOnce stores the events that are not stored yet, in one commit, and acknowledges the messages.
func (l *Log) storeOnce(ctx context.Context, sink Sink, part []taken, isRepeated bool) error {
	isStored, err := storedBefore(ctx, sink, part, isRepeated)
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
		if err := sink.Store(events); err != nil {
			return err
		}
	}
	l.conclude(ctx, sink, part, isStored)
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

// conclude acknowledges the messages whose events are stored. The database has refused the others:
// they are delivered again, and become dead messages in the end. A refusal also happens if another
// instance has stored the event at the same moment.
func (l *Log) conclude(ctx context.Context, sink Sink, part []taken, isStored map[eventhook.EventID]bool) {
	stored := 0
	for _, t := range part {
		meta, _ := t.Metadata()
		switch {
		case isStored[t.event.ID] || t.event.Status != "":
			stored++
			_ = t.Ack() // if it gets lost, the message is delivered again, and found stored
		case meta != nil && meta.NumDelivered >= maxRefusals && !isInDatabase(ctx, sink, t.event.ID):
			l.bury(t.Msg, errRefused)
		default:
			_ = t.NakWithDelay(refusedWait)
		}
	}
	if l.Metrics != nil {
		l.Metrics.LogStored(len(part), stored)
	}
}

var errRefused = errors.New("the database refuses the event")

// isInDatabase reports whether an event is stored; true also if that is not known.
func isInDatabase(ctx context.Context, sink Sink, id eventhook.EventID) bool {
	found, err := sink.Stored(ctx, []eventhook.EventID{id})
	return err != nil || found[id]
}

// bury moves a message to the dead messages, where a person can look at it.
func (l *Log) bury(m jetstream.Msg, reason error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Config.AppendTimeout)
	defer cancel()
	dead := &nats.Msg{Subject: l.deadSubject(), Data: m.Data(), Header: nats.Header{"Eventhook-Reason": {reason.Error()}}}
	var sequence uint64
	if meta, err := m.Metadata(); err == nil {
		sequence = meta.Sequence.Stream
	}
	if _, err := l.js.PublishMsg(ctx, dead); err != nil {
		l.Log.Error("a webhook of the log cannot be stored, and not be moved to the dead messages; trying again", "sequence", sequence, "error", err, "reason", reason)
		_ = m.NakWithDelay(l.AckWait)
		return
	}
	l.Log.Error("a webhook of the log cannot be stored; it is a dead message now", "stream", l.deadStream(), "sequence", sequence, "reason", reason)
	_ = m.Ack()
	if l.Metrics != nil {
		l.Metrics.LogDead(1)
	}
}
