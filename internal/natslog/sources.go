package natslog

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// SourceStore reads sources from the database, and opens their copies without it.
type SourceStore interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
	OpenSourceCopy(value []byte) (eventhook.Source, error)
}

// Sources finds sources in the database, and in the bucket of the log while the database cannot be
// reached. A source from the bucket is marked as a copy and has no quota: its webhooks are counted, and not
// refused. It is safe for concurrent use.
type Sources struct {
	log   *Log
	store SourceStore
	// downUntil is the time in Unix nanoseconds until which the database is not asked; 0 if it did not fail.
	downUntil atomic.Int64
}

var _ ingest.Sources = (*Sources)(nil)

// Sources returns the sources of the database or, while it cannot be reached, of the bucket.
func (l *Log) Sources(store SourceStore) *Sources { return &Sources{log: l, store: store} }

const (
	askFor     = time.Second     // how long the database may take before the bucket is asked
	downPeriod = 2 * time.Second // how long the database is not asked after it failed
)

// FindSource implements ingest.Sources.
func (s *Sources) FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error) {
	if now := s.log.Now(); s.mayAsk(now) {
		asking, cancel := context.WithTimeout(ctx, askFor)
		found, err := s.store.FindSource(asking, tenant, source)
		cancel()
		switch {
		case ctx.Err() != nil:
			return found, err
		case isOutage(err):
			s.downUntil.Store(now.Add(downPeriod).UnixNano())
		default:
			s.Reached()
			if err == nil || eventhook.KindOf(err) == eventhook.KindNotFound {
				return found, err
			}
		}
	}
	found, err := s.copied(ctx, tenant, source)
	found.IsCopy = true
	return found, err
}

// mayAsk reports whether the database may be asked. After it has failed, one caller asks, and the other
// callers do not wait for it.
func (s *Sources) mayAsk(now time.Time) bool {
	until := s.downUntil.Load()
	return until == 0 || now.UnixNano() >= until && s.downUntil.CompareAndSwap(until, now.Add(askFor+downPeriod).UnixNano())
}

// Reached says that the database can be reached: it is asked again at once.
func (s *Sources) Reached() { s.downUntil.Store(0) }

// isOutage reports whether the database cannot be used, or takes too long. Other errors are of one source,
// such as secrets that do not open.
func isOutage(err error) bool {
	return eventhook.KindOf(err) == eventhook.KindUnavailable || errors.Is(err, context.DeadlineExceeded)
}

// copied returns a source of the bucket. If the bucket is not complete, a source that is not there may
// exist.
func (s *Sources) copied(ctx context.Context, tenant, source string) (eventhook.Source, error) {
	kv, err := s.log.js.KeyValue(ctx, s.log.bucket())
	if err != nil {
		return eventhook.Source{}, err
	}
	entry, err := kv.Get(ctx, sourceKey(tenant, source))
	switch {
	case err == nil:
		return s.store.OpenSourceCopy(entry.Value())
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return eventhook.Source{}, err
	}
	if _, err := kv.Get(ctx, completeKey); err != nil {
		return eventhook.Source{}, errIncomplete
	}
	return eventhook.Source{}, eventhook.NotFound("source")
}

var errIncomplete = errors.New("the log of webhooks has no copy of the sources yet")

// IsComplete reports whether the bucket has a copy of all sources, so that webhooks can be accepted
// without the database. Each of its two requests ends with ctx, or after 5 seconds if ctx has no deadline.
func (l *Log) IsComplete(ctx context.Context) bool {
	kv, err := l.js.KeyValue(ctx, l.bucket())
	if err != nil {
		return false
	}
	_, err = kv.Get(ctx, completeKey)
	return err == nil
}

// completeKey says that the bucket has all sources. Keys of sources have other first parts.
const completeKey = "meta.complete"

// sourceKey is the key of a source. Slugs have no dots.
func sourceKey(tenant, source string) string { return "source." + tenant + "." + source }
