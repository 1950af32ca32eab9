package natslog

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook/ingest"
)

// Check connects to the servers once and returns the state of the log. exists is false if no gateway has
// created the log yet. Check changes nothing. The error says why the servers or the log cannot be used,
// and contains no secret.
func Check(ctx context.Context, o Options) (s ingest.LogState, exists bool, err error) {
	l := &Log{Options: o}
	options, err := l.connectOptions()
	if err != nil {
		return s, false, err
	}
	once := []nats.Option{nats.RetryOnFailedConnect(false), nats.NoReconnect(), nats.ErrorHandler(nil), nats.DisconnectErrHandler(nil)}
	if l.conn, err = nats.Connect(o.Config.URL, append(options, once...)...); err != nil {
		return s, false, hideURL(err)
	}
	defer l.conn.Close()
	if l.js, err = jetstream.New(l.conn); err != nil {
		return s, false, err
	}
	w := &watcher{Log: l}
	if s, err = w.readStream(ctx); errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	dead, err := w.info(ctx, l.deadStream())
	if err != nil {
		return s, true, err
	}
	s.Dead = int64(dead.State.Msgs)
	return s, true, nil
}
