package natslog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
)

// CopyStore reads copies of sources from the database.
type CopyStore interface {
	// SourceCopies returns at most limit sources whose ids are greater than after, in the order of their ids.
	SourceCopies(ctx context.Context, after eventhook.SourceID, limit int) ([]eventhook.SourceCopy, error)
	// SourceCopiesOf returns a source, or all sources of a tenant if slug is "".
	SourceCopiesOf(ctx context.Context, tenant, slug string) ([]eventhook.SourceCopy, error)
	// WithSourceCopies calls do while this instance, and no other, may write copies into a log, until ctx ends. The
	// context of do ends when another instance may write them.
	WithSourceCopies(ctx context.Context, log string, do func(context.Context) error) error
}

// Projector copies the sources of the database into the bucket of the log. Changed is safe for
// concurrent use.
type Projector struct {
	log   *Log
	store CopyStore

	mu      sync.Mutex
	changed map[changedSources]bool
	isAll   bool          // too much has changed to list it, or changes may have been missed
	wake    chan struct{} // has a token if there is a change
}

// changedSources names a source, or all sources of a tenant if slug is "".
type changedSources struct{ tenant, slug string }

// Projector returns a Projector; Run starts it.
func (l *Log) Projector(store CopyStore) *Projector {
	return &Projector{log: l, store: store, changed: map[changedSources]bool{}, wake: make(chan struct{}, 1)}
}

// maxChanges is the number of changes above which all sources are copied.
const maxChanges = 10_000

// Changed says that a source has changed, all sources of a tenant if source is "", or any source if
// tenant is "", too.
func (p *Projector) Changed(tenant, source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tenant == "" || len(p.changed) >= maxChanges {
		p.isAll = true
		clear(p.changed)
	} else if !p.isAll {
		p.changed[changedSources{tenant, source}] = true
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// takeChanges returns the changes since the last call.
func (p *Projector) takeChanges() (changed []changedSources, isAll bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.changed {
		changed = append(changed, c)
	}
	isAll = p.isAll
	clear(p.changed)
	p.isAll = false
	return changed, isAll
}

// Run copies sources while this instance has the lock for it, until ctx ends. Each log has a lock of its own, by its name
// and its servers. If instances name the servers of one log in different ways, several of them write the same copies:
// every one of them reads a source again after each of its changes.
func (p *Projector) Run(ctx context.Context) error {
	return p.store.WithSourceCopies(ctx, p.log.identity(), func(ctx context.Context) error {
		p.Changed("", "") // an instance that had the lock before may have missed changes
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-p.wake:
			}
			if !p.log.isReady.Load() {
				p.Changed("", "")
				backoff.Sleep(ctx, retryWait)
				continue
			}
			if err := p.copyChanges(ctx); err != nil && ctx.Err() == nil {
				p.log.Log.Warn("sources could not be copied into the log of webhooks; trying again", "error", err)
				p.Changed("", "")
				backoff.Sleep(ctx, time.Second)
			}
		}
	})
}

func (p *Projector) copyChanges(ctx context.Context) error {
	changed, isAll := p.takeChanges()
	kv, err := p.log.js.KeyValue(ctx, p.log.bucket())
	if err != nil {
		return err
	}
	if isAll {
		return p.copyAll(ctx, kv)
	}
	for _, c := range changed {
		if err := p.copySources(ctx, kv, c); err != nil {
			return err
		}
	}
	return nil
}

// copySources copies the changed sources of a tenant, and deletes the copy of one that was deleted.
func (p *Projector) copySources(ctx context.Context, kv jetstream.KeyValue, c changedSources) error {
	list, err := p.store.SourceCopiesOf(ctx, c.tenant, c.slug)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := put(ctx, kv, sourceKey(s.Tenant, s.Slug), s.Value); err != nil {
			return err
		}
	}
	if len(list) > 0 || c.slug == "" {
		return nil
	}
	return unlessMissing(kv.Delete(ctx, sourceKey(c.tenant, c.slug)))
}

func unlessMissing(err error) error {
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	return err
}

// put stores a value unless it is there.
func put(ctx context.Context, kv jetstream.KeyValue, key string, value []byte) error {
	entry, err := kv.Get(ctx, key)
	if err == nil && bytes.Equal(entry.Value(), value) {
		return nil
	}
	if unlessMissing(err) != nil {
		return err
	}
	_, err = kv.Put(ctx, key, value)
	return err
}

// copyAll copies all sources, deletes the copies of sources that do not exist, and marks the bucket as
// complete.
func (p *Projector) copyAll(ctx context.Context, kv jetstream.KeyValue) error {
	const page = 500
	there, err := hashes(ctx, kv)
	if err != nil {
		return err
	}
	var after eventhook.SourceID
	for {
		list, err := p.store.SourceCopies(ctx, after, page)
		if err != nil {
			return err
		}
		for _, s := range list {
			key := sourceKey(s.Tenant, s.Slug)
			if there[key] != hashOf(s.Value) {
				if _, err := kv.Put(ctx, key, s.Value); err != nil {
					return err
				}
			}
			delete(there, key)
		}
		if len(list) < page {
			break
		}
		after = list[len(list)-1].ID
	}
	for key := range there {
		if err := unlessMissing(kv.Delete(ctx, key)); err != nil {
			return err
		}
	}
	_, err = kv.Put(ctx, completeKey, []byte("1"))
	return err
}

// identity returns the name of the log and its servers, in any order, without users and passwords.
func (l *Log) identity() string {
	var hosts []string
	for one := range strings.SplitSeq(l.Config.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			hosts = append(hosts, net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), "4222")))
		}
	}
	slices.Sort(hosts)
	return l.Config.Name + " " + strings.Join(hosts, ",")
}

var hashSeed = maphash.MakeSeed()

func hashOf(value []byte) uint64 { return maphash.Bytes(hashSeed, value) }

// hashes returns the hashes of the values of all sources in the bucket.
func hashes(ctx context.Context, kv jetstream.KeyValue) (map[string]uint64, error) {
	w, err := kv.Watch(ctx, "source.>", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }()
	found := map[string]uint64{}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case entry, isOpen := <-w.Updates():
			if !isOpen {
				return nil, errors.New("the bucket of sources cannot be read")
			}
			if entry == nil { // all values were sent
				return found, nil
			}
			if strings.HasPrefix(entry.Key(), "source.") {
				found[entry.Key()] = hashOf(entry.Value())
			}
		}
	}
}
