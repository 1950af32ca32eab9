package natslog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/backoff"
)

const (
	// watchEvery is the time between two readings of the state.
	watchEvery = time.Second
	// firstRetry is the time until the state is read again after a failure; it doubles up to longestRetry.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 500 * time.Millisecond
	// readFor and changeFor are how long a request that reads a stream and one that changes a part of the log may
	// take. A stream without a leader does not answer: then the next request gets the answer of a new leader.
	readFor   = time.Second
	changeFor = 2 * time.Second
)

// watcher checks the log from time to time. A log that was ready once stays ready while checks fail: an append says
// itself whether it works. If the stream has not answered for LogConfig.AppendTimeout, the log is not ready until
// the stream answers. The other parts of the log, such as the bucket, matter only for the first time.
type watcher struct {
	*Log
	wasSetUp    bool      // since the start of the instance
	isSetUp     bool      // since the connection was made
	connection  uint64    // number of the connection
	failedSince time.Time // of the stream; zero while it answers
	failure     string    // the last one
}

// watch sets the log up when the servers can be reached, and reads its state, until ctx ends.
func (l *Log) watch(ctx context.Context) {
	w := &watcher{Log: l}
	for retry := firstRetry; ; {
		wait := watchEvery
		if w.look(ctx) {
			retry = firstRetry
		} else {
			wait, retry = retry, min(2*retry, longestRetry) //nolint:mnd // doubling
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// look checks the log once. It returns false if the log must be checked again soon.
func (w *watcher) look(ctx context.Context) bool {
	if !w.conn.IsConnected() {
		w.failedSince = time.Time{}
		if err := w.conn.LastError(); err != nil { // nats.go reports a login that is refused only here
			w.notConnected(err)
		}
		return false
	}
	if n := w.conn.Stats().Reconnects; n != w.connection {
		w.connection, w.isSetUp = n, false
	}
	state, err := w.readStream(ctx)
	isMissing := errors.Is(err, jetstream.ErrStreamNotFound)
	if err == nil && w.wasSetUp {
		w.works()
	} else if w.failedSince.IsZero() {
		w.failedSince = time.Now()
	}
	if err == nil || isMissing {
		err = w.completeState(ctx, state, isMissing)
	}
	if err == nil {
		w.works()
		w.failure = ""
	} else if ctx.Err() == nil {
		w.fails(err)
	}
	return err == nil
}

// works makes the log ready.
func (w *watcher) works() {
	w.failedSince = time.Time{}
	if !w.isReady.Swap(true) {
		w.Log.Log.Info("webhooks are accepted into the log", "stream", w.Config.Name, "replicas", w.Config.Replicas)
	}
}

// fails reports an error, and makes the log not ready if its stream has failed for too long.
func (w *watcher) fails(err error) {
	isNew := w.failure != err.Error()
	w.failure = err.Error()
	if w.isReady.Load() && (w.failedSince.IsZero() || time.Since(w.failedSince) < w.Config.AppendTimeout) {
		if isNew {
			w.Log.Log.Warn("the log of webhooks could not be checked; trying again", "error", err)
		}
		return
	}
	w.fault.Store(faultText("the log of webhooks does not work: " + err.Error()))
	if w.isReady.Swap(false) || isNew {
		w.Log.Log.Error("the log of webhooks does not work; webhooks are refused until it does", "error", err)
	}
}

// readStream returns the state of the stream, without the dead messages.
func (w *watcher) readStream(ctx context.Context) (s ingest.LogState, err error) {
	info, err := w.info(ctx, w.Config.Name)
	if err != nil {
		return s, err
	}
	s = ingest.LogState{Messages: int64(info.State.Msgs), Bytes: int64(info.State.Bytes), MaxBytes: info.Config.MaxBytes, ReadAt: w.Now()}
	if info.State.Msgs > 0 {
		s.OldestAt = info.State.FirstTime
	}
	if before := w.state.Load(); before != nil {
		s.Dead = before.Dead
	}
	w.state.Store(&s)
	return s, nil
}

// completeState sets the log up if this has to be done, and adds the dead messages to a state.
func (w *watcher) completeState(ctx context.Context, s ingest.LogState, isMissing bool) error {
	if !w.isSetUp || isMissing {
		w.isSetUp = false
		if err := w.setUp(ctx); err != nil {
			return err
		}
		w.isSetUp, w.wasSetUp = true, true
	}
	if isMissing {
		return nil
	}
	dead, err := w.info(ctx, w.deadStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		w.isSetUp = false
	}
	if err != nil {
		return err
	}
	s.Dead = int64(dead.State.Msgs)
	w.state.Store(&s)
	return nil
}

func (w *watcher) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	reading, cancel := context.WithTimeout(ctx, min(readFor, w.Config.AppendTimeout))
	defer cancel()
	s, err := w.js.Stream(reading, stream)
	if err != nil {
		return nil, partError("the stream "+stream, err)
	}
	return s.CachedInfo(), nil
}
