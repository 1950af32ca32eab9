package agents

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/outbound"
)

const (
	// minGap is the minimum time between two looks for due deliveries.
	minGap = 2 * time.Millisecond
	// nextLook is how long after a look or a result deliveries may be due without a notification:
	// because there were more than the woken claims take, or because slots are free.
	nextLook = 10 * time.Millisecond
	// forgetAfter is how long after their last Wake claims count as waiting.
	forgetAfter = time.Minute
	// usualClaim is the number of deliveries for which one claim is woken.
	usualClaim = 10
)

// waitKey identifies claims that wait for the same deliveries.
type waitKey struct {
	tenant eventhook.TenantID
	labels string
}

// waitingClaims are claims that wait for the same deliveries.
type waitingClaims struct {
	labels []string
	wake   chan struct{}
	since  time.Time // of the first Wake
	at     time.Time // of the last Wake
}

// Labels returns a set of labels as a text, the same in any order. Labels contain no NUL.
func Labels(a eventhook.Agent) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(a.Labels))), "\x00")
}

// Wake returns a channel that is closed when deliveries for an agent may have become due. Callers
// must call Wake before Claim, so that no delivery is missed in between, and again at least every
// minute while they wait. A delivery wakes the claims that have waited longest, one for ten
// deliveries. Without a caller, Service asks the database nothing.
func (s *Service) Wake(a eventhook.Agent) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := waitKey{a.TenantID, Labels(a)}
	w, ok := s.waiting[key]
	if !ok {
		w = &waitingClaims{labels: a.Labels, wake: make(chan struct{}), since: s.Now()}
		if s.waiting[key] = w; len(s.waiting) == 1 {
			s.look.Notify()
		}
	}
	w.at = s.Now()
	return w.wake
}

// Leave must be called when no claim for the labels of an agent waits any more. It closes the channel
// of Wake.
func (s *Service) Leave(a eventhook.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked(waitKey{a.TenantID, Labels(a)})
}

// Waiting returns the number of sets of labels for which claims wait.
func (s *Service) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// wakeLoop wakes waiting claims until ctx ends.
func (s *Service) wakeLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		notify, began := s.Queue.DeliveriesWake(), s.Now()
		if s.Waiting() == 0 {
			notify = nil
			timer.Stop()
		} else {
			s.wakeDue(ctx)
			timer.Reset(s.untilLook())
			backoff.Sleep(ctx, max(minGap, s.Now().Sub(began)))
		}
		s.pauseLooks(ctx, notify, timer)
	}
}

// pauseLooks returns when the timer fires, and at a notification.
func (s *Service) pauseLooks(ctx context.Context, notify <-chan struct{}, timer *time.Timer) {
	for {
		select {
		case <-s.sooner:
			timer.Reset(s.untilLook())
			continue
		case <-ctx.Done():
		case <-notify:
		case <-s.look:
		case <-timer.C:
		}
		return
	}
}

// untilLook returns when to look for due deliveries without a notification: at the next known retry,
// and at the poll interval.
func (s *Service) untilLook() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dueAt.IsZero() {
		return s.config.PollInterval
	}
	return max(0, min(s.config.PollInterval, s.dueAt.Sub(s.Now())))
}

// wakeAfter wakes the loop for waiting claims after settlements: slots are free, the next deliveries
// of keys are due, and retries are due later.
func (s *Service) wakeAfter(list []*outbound.DeliverySettlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range list {
		if x.Status == eventhook.DeliveryFailed {
			s.expectLocked(x.DueAt)
		}
	}
	s.expectLocked(s.Now().Add(nextLook))
}

// expectLocked records that deliveries may be due at a time.
func (s *Service) expectLocked(at time.Time) {
	if s.dueAt.IsZero() || at.Before(s.dueAt) {
		s.dueAt = at
		s.sooner.Notify()
	}
}

// wakeDue asks the database which destinations of waiting claims have due deliveries, and wakes
// these claims.
func (s *Service) wakeDue(ctx context.Context) {
	var wanted []Share
	labels := map[eventhook.DestinationID][]string{}
	waiters := s.waiters()
	for tenant, w := range waiters {
		list, err := s.Destinations.ForAgents(ctx, tenant)
		if err != nil {
			continue // the claims report it
		}
		list = slices.DeleteFunc(slices.Clone(list), func(d outbound.Destination) bool { return !d.ForAgents || !w.serve(d.Labels) })
		for _, d := range list {
			labels[d.ID] = d.Labels
		}
		shares, _ := s.shares(list, eventhook.MaxAgentClaim)
		for i := range shares {
			shares[i].Max = max(1, shares[i].Max) // the woken claim reserves send times
		}
		wanted = append(wanted, shares...)
	}
	if len(wanted) == 0 {
		return
	}
	due, err := s.Queue.DueForAgents(ctx, wanted)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot look for due deliveries of agents; retrying", "error", err)
	}
	tenants := make(map[eventhook.DestinationID]eventhook.TenantID, len(due))
	for _, x := range wanted {
		tenants[x.DestinationID] = x.TenantID
	}
	for _, d := range due {
		s.wakeOldest(waiters[tenants[d.DestinationID]].all(labels[d.DestinationID]), (d.Count+usualClaim-1)/usualClaim)
	}
	if len(due) > 0 {
		s.mu.Lock()
		s.expectLocked(s.Now().Add(nextLook)) // some may be due still
		s.mu.Unlock()
	}
}

// wakeOldest wakes the n claims that have waited longest.
func (s *Service) wakeOldest(keys []waitKey, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys = slices.DeleteFunc(keys, func(key waitKey) bool { return s.waiting[key] == nil })
	slices.SortFunc(keys, func(x, y waitKey) int { return s.waiting[x].since.Compare(s.waiting[y].since) })
	for _, key := range keys[:min(n, len(keys))] {
		s.wakeLocked(key)
	}
}

func (s *Service) wakeLocked(key waitKey) {
	if w, ok := s.waiting[key]; ok {
		close(w.wake)
		delete(s.waiting, key)
	}
}

// waiters are the waiting claims of a tenant by each of their labels.
type waiters map[string][]waiter

type waiter struct {
	key    waitKey
	labels []string
}

// each calls f with the claims that serve a destination with target labels, until f returns false.
func (w waiters) each(targetLabels []string, f func(waitKey) bool) {
	fewest := slices.MinFunc(targetLabels, func(x, y string) int { return len(w[x]) - len(w[y]) })
	for _, x := range w[fewest] {
		if eventhook.Serves(x.labels, targetLabels) && !f(x.key) {
			return
		}
	}
}

// all returns the claims that serve a destination with target labels.
func (w waiters) all(targetLabels []string) (keys []waitKey) {
	w.each(targetLabels, func(key waitKey) bool { keys = append(keys, key); return true })
	return keys
}

// serve reports whether a claim serves a destination with target labels.
func (w waiters) serve(targetLabels []string) (ok bool) {
	w.each(targetLabels, func(waitKey) bool { ok = true; return false })
	return ok
}

// waiters returns the waiting claims by tenant, and forgets claims that have ended.
func (s *Service) waiters() map[eventhook.TenantID]waiters {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if !s.dueAt.IsZero() && !now.Before(s.dueAt) {
		s.dueAt = time.Time{}
	}
	tenants := map[eventhook.TenantID]waiters{}
	for key, w := range s.waiting {
		if now.Sub(w.at) > forgetAfter {
			delete(s.waiting, key)
			continue
		}
		if tenants[key.tenant] == nil {
			tenants[key.tenant] = waiters{}
		}
		for _, l := range w.labels {
			tenants[key.tenant][l] = append(tenants[key.tenant][l], waiter{key, w.labels})
		}
	}
	return tenants
}
