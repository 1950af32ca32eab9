// Package usagetest has an in-memory usage.Store for tests, and the conformance suite of
// usage.Store that this store and PostgreSQL pass.
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

// Sum is the number and the bytes of a tenant's stored events.
type Sum struct{ Events, Bytes int64 }

// Store is a usage.Store in memory that can be made to fail. It is safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	writeErr error
	readErr  error
	onRead   func()
	days     map[tenantDay]Sum
	spans    map[span]eventhook.SourceCount
	sent     map[sentSpan]eventhook.SubscriptionCount
	traffic  map[trafficSpan]eventhook.Traffic
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

type trafficSpan struct {
	eventhook.TrafficOf
	span eventhook.TrafficSpan
	at   time.Time
}

var _ usage.Store = (*Store)(nil)

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{days: map[tenantDay]Sum{}, spans: map[span]eventhook.SourceCount{},
		sent: map[sentSpan]eventhook.SubscriptionCount{}, traffic: map[trafficSpan]eventhook.Traffic{}, onRead: func() {}}
}

// AddTenantCounts implements usage.Store.
func (s *Store) AddTenantCounts(ctx context.Context, _ int, counts []eventhook.TenantCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	updated := maps.Clone(s.days)
	seen := map[tenantDay]bool{}
	for _, c := range counts {
		key := tenantDay{c.TenantID, c.Day.UTC()}
		if seen[key] {
			return errors.New("a tenant's day occurs twice")
		}
		seen[key] = true
		updated[key] = Sum{updated[key].Events + c.Events, updated[key].Bytes + c.Bytes}
	}
	s.days = updated
	s.writes++
	return nil
}

// AddSourceCounts implements usage.Store.
func (s *Store) AddSourceCounts(ctx context.Context, _ int, counts []eventhook.SourceCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	updated := maps.Clone(s.spans)
	seen := map[span]bool{}
	for _, c := range counts {
		key := span{c.SourceID, c.At.UTC()}
		if seen[key] {
			return errors.New("a source's span occurs twice")
		}
		seen[key] = true
		c.Events, c.Failed = c.Events+updated[key].Events, c.Failed+updated[key].Failed
		updated[key] = c
	}
	s.spans = updated
	s.writes++
	return nil
}

// AddSubscriptionCounts implements usage.Store.
func (s *Store) AddSubscriptionCounts(ctx context.Context, _ int, counts []eventhook.SubscriptionCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	updated := maps.Clone(s.sent)
	seen := map[sentSpan]bool{}
	for _, c := range counts {
		key := sentSpan{c.SubscriptionID, c.At.UTC()}
		if seen[key] {
			return errors.New("a subscription's span occurs twice")
		}
		seen[key] = true
		old := updated[key]
		c.Delivered, c.Failed, c.Dead, c.Duration = c.Delivered+old.Delivered, c.Failed+old.Failed, c.Dead+old.Dead, c.Duration+old.Duration
		updated[key] = c
	}
	s.sent = updated
	s.writes++
	return nil
}

// SubscriptionCounts returns the counts of a subscription by the start of each span.
func (s *Store) SubscriptionCounts(subscription eventhook.SubscriptionID) map[time.Time]eventhook.SubscriptionCount {
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

// AddTraffic implements usage.Store.
func (s *Store) AddTraffic(ctx context.Context, _ int, counts []eventhook.TrafficCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.writeErr); err != nil {
		return err
	}
	updated := maps.Clone(s.traffic)
	seen := map[trafficSpan]bool{}
	for _, c := range counts {
		key := trafficSpan{c.TrafficOf, c.Span, c.At.UTC()}
		if seen[key] {
			return errors.New("a span of a resource occurs twice")
		}
		seen[key] = true
		sum := updated[key]
		sum.Add(c.Traffic)
		updated[key] = sum
	}
	s.traffic = updated
	s.writes++
	return nil
}

// Traffic returns the traffic of a resource by the start of each span of a length.
func (s *Store) Traffic(of eventhook.TrafficOf, span eventhook.TrafficSpan) map[time.Time]eventhook.Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := map[time.Time]eventhook.Traffic{}
	for key, t := range s.traffic {
		if key.TrafficOf == of && key.span == span {
			spans[key.at] = t
		}
	}
	return spans
}

// UsageBetween implements usage.Store.
func (s *Store) UsageBetween(ctx context.Context, from, until time.Time, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantCount, error) {
	s.mu.Lock()
	s.reads++
	onRead := s.onRead
	s.mu.Unlock()
	onRead()
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

// FailWrites makes all writes return err until FailWrites(nil).
func (s *Store) FailWrites(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeErr = err
}

// FailReads makes all reads return err until FailReads(nil).
func (s *Store) FailReads(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readErr = err
}

// OnRead makes each read call do before it returns.
func (s *Store) OnRead(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRead = do
}

// SetDay replaces the sum of a tenant's day; a zero Sum deletes it.
func (s *Store) SetDay(tenant eventhook.TenantID, day time.Time, sum Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.days[tenantDay{tenant, day}] = sum
	if sum == (Sum{}) {
		delete(s.days, tenantDay{tenant, day})
	}
}

// TenantDays returns the sums of a tenant by day.
func (s *Store) TenantDays(tenant eventhook.TenantID) map[time.Time]Sum {
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

// SourceTotals returns the counts of each source over all spans, with the start of the last
// span.
func (s *Store) SourceTotals() map[eventhook.SourceID]eventhook.SourceCount {
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

// Calls returns the numbers of successful writes and of reads.
func (s *Store) Calls() (writes, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.reads
}
