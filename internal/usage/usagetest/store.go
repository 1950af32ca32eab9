// Package usagetest is for tests: a usage.Store in memory, and a suite that it
// passes as PostgreSQL does.
package usagetest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
)

// Sum is what a tenant has stored.
type Sum struct{ Events, Bytes int64 }

// Store keeps the contract of usage.Store in memory. It can be told to fail,
// and does nothing then. Safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	writeErr error
	readErr  error
	reading  func()
	days     map[tenantDay]Sum
	spans    map[span]eventhook.SourceCount
	sent     map[sentSpan]eventhook.SubscriptionCount
	writes   int
	reads    int
}

type tenantDay struct {
	tenant eventhook.TenantID
	day    time.Time
}

type span struct {
	source eventhook.SourceID
	at     time.Time
}

type sentSpan struct {
	subscription eventhook.SubscriptionID
	at           time.Time
}

var _ usage.Store = (*Store)(nil)

// NewStore makes an empty one.
func NewStore() *Store {
	return &Store{days: map[tenantDay]Sum{}, spans: map[span]eventhook.SourceCount{},
		sent: map[sentSpan]eventhook.SubscriptionCount{}, reading: func() {}}
}

// AddTenantCounts adds all counts, or with an error none.
func (s *Store) AddTenantCounts(ctx context.Context, _ int, counts []eventhook.TenantCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	fresh := maps.Clone(s.days)
	seen := map[tenantDay]bool{}
	for _, c := range counts {
		key := tenantDay{c.TenantID, c.Day.UTC()}
		if seen[key] {
			return errors.New("a tenant's day occurs twice")
		}
		seen[key] = true
		fresh[key] = Sum{fresh[key].Events + c.Events, fresh[key].Bytes + c.Bytes}
	}
	s.days = fresh
	s.writes++
	return nil
}

// AddSourceCounts adds all counts, or with an error none.
func (s *Store) AddSourceCounts(ctx context.Context, _ int, counts []eventhook.SourceCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	fresh := maps.Clone(s.spans)
	seen := map[span]bool{}
	for _, c := range counts {
		key := span{c.SourceID, c.At.UTC()}
		if seen[key] {
			return errors.New("a source's span occurs twice")
		}
		seen[key] = true
		c.Events, c.Failed = c.Events+fresh[key].Events, c.Failed+fresh[key].Failed
		fresh[key] = c
	}
	s.spans = fresh
	s.writes++
	return nil
}

// AddSubscriptionCounts adds all counts, or with an error none.
func (s *Store) AddSubscriptionCounts(ctx context.Context, _ int, counts []eventhook.SubscriptionCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	fresh := maps.Clone(s.sent)
	seen := map[sentSpan]bool{}
	for _, c := range counts {
		key := sentSpan{c.SubscriptionID, c.At.UTC()}
		if seen[key] {
			return errors.New("a subscription's span occurs twice")
		}
		seen[key] = true
		have := fresh[key]
		c.Delivered, c.Failed, c.Dead, c.Duration = c.Delivered+have.Delivered, c.Failed+have.Failed, c.Dead+have.Dead, c.Duration+have.Duration
		fresh[key] = c
	}
	s.sent = fresh
	s.writes++
	return nil
}

// Sent is what is written down of a subscription in each span.
func (s *Store) Sent(subscription eventhook.SubscriptionID) map[time.Time]eventhook.SubscriptionCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := map[time.Time]eventhook.SubscriptionCount{}
	for key, c := range s.sent {
		if key.subscription == subscription {
			spans[key.at] = c
		}
	}
	return spans
}

// UsageBetween sums up the tenants' days.
func (s *Store) UsageBetween(ctx context.Context, from, until time.Time, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantCount, error) {
	s.mu.Lock()
	s.reads++
	reading := s.reading
	s.mu.Unlock()
	reading()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.readErr); err != nil {
		return nil, err
	}
	wanted := make(map[eventhook.TenantID]bool, len(tenants))
	for _, id := range tenants {
		wanted[id] = true
	}
	sums := map[eventhook.TenantID]eventhook.TenantCount{}
	for key, have := range s.days {
		if wanted[key.tenant] && !key.day.Before(from) && key.day.Before(until) {
			c := sums[key.tenant]
			sums[key.tenant] = eventhook.TenantCount{TenantID: key.tenant, Events: c.Events + have.Events, Bytes: c.Bytes + have.Bytes}
		}
	}
	return sums, nil
}

// FailWrites makes the next writes fail; nil lets them succeed.
func (s *Store) FailWrites(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeErr = err
}

// FailReads makes the next reads fail; nil lets them succeed.
func (s *Store) FailReads(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readErr = err
}

// OnRead has each read call do before it answers.
func (s *Store) OnRead(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = do
}

// SetDay replaces what a tenant has stored on a day; an empty sum is none.
func (s *Store) SetDay(tenant eventhook.TenantID, day time.Time, sum Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.days[tenantDay{tenant, day}] = sum
	if sum == (Sum{}) {
		delete(s.days, tenantDay{tenant, day})
	}
}

// Of is what is written down of a tenant, by day.
func (s *Store) Of(tenant eventhook.TenantID) map[time.Time]Sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	days := map[time.Time]Sum{}
	for key, have := range s.days {
		if key.tenant == tenant {
			days[key.day] = have
		}
	}
	return days
}

// Received is what is written down of the sources in all spans, at the last.
func (s *Store) Received() map[eventhook.SourceID]eventhook.SourceCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	sums := map[eventhook.SourceID]eventhook.SourceCount{}
	for key, c := range s.spans {
		sum := sums[key.source]
		if sum.SourceID = key.source; c.At.After(sum.At) {
			sum.At = c.At
		}
		sum.Events, sum.Failed = sum.Events+c.Events, sum.Failed+c.Failed
		sums[key.source] = sum
	}
	return sums
}

// Calls is how often it was written to, and read.
func (s *Store) Calls() (writes, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.reads
}
