package natslog

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
)

// suspects are the messages that this instance could not store alone, or that the database refused. It is
// safe for concurrent use.
type suspects struct {
	mu       sync.Mutex
	refusals map[uint64]int // by sequence
}

// add adds refusals to a message, and returns the number of all its refusals.
func (s *suspects) add(sequence uint64, refusals int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil || len(s.refusals) >= maxTaken { // other instances may have stored most of them
		s.refusals = map[uint64]int{}
	}
	s.refusals[sequence] += refusals
	return s.refusals[sequence]
}

func (s *suspects) has(sequence uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.refusals[sequence]
	return ok
}

func (s *suspects) remove(sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refusals, sequence)
}

// conclude acknowledges the messages whose events are stored. The database has refused the others:
// they are delivered again, and become dead messages in the end. A refusal also happens if another
// instance has stored the event at the same moment.
func (l *Log) conclude(ctx context.Context, sink Sink, part []taken, isStored map[eventhook.EventID]bool) {
	stored := 0
	for _, t := range part {
		switch {
		case isStored[t.event.ID] || t.event.Status != "":
			stored++
			l.suspects.remove(t.sequence)
			_ = t.Ack() // if it gets lost, the message is delivered again, and found stored
		case l.suspects.add(t.sequence, 1) >= maxRefusals && !isInDatabase(ctx, sink, t.event.ID):
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
