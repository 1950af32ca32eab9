package api

import (
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

const (
	streamsOfTenant = 20
	streamsOfAll    = 500
)

// streams bounds how many there are at once on this instance.
type streams struct {
	mu sync.Mutex
	n  int
	of map[eventhook.TenantID]int
}

// enter counts one more; leave must be called once, when it has ended.
func (s *streams) enter(tenant eventhook.TenantID) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= streamsOfAll || s.of[tenant] >= streamsOfTenant {
		return nil, &eventhook.Error{Kind: eventhook.KindRateLimited, Message: "There are too many streams; end one, or try again later.", RetryAfter: 30 * time.Second}
	}
	if s.of == nil {
		s.of = map[eventhook.TenantID]int{}
	}
	s.n++
	s.of[tenant]++
	return func() { s.leave(tenant) }, nil
}

func (s *streams) leave(tenant eventhook.TenantID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	if s.of[tenant]--; s.of[tenant] == 0 {
		delete(s.of, tenant)
	}
}
