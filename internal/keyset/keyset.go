// Package keyset keeps the public keys that documents on the web publish, so
// that verifying a request seldom waits for another server, and so that a
// flood of forged requests does not become a flood of ours.
//
// However many requests ask for a document, it is fetched no more often than
// its age, a failure or an unknown key allows. Which documents may be asked
// for at all, the caller must know.
//
// The fetches that run and wait are shared out between tenants, sources and
// hosts (shares.go). A request whose share is used up gets an error of
// KindUnavailable; it says nothing about the document.
package keyset

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// Fetch brings the document at url and how long it may be kept, 0 if nothing
// is said of that. It must be safe for concurrent use and end with ctx. Its
// errors become the cause of ours.
type Fetch func(ctx context.Context, url string) (body []byte, maxAge time.Duration, err error)

// The bounds of what a flood of made-up URLs can cost.
const (
	maxURL       = 2 << 10
	turnTimeout  = 10 * time.Second
	fetchTimeout = 10 * time.Second
)

// Cache implements verify.Keys. It holds up to size documents with their keys
// and, apart from them, notes of as many that could not be fetched, so that a
// scan of made-up URLs cannot push out what is in use.
//
// It is safe for concurrent use. Callers that miss the same document share one
// fetch, which outlives the caller that began it, but not by more than 20
// seconds.
type Cache struct {
	fetch Fetch
	now   func() time.Time

	mu       sync.Mutex
	found    *lru.Cache[string, document]
	failed   *lru.Cache[string, document]
	fetching map[string]*call
	shares   shares
	kept     kept
}

// call is a fetch that runs or waits for its turn. Its results may be read
// once done is closed.
type call struct {
	done     chan struct{}
	place    *place
	document document
	err      error
}

// New makes an empty cache over fetch.
func New(size int, now func() time.Time, fetch Fetch) *Cache {
	c := &Cache{fetch: fetch, now: now, fetching: map[string]*call{}, kept: newKept(size)}
	var err error
	if c.found, err = lru.NewWithEvict(size, func(url string, _ document) { c.kept.drop(url) }); err != nil {
		panic(err) // the size is a positive number of ours
	}
	c.failed, _ = lru.New[string, document](size)
	return c
}

// Of are the keys as requests to a source ask for them: what they fetch counts
// against the shares of the source and its tenant.
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

// Keys returns the keys of the document at url: one at least, or an error.
//
// A document is kept as long as its server says, though no less than 5 minutes
// and no more than 24 hours; an hour if it says nothing. Whoever asks for an
// older one waits for it to be fetched. If that fails, the keys are used until
// they are 24 hours old, and it is tried again after 30 seconds at the
// earliest; so is a document that was never had, whose error is told till then.
//
// If id is not "" and none of the keys has it, the document is fetched
// anew, unless that was tried within the last minute. The keys are then those
// that there are, with id or without. If it could not be fetched anew, and each
// key has another id, that is an error: the key may be a new one.
//
// A ctx of verify.WithCachedKeysOnly waits for no fetch and begins none.
//
// Errors are of KindUnavailable, of KindNotFound if the fetch failed with that,
// or of KindInvalid for what is no URL; their messages name the host alone. When
// ctx ends so does the wait, with its error. Keys has no share: see Of.
func (c *Cache) Keys(ctx context.Context, url, id string) ([]verify.Key, error) {
	return c.keys(ctx, owner{}, url, id)
}

func (c *Cache) keys(ctx context.Context, by owner, url, id string) ([]verify.Key, error) {
	waiting, keys, err := c.look(ctx, by, url, id)
	if waiting == nil {
		return keys, err
	}
	select {
	case <-waiting.done:
		return waiting.document.answer(c.now(), id, waiting.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look answers from memory, or returns the call to wait for: one that is under
// way, or a new one.
func (c *Cache) look(ctx context.Context, by owner, url, id string) (*call, []verify.Key, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, now := c.document(url), c.now()
	if !d.due(now, id) {
		keys, err := d.answer(now, id, d.err)
		return nil, keys, err
	}
	if verify.CachedKeysOnly(ctx) {
		keys, err := d.answer(now, id, errBusy)
		return nil, keys, err
	}
	if running, ok := c.fetching[url]; ok {
		c.shares.join(running.place, by)
		return running, nil, nil
	}
	host, err := hostOf(url)
	if err != nil {
		return nil, nil, err
	}
	if !c.shares.hasRoom(by) {
		keys, err := d.answer(now, id, errBusy)
		return nil, keys, err
	}
	started := &call{done: make(chan struct{}), place: c.shares.add(host, by)}
	c.fetching[url] = started
	go c.run(context.WithoutCancel(ctx), url, started)
	return started, nil, nil
}

// run loads a document, keeps what came of it, and ends the call.
func (c *Cache) run(ctx context.Context, url string, started *call) {
	defer close(started.done)
	keys, age, err := c.load(ctx, url, started.place.turn)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetching, url)
	c.shares.leave(started.place)
	d, now := c.document(url), c.now()
	switch {
	case errors.Is(err, errBusy): // which says nothing about the document
		started.document, started.err = d, err
		return
	case err != nil:
		d.err, d.triedAt = unavailable(started.place.host, err), now
	default:
		d = newDocument(keys, age, now)
	}
	c.keep(url, d, started.place.payer)
	started.document, started.err = d, d.err
}

// load waits for its turn, fetches and parses. It returns errBusy if its turn
// does not come.
func (c *Cache) load(ctx context.Context, url string, turn <-chan struct{}) ([]verify.Key, time.Duration, error) {
	patience := time.NewTimer(turnTimeout)
	defer patience.Stop()
	select {
	case <-turn:
	case <-patience.C:
		return nil, 0, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	body, age, err := c.fetch(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	keys, err := verify.ParseKeys(string(body))
	return keys, age, err
}

// document is what is known of a URL: the zero one if that is nothing.
func (c *Cache) document(url string) document {
	if d, ok := c.found.Get(url); ok {
		return d
	}
	d, _ := c.failed.Get(url)
	return d
}

func (c *Cache) keep(url string, d document, by owner) {
	if len(d.keys) == 0 {
		c.failed.Add(url, d)
		return
	}
	if oldest := c.kept.add(url, by.tenant); oldest != "" {
		c.found.Remove(oldest)
	}
	c.found.Add(url, d) // an old note of a failure may stay: it keeps nobody waiting
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
		return "", &eventhook.Error{Kind: eventhook.KindInvalid, Message: "not the URL of a document with keys"}
	}
	return u.Host, nil
}
