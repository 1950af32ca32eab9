// Package keyset caches the public keys that documents on the web publish, such as JWK Sets and
// certificates. With the cache, verification rarely waits for another server, and a flood of
// forged requests does not cause a flood of fetches.
//
// A document is cached until it expires. It is fetched again when it has expired, when a
// request names a key that it does not contain, or some time after a failed fetch; document.go
// has the intervals. The number of requests does not change them.
//
// Fetches are limited in total, per tenant and per source, and running fetches also per host
// (fetch_queue.go). A request that exceeds these limits, or waits too long for its fetch to
// start, gets an error of KindUnavailable, which says nothing about the document. The package
// does not decide which URLs are trusted; the caller must.
package keyset

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/verify"
)

// Fetch returns the document at url and how long it can be cached, 0 if the server
// sent no lifetime. It must be safe for concurrent use and return when ctx ends.
// Its error becomes the cause of the Cache's error.
type Fetch func(ctx context.Context, url string) (body []byte, maxAge time.Duration, err error)

// Limits against a flood of invented URLs.
const (
	maxURL       = 2 << 10 // bytes
	queueTimeout = 10 * time.Second
	fetchTimeout = 10 * time.Second
)

// Cache implements verify.Keys. It caches up to size documents with keys, and
// separately up to size failed fetches, so that requests with invented URLs
// cannot evict documents in use.
//
// It is safe for concurrent use. Callers that need the same document share one
// fetch. A fetch does not end with the caller that started it, but after at most
// 20 seconds (queueTimeout and fetchTimeout).
type Cache struct {
	fetch Fetch
	now   func() time.Time

	mu       sync.Mutex // guards all fields below
	found    *lru.Cache[string, document]
	failed   *lru.Cache[string, document]
	fetching map[string]*call // by URL
	queue    fetchQueue
	owned    tenantDocuments
}

// call is a running or waiting fetch. document and err can be read after done is
// closed.
type call struct {
	done     chan struct{}
	queued   *queuedFetch
	document document
	err      error
}

// New returns an empty cache for up to size documents.
func New(size int, now func() time.Time, fetch Fetch) *Cache {
	c := &Cache{fetch: fetch, now: now, fetching: map[string]*call{}, owned: newTenantDocuments(size)}
	var err error
	if c.found, err = lru.NewWithEvict(size, func(url string, _ document) { c.owned.remove(url) }); err != nil {
		panic(err) // only a size below 1 fails
	}
	c.failed, _ = lru.New[string, document](size)
	return c
}

// ForSource returns the cache for the requests of a source: its fetches count
// towards the limits of the source and its tenant.
func (c *Cache) ForSource(tenant eventhook.TenantID, source eventhook.SourceID) verify.Keys {
	return sourceKeys{c, owner{tenant, source}}
}

type sourceKeys struct {
	*Cache
	owner owner
}

func (k sourceKeys) Keys(ctx context.Context, url, id string) ([]verify.Key, error) {
	return k.keys(ctx, k.owner, url, id)
}

// Keys returns all keys of the document at url, at least one, or an error.
//
// A document is cached for the lifetime that its server sends, at least 5 minutes and at most
// 24 hours, or for an hour if the server sends none. After that, Keys waits for a new fetch. If
// this fetch fails, the cached keys are used until they are 24 hours old. After a failed fetch,
// the next is tried 30 seconds later at the earliest; until then, Keys returns the same error
// if there are no cached keys.
//
// If id is not "" and no cached key has it, the document is fetched again, unless it was
// fetched within the last minute. Keys then returns the keys of the new document, even if none
// has the id. If the fetch fails, and every cached key has another id, Keys returns an error,
// because the key can be new.
//
// With a context of verify.WithCachedKeysOnly, Keys neither starts nor waits for a fetch.
//
// Errors are of KindUnavailable, of KindNotFound if the fetch failed with KindNotFound, or of
// KindInvalid for an invalid URL. Their messages contain only the host. If ctx ends first, Keys
// returns the error of ctx.
//
// Fetches that Keys starts count towards the limits of the host and of all fetches, but not
// towards those of a tenant or source; see ForSource.
func (c *Cache) Keys(ctx context.Context, url, id string) ([]verify.Key, error) {
	return c.keys(ctx, owner{}, url, id)
}

func (c *Cache) keys(ctx context.Context, by owner, url, id string) ([]verify.Key, error) {
	running, keys, err := c.lookup(ctx, by, url, id)
	if running == nil {
		return keys, err
	}
	select {
	case <-running.done:
		return running.document.usableKeys(c.now(), id, running.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lookup returns cached keys or an error, or the call to wait for: a running one or
// a new one.
func (c *Cache) lookup(ctx context.Context, by owner, url, id string) (*call, []verify.Key, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, now := c.document(url), c.now()
	if !d.needsFetch(now, id) {
		keys, err := d.usableKeys(now, id, d.err)
		return nil, keys, err
	}
	if verify.CachedKeysOnly(ctx) {
		keys, err := d.usableKeys(now, id, errBusy)
		return nil, keys, err
	}
	if running, ok := c.fetching[url]; ok {
		c.queue.addOwner(running.queued, by)
		return running, nil, nil
	}
	host, err := hostOf(url)
	if err != nil {
		return nil, nil, err
	}
	if !c.queue.hasCapacity(by) {
		keys, err := d.usableKeys(now, id, errBusy)
		return nil, keys, err
	}
	started := &call{done: make(chan struct{}), queued: c.queue.add(host, by)}
	c.fetching[url] = started
	go c.run(context.WithoutCancel(ctx), url, started)
	return started, nil, nil
}

// run loads a document, caches the result, and completes the call.
func (c *Cache) run(ctx context.Context, url string, started *call) {
	defer close(started.done)
	keys, age, err := c.load(ctx, url, started.queued.started)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetching, url)
	c.queue.remove(started.queued)
	d, now := c.document(url), c.now()
	switch {
	case errors.Is(err, errBusy): // not a failure of the document: do not cache it
		started.document, started.err = d, err
		return
	case err != nil:
		d.err, d.triedAt = unavailable(started.queued.host, err), now
	default:
		d = newDocument(keys, age, now)
	}
	c.store(url, d, started.queued.payer)
	started.document, started.err = d, d.err
}

// load waits until the queue starts the fetch, fetches the document and parses it.
// It returns errBusy if the queue does not start the fetch within queueTimeout.
func (c *Cache) load(ctx context.Context, url string, start <-chan struct{}) (keys []verify.Key, age time.Duration, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = panics.Recovered(panics.Load, reason)
		}
	}()
	timeout := time.NewTimer(queueTimeout)
	defer timeout.Stop()
	select {
	case <-start:
	case <-timeout.C:
		return nil, 0, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	body, age, err := c.fetch(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	keys, err = verify.ParseKeys(string(body))
	return keys, age, err
}

// document returns the cached document or failure of a URL, or a zero document.
func (c *Cache) document(url string) document {
	if d, ok := c.found.Get(url); ok {
		return d
	}
	d, _ := c.failed.Get(url)
	return d
}

func (c *Cache) store(url string, d document, by owner) {
	if len(d.keys) == 0 {
		c.failed.Add(url, d)
		return
	}
	if oldest := c.owned.add(url, by.tenant); oldest != "" {
		c.found.Remove(oldest)
	}
	c.found.Add(url, d) // an entry of url in failed is harmless: document reads found first
}

var errBusy error = &eventhook.Error{
	Kind: eventhook.KindUnavailable, Message: "too many keys are being fetched", RetryAfter: time.Second,
}

func unavailable(host string, cause error) error {
	kind := eventhook.KindUnavailable
	if eventhook.KindOf(cause) == eventhook.KindNotFound {
		kind = eventhook.KindNotFound
	}
	return &eventhook.Error{
		Kind: kind, Message: "the keys of " + host + " could not be fetched",
		RetryAfter: retryAfter, Cause: cause,
	}
}

func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxURL || u.Host == "" {
		return "", &eventhook.Error{Kind: eventhook.KindInvalid, Message: "not a valid URL of a document with keys"}
	}
	return u.Host, nil
}
