package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/natslog"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
)

// ingestLog is the log of webhooks in front of the database, nil without one.
type ingestLog struct {
	*natslog.Log
	projector *natslog.Projector
	sources   *natslog.Sources
}

// openIngestLog connects to the log of webhooks, if one is configured.
func (g *gateway) openIngestLog() error {
	c := g.config.Ingest.Log
	if !c.IsOn() {
		return nil
	}
	l, err := natslog.Open(natslog.Options{Config: c, Ingest: g.config.Ingest, Name: "eventhook/" + version + " " + g.db.Instance().String(),
		Log: g.log, Now: now, Metrics: g.metrics, AckWait: g.config.Lease()})
	if err != nil {
		return err
	}
	g.ingestLog = &ingestLog{l, l.Projector(g.db), l.Sources(g.db)}
	g.metrics.WatchIngestLog(l.Ready, l.State)
	return nil
}

// acceptor returns the log of webhooks in front of the batcher, or the batcher without a log.
func (g *gateway) acceptor() ingest.Acceptor {
	if g.ingestLog == nil {
		return g.batcher
	}
	return ingest.NewLogFront(g.config.Ingest.Log, g.ingestLog, g.batcher, g.db.StoredEvents, g.config.Ingest.QueueEvents, g.metrics.LogAppended, now)
}

// ingestSources returns where ingest finds sources.
func (g *gateway) ingestSources() ingest.Sources {
	if g.ingestLog == nil {
		return g.db
	}
	return g.ingestLog.sources
}

// ingestReady returns why this instance takes no webhooks, or nil. With a log in front of the database,
// the state of the database does not matter.
func (g *gateway) ingestReady() error {
	if g.ingestLog == nil {
		return g.db.Fit()
	}
	if err := g.ingestLog.Ready(); err != nil && (g.config.Ingest.Log.WhenUnavailable != ingest.LogDatabase || g.db.Fit() != nil) {
		return fmt.Errorf("%w: %w", ingest.ErrLogUnavailable, err)
	}
	return nil
}

// ping returns why this instance is not ready, or nil. An instance with a log in front of the database
// that accepts webhooks is ready also while the database cannot be used.
func (g *gateway) ping(ctx context.Context) error {
	dbErr := g.db.Ping(ctx)
	if g.ingestLog == nil || !g.config.HasRole(configs.RoleIngest) {
		return dbErr
	}
	logErr := g.ingestLog.Ready()
	switch {
	case logErr == nil && dbErr == nil:
		return nil
	case logErr == nil && g.ingestLog.IsComplete(context.WithoutCancel(ctx)): // the ping may have used up the time of ctx
		return &telemetry.OutageError{Outage: reasonOf(dbErr) + ": webhooks are accepted into the log, the API and the console answer 503"}
	case logErr == nil:
		return dbErr // an empty bucket has no sources
	case dbErr == nil && g.config.Ingest.Log.WhenUnavailable == ingest.LogDatabase:
		return &telemetry.OutageError{Outage: reasonOf(logErr) + ": webhooks are stored in the database directly"}
	}
	return logErr
}

// reasonOf returns the fault in the message of an error, without the advice after it.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		fault, _, _ := strings.Cut(e.Message, ";")
		return strings.TrimSuffix(fault, ".")
	}
	return "the database does not answer"
}

// logSink stores the events of the log, and of messages that sources consume.
type logSink struct {
	*ingest.Batcher
	*pg.DB
}

func (s logSink) Stored(ctx context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error) {
	return s.StoredEvents(ctx, ids)
}

func (s logSink) Ready() error { return s.Fit() }

// runIngestLog stores the events of the log in the database until ctx ends.
func (g *gateway) runIngestLog(ctx context.Context) error {
	if g.ingestLog == nil {
		return nil
	}
	return g.ingestLog.Run(ctx, openTenantsSink{logSink{g.batcher, g.db}, g.db.ClosedTenants, g.metrics, g.log})
}

// copySources copies the sources into the log until ctx ends.
func (g *gateway) copySources(ctx context.Context) error {
	if g.ingestLog == nil {
		return nil
	}
	return g.ingestLog.projector.Run(ctx)
}

// prepareLater prepares the database of an instance that started without it, as soon as the database
// can be reached, until ctx ends.
func (g *gateway) prepareLater(ctx context.Context) error {
	const interval = time.Second
	failure := ""
	for !g.isPrepared {
		err := syncClock(ctx, g.db)
		if err == nil {
			err = prepareStore(ctx, g.config, g.database, g.db, g.log)
		}
		if err == nil {
			g.log.Info("the database can be reached: this instance uses it now")
			g.isPrepared = true
			return nil
		}
		if ctx.Err() == nil && err.Error() != failure {
			failure = err.Error()
			g.log.Warn("the database cannot be used yet; webhooks are accepted into the log meanwhile", "error", err)
		}
		if !backoff.Sleep(ctx, interval) {
			return nil
		}
	}
	return nil
}
