package natslog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
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
	// maxRefusals is how often the database may refuse a message of an instance before it becomes a dead
	// message.
	maxRefusals = 5
	// maxFailures is how often a batch may fail before its messages are stored alone, and how many of
	// them may fail then.
	maxFailures = 3
	refusedWait = 2 * time.Second // until a refused message is delivered again
	retryWait   = 500 * time.Millisecond
	fetchWait   = 5 * time.Second
)

// Run takes messages from the log and stores them in sink until ctx ends. The messages of a batch that
// is being stored then are stored and acknowledged, or delivered again to another instance.
func (l *Log) Run(ctx context.Context, sink Sink) error {
	var running sync.WaitGroup
	running.Go(panics.Guarded(func() { l.watch(ctx) }))
	for range l.Ingest.Writers {
		running.Go(panics.Guarded(func() { l.take(ctx, sink) }))
	}
	running.Wait()
	return nil
}

// take is one of the loops that store messages.
func (l *Log) take(ctx context.Context, sink Sink) {
	for ctx.Err() == nil {
		if !l.isReady.Load() || sink.Ready() != nil {
			backoff.Sleep(ctx, retryWait)
			continue
		}
		messages, err := l.fetch(ctx)
		if err != nil && ctx.Err() == nil {
			l.Log.Debug("cannot take webhooks from the log; trying again", "error", err)
			backoff.Sleep(ctx, retryWait)
		}
		if len(messages) > 0 {
			l.store(ctx, sink, messages)
		}
	}
}

// fetch takes the messages of one batch. It waits for the first one, and then takes the messages that are there,
// up to about the bytes of a commit. It sets no limit of bytes in the request: the leader of a consumer
// with replicas reports that such a request ends before it sends the messages, which are lost then until
// Options.AckWait.
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
	size := max(int64(len(first[0].Data())), l.averageSize(), 1)
	events := min(l.Ingest.BatchEvents, int(int64(l.Ingest.BatchBytes)/size)) - 1
	if events < 1 {
		return first, nil
	}
	more, err := collect(c.FetchNoWait(events))
	return append(first, more...), err
}

// averageSize returns the bytes of a message of the stream, 0 if it was empty.
func (l *Log) averageSize() int64 {
	s, _ := l.State()
	return s.Bytes / max(s.Messages, 1)
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
