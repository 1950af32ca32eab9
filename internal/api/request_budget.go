package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Limits bound the concurrent requests of one instance. The bytes of a request are
// the approximate memory of its decoded body and its response: see bodyCost. Zero
// fields have defaults.
type Limits struct {
	Bytes       int64 // of all requests
	TenantBytes int64 // of one tenant's requests
	KeyBytes    int64 // of one key's requests

	TenantRequests int // concurrent requests of one tenant; requests that wait for work, promises or events do not count
	KeyRequests    int // concurrent requests of one key

	ListConns int // database connections for lists; also the number of concurrent reads, half of them for one tenant
	WorkConns int // other database connections; also the number of concurrent requests of workers, three quarters of them for one tenant
}

func (l Limits) withDefaults() Limits {
	fill := func(v *int64, otherwise int64) {
		if *v == 0 {
			*v = otherwise
		}
	}
	fill(&l.Bytes, 256<<20)
	fill(&l.TenantBytes, 64<<20)
	fill(&l.KeyBytes, 48<<20)
	for _, n := range []struct {
		v         *int
		otherwise int
	}{{&l.TenantRequests, 512}, {&l.KeyRequests, 256}, {&l.ListConns, 4}, {&l.WorkConns, 16}} {
		if *n.v == 0 {
			*n.v = n.otherwise
		}
	}
	return l
}

// smallRequestShare is the denominator of the part of Limits.Bytes that is reserved
// for small requests, which need at most one hundredth of Limits.Bytes. So large
// requests cannot crowd out small ones.
const smallRequestShare = 4

// Reasons of refusals in the metrics.
const (
	refusedTenantRequests = "tenant_requests"
	refusedKeyRequests    = "key_requests"
	refusedTenantBytes    = "tenant_bytes"
	refusedKeyBytes       = "key_bytes"
	refusedBytes          = "instance_bytes"
	refusedQueue          = "queue_full"
	refusedWait           = "no_slot_in_time"
)

// budget counts the requests in flight and their memory. It is safe for concurrent
// use.
type budget struct {
	Limits
	mu      sync.Mutex
	bytes   int64
	tenants map[eventhook.TenantID]inFlight // zero: the admin key
	keys    map[eventhook.KeyID]inFlight
}

// inFlight counts the requests in flight of one tenant or key.
type inFlight struct {
	requests int
	bytes    int64
}

func newBudget(l Limits) *budget {
	return &budget{Limits: l, tenants: map[eventhook.TenantID]inFlight{}, keys: map[eventhook.KeyID]inFlight{}}
}

// reservation is the share of the budgets that one request holds. Only the goroutine
// that serves the request may use it, until it has released it.
type reservation struct {
	*server
	header           http.Header        // of the response
	tenant           eventhook.TenantID // see caller.budgetTenant
	key              eventhook.KeyID    // zero: the admin key
	counted          bool               // is counted as a request in flight
	bytes            int64
	releaseLargeSlot func()      // nil without a large body
	held             *HeldMemory // keeps the memory after the response; nil: nothing does
}

// reserveRequest counts a request in flight and reserves its memory without the
// body. The reservation must be released. The error is KindRateLimited or
// KindUnavailable.
func (s *server) reserveRequest(ctx huma.Context, by caller) (*reservation, error) {
	h := &reservation{server: s, header: headerOf(ctx), key: by.budgetKey(), tenant: by.budgetTenant()}
	if session, ok := SessionOf(ctx.Context()); ok {
		h.held = session.Memory
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	t, k := b.tenants[h.tenant], b.keys[h.key]
	switch {
	case t.requests >= b.TenantRequests:
		return nil, h.limitExceeded(refusedTenantRequests, fmt.Sprintf("The tenant has reached its limit of %d concurrent requests; try again.", b.TenantRequests))
	case !h.key.IsZero() && k.requests >= b.KeyRequests:
		return nil, h.limitExceeded(refusedKeyRequests, fmt.Sprintf("The key has reached its limit of %d concurrent requests; try again.", b.KeyRequests))
	}
	if err := b.reserve(h, requestMemory); err != nil {
		return nil, err
	}
	b.add(h, 1, 0)
	h.counted = true
	return h, nil
}

// releaseForWait releases the memory and the count of a request that waits for work,
// promises or events. The limits of waiting requests apply instead.
func (h *reservation) releaseForWait() {
	requests := 0
	if h.counted {
		requests = -1
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(h, requests, -h.bytes)
	h.counted, h.bytes = false, 0
}

// answerWeight is the memory for each byte of an answer that a page uses: the answer, its copy, the
// decoded values, and their text in the page.
const answerWeight = 4

// countOut ends a request in flight. Its memory, and that of its answer, stays reserved.
func (h *reservation) countOut(answer int64) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	requests, bytes := 0, max(answer*answerWeight-h.bytes, 0)
	if h.counted {
		requests = -1
	}
	b.add(h, requests, bytes)
	h.counted, h.bytes = false, h.bytes+bytes
}

// reserve reserves n bytes for the request. The error is KindRateLimited if a limit
// of the tenant or key is exceeded, and KindUnavailable if that of the instance is.
// A tenant or key whose other requests hold nothing may exceed its limit with one
// request.
func (h *reservation) reserve(n int64) error {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(h, n)
}

func (b *budget) reserve(h *reservation, n int64) error {
	available := b.Bytes
	if isSmall := h.bytes+n <= b.Bytes/100; !isSmall {
		available -= b.Bytes / smallRequestShare
	}
	ofTenant, ofKey := h.held.bytes(h)
	switch {
	case exceeds(b.tenants[h.tenant].bytes, h.bytes+ofTenant, n, b.TenantBytes):
		return h.limitExceeded(refusedTenantBytes, "The concurrent requests of the tenant have reached their memory limit; try again, or send smaller requests.")
	case !h.key.IsZero() && exceeds(b.keys[h.key].bytes, h.bytes+ofKey, n, b.KeyBytes):
		return h.limitExceeded(refusedKeyBytes, "The concurrent requests of the key have reached their memory limit; try again, or send smaller requests.")
	case b.bytes+n > available:
		return h.countRefusal(refusedBytes, &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: "The concurrent requests on this instance have reached its memory limit; try again."})
	}
	b.add(h, 0, n)
	h.bytes += n
	return nil
}

// exceeds reports whether n more bytes exceed a limit. held are the bytes of all
// requests, own are the bytes of this request and of the others of its HeldMemory.
func exceeds(held, own, n, limit int64) bool { return held > own && held+n > limit }

// addUnchecked counts n bytes that are in memory already, without checking the
// limits. Later requests are refused instead.
func (h *reservation) addUnchecked(n int64) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(h, 0, n)
	h.bytes += n
}

// release releases the whole reservation, or hands its memory over to the HeldMemory of its session,
// which uses an answer of so many bytes.
func (h *reservation) release(answer int64) {
	if h.held == nil {
		h.releaseForWait()
	} else if h.countOut(answer); !h.held.keep(h) {
		h.releaseForWait()
	}
	if h.releaseLargeSlot != nil {
		h.releaseLargeSlot() // after the bytes, so that the next large body finds them free
	}
}

func (b *budget) add(h *reservation, requests int, bytes int64) {
	b.bytes += bytes
	addTo(b.tenants, h.tenant, requests, bytes)
	if !h.key.IsZero() {
		addTo(b.keys, h.key, requests, bytes)
	}
}

func addTo[K comparable](all map[K]inFlight, key K, requests int, bytes int64) {
	f := all[key]
	f.requests += requests
	f.bytes += bytes
	if f == (inFlight{}) {
		delete(all, key)
		return
	}
	all[key] = f
}

// limitExceeded returns the refusal of a request whose tenant or key has reached a
// limit.
func (s *server) limitExceeded(reason, message string) error {
	return s.countRefusal(reason, &eventhook.Error{Kind: eventhook.KindRateLimited, Message: message, RetryAfter: time.Second})
}
