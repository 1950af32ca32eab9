package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Limits bound what requests to the API hold on one instance. A request weighs
// what its body and its answer take in memory once they are decoded, about: see
// bodyCost. A field that is 0 is its default.
type Limits struct {
	Bytes       int64 // of all requests
	TenantBytes int64 // of one tenant's requests
	KeyBytes    int64 // of one key's requests

	TenantRequests int // of one tenant at once; those that wait for work, promises and events have limits of their own
	KeyRequests    int // of one key at once

	ListConns int // connections for lists: as many reads run at once, half of them for one tenant
	WorkConns int // connections for all else: as many workers' requests run at once, three quarters of them for one tenant
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

// smallRequestShare is the part of Limits.Bytes that only small requests may use, each
// with a hundredth of all at most: one in so many.
const smallRequestShare = 4

// Reasons for which a request is refused, as the metrics count them.
const (
	refusedTenantRequests = "tenant_requests"
	refusedKeyRequests    = "key_requests"
	refusedTenantBytes    = "tenant_bytes"
	refusedKeyBytes       = "key_bytes"
	refusedBytes          = "instance_bytes"
	refusedQueue          = "queue_full"
	refusedWait           = "no_slot_in_time"
)

// budget counts what requests in flight hold. It is safe for concurrent use.
type budget struct {
	Limits
	mu      sync.Mutex
	bytes   int64
	tenants map[eventhook.TenantID]inFlight // zero is the admin key
	keys    map[eventhook.KeyID]inFlight
}

// held is what the requests of one tenant or key hold.
type inFlight struct {
	requests int
	bytes    int64
}

func newBudget(l Limits) *budget {
	return &budget{Limits: l, tenants: map[eventhook.TenantID]inFlight{}, keys: map[eventhook.KeyID]inFlight{}}
}

// hold is what one request holds of the budgets. Only the goroutine that serves
// the request may use it.
type reservation struct {
	*server
	header           http.Header // of the answer
	tenant           eventhook.TenantID
	key              eventhook.KeyID // zero is the admin key
	counted          bool            // as a request in flight
	bytes            int64
	releaseLargeSlot func() // gives back the slot of a large body; nil without one
}

// enter counts a request in flight, and reserves what it takes without its body.
// Its hold must be released.
func (s *server) reserveRequest(ctx huma.Context, by caller) (*reservation, error) {
	h := &reservation{server: s, header: headerOf(ctx), key: by.key}
	if !by.admin {
		h.tenant = by.tenant
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	t, k := b.tenants[h.tenant], b.keys[h.key]
	switch {
	case t.requests >= b.TenantRequests:
		return nil, h.limitExceeded(refusedTenantRequests, fmt.Sprintf("The tenant has %d requests in flight, which is the limit; try again.", b.TenantRequests))
	case !h.key.IsZero() && k.requests >= b.KeyRequests:
		return nil, h.limitExceeded(refusedKeyRequests, fmt.Sprintf("The key has %d requests in flight, which is the limit; try again.", b.KeyRequests))
	}
	if err := b.reserve(h, requestMemory); err != nil {
		return nil, err
	}
	b.add(h, 1, 0)
	h.counted = true
	return h, nil
}

// park gives back what a request holds that waits for something to happen: such
// requests have limits of their own.
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

// take reserves bytes for the request, or tells why there is no room. A tenant
// and a key whose other requests hold nothing may exceed their limits with one.
func (h *reservation) reserve(n int64) error {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(h, n)
}

func (b *budget) reserve(h *reservation, n int64) error {
	all := b.Bytes
	if h.bytes+n > all/100 {
		all -= all / smallRequestShare
	}
	switch {
	case exceeds(b.tenants[h.tenant].bytes, h.bytes, n, b.TenantBytes):
		return h.limitExceeded(refusedTenantBytes, "The tenant's requests in flight hold as much memory as they may; try again, or send less at once.")
	case !h.key.IsZero() && exceeds(b.keys[h.key].bytes, h.bytes, n, b.KeyBytes):
		return h.limitExceeded(refusedKeyBytes, "The key's requests in flight hold as much memory as they may; try again, or send less at once.")
	case b.bytes+n > all:
		return h.countRefusal(refusedBytes, &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: "The requests in flight hold as much memory as they may; try again."})
	}
	b.add(h, 0, n)
	h.bytes += n
	return nil
}

// exceeds reports whether n more bytes are too many beside those held, of which
// own are the request's.
func exceeds(held, own, n, limit int64) bool { return held > own && held+n > limit }

// add reserves bytes that are there already, whatever the limits: requests that
// come later are refused for them.
func (h *reservation) addUnchecked(n int64) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(h, 0, n)
	h.bytes += n
}

// release gives everything back.
func (h *reservation) release() {
	h.releaseForWait()
	if h.releaseLargeSlot != nil {
		h.releaseLargeSlot() // the next one finds the bytes free
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
	u := all[key]
	u.requests += requests
	u.bytes += bytes
	if u == (inFlight{}) {
		delete(all, key)
		return
	}
	all[key] = u
}

// limitExceeded is the refusal of a request whose tenant or key has used its share up.
func (s *server) limitExceeded(reason, message string) error {
	return s.countRefusal(reason, &eventhook.Error{Kind: eventhook.KindRateLimited, Message: message, RetryAfter: time.Second})
}
