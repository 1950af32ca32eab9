package main

import (
	"context"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/ingest/consume"
)

// wireConsumers creates the runner of the sources that consume messages. Their events are stored in the database
// directly, also if a log is in front of it: their broker is such a log.
func (g *gateway) wireConsumers() {
	if !g.config.HasRole(configs.RoleIngest) {
		return
	}
	const memories = 2 // enough for 100 sources with the defaults; few of them hold as much as they may
	sink := logSink{g.batcher, g.db}
	g.consumers = consume.New(g.config.Consume, consume.Deps{
		Store: g.db, Sources: g.db, Open: g.subscribers.brokers.OpenConsumer, Ready: g.db.Fit, Lease: g.config.Lease(), Log: g.log, Now: now,
		Bytes: memories * g.config.Ingest.InFlightBytes,
		Take: func(ctx context.Context, in ingest.Messages) (int, error) {
			return g.handler.TakeMessages(ctx, in, sink)
		},
		Await: func(ctx context.Context, in ingest.Messages, bytes int) error {
			return g.handler.AwaitMessages(ctx, in, bytes, sink)
		},
	})
	g.metrics.WatchConsumers(g.consumers.Count)
}

// runConsumers consumes messages until ctx ends.
func (g *gateway) runConsumers(ctx context.Context) error {
	if g.consumers == nil {
		return nil
	}
	return g.consumers.Run(ctx)
}
