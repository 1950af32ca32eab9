package api

import (
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

const (
	maxTenantStreams   = 20
	maxInstanceStreams = 500
)

// streamLimiter limits the concurrent event streams on this instance. It is safe for
// concurrent use.
type streamLimiter struct {
	mu sync.Mutex
	n  int
	of map[eventhook.TenantID]int
}

// acquire counts a stream. The caller must call release once when the stream ends.
// The error is KindRateLimited if a limit is reached.
func (s *streamLimiter) acquire(tenant eventhook.TenantID) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= maxInstanceStreams || s.of[tenant] >= maxTenantStreams {
		return nil, &eventhook.Error{Kind: eventhook.KindRateLimited, Message: "Too many event streams are open; close one, or try again later.", RetryAfter: 30 * time.Second}
	}
	if s.of == nil {
		s.of = map[eventhook.TenantID]int{}
	}
	s.n++
	s.of[tenant]++
	return func() { s.release(tenant) }, nil
}

func (s *streamLimiter) release(tenant eventhook.TenantID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	if s.of[tenant]--; s.of[tenant] == 0 {
		delete(s.of, tenant)
	}
}
