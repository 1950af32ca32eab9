package pg

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
)

const (
	maxPending  = 500  // changed events of a tenant that wait to be read; further ones are missed
	maxRead     = 2000 // changed events that are read together
	maxOutgoing = 400  // ids that one round of notices sends to other instances
	maxBuffered = 1000 // events that wait for a slow watcher
)

// eventFeed collects changes of events for watchers. A tenant is watched by watchers of this
// process (local) or by other instances that have announced it (remote). For local watchers,
// the ids of changed events are collected and the events are read together; other instances
// receive the ids. Changes of unwatched tenants are ignored.
type eventFeed struct {
	// watched is the number of entries in local and remote. While it is 0, accepting and
	// settling events pay only for loading it.
	watched atomic.Int64
	ready   wake.Signal // events can be read, or missed ones reported
	hub     *hub

	mu          sync.Mutex
	local       map[eventhook.TenantID]*tenantFeed
	remote      map[eventhook.TenantID]time.Time // when the announcements expire
	outgoing    map[eventhook.TenantID]*changedEvents
	outgoingIDs int // number of ids in outgoing
}

// tenantFeed holds the watchers of one tenant in this process, and the changes to read for
// them.
type tenantFeed struct {
	watchers map[*watcher]bool
	pending  changedEvents
}

// changedEvents is a set of events that have changed.
type changedEvents struct {
	ids    map[eventhook.EventID]bool
	missed bool // further events have changed
}

// add adds an event unless the set is full, and sets missed if it is. It reports whether the
// event was added.
func (h *changedEvents) add(id eventhook.EventID, isFull bool) bool {
	switch {
	case h.ids[id]:
		return false
	case isFull:
		h.missed = true
		return false
	case h.ids == nil:
		h.ids = map[eventhook.EventID]bool{}
	}
	h.ids[id] = true
	return true
}

// watcher is one call of WatchEvents.
type watcher struct {
	signal  wake.Signal
	updates eventhook.EventUpdates // guarded by eventFeed.mu
}

func newEventFeed(h *hub) *eventFeed {
	return &eventFeed{ready: wake.New(1), hub: h, local: map[eventhook.TenantID]*tenantFeed{},
		remote: map[eventhook.TenantID]time.Time{}, outgoing: map[eventhook.TenantID]*changedEvents{}}
}

// eventsChanged records that a transaction has changed events of a tenant.
func (f *eventFeed) eventsChanged(now time.Time, tenant eventhook.TenantID, ids ...eventhook.EventID) {
	if f.isUnwatched() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.addPendingLocked(tenant, id, false)
		if now.Before(f.remote[tenant]) {
			f.addOutgoingLocked(tenant, id)
		}
	}
}

// remoteChanged records changed events that another instance has sent.
func (f *eventFeed) remoteChanged(tenant eventhook.TenantID, ids []eventhook.EventID, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.addPendingLocked(tenant, id, false)
	}
	if missed {
		f.addPendingLocked(tenant, eventhook.EventID{}, true)
	}
}

// addPendingLocked adds an event to read for the watchers of this process. If missed is true,
// it records instead that changes were missed.
func (f *eventFeed) addPendingLocked(tenant eventhook.TenantID, id eventhook.EventID, missed bool) {
	h := f.local[tenant]
	if h == nil {
		return
	}
	if missed {
		h.pending.missed = true
	} else {
		h.pending.add(id, len(h.pending.ids) >= maxPending)
	}
	f.ready.Notify()
}

func (f *eventFeed) addOutgoingLocked(tenant eventhook.TenantID, id eventhook.EventID) {
	h := f.outgoing[tenant]
	if h == nil {
		h = &changedEvents{}
		f.outgoing[tenant] = h
	}
	if h.add(id, f.outgoingIDs >= maxOutgoing) {
		f.outgoingIDs++
	}
	f.hub.outgoing.Notify()
}

func (f *eventFeed) updateWatchedLocked() { f.watched.Store(int64(len(f.local) + len(f.remote))) }

// addRemote records that another instance watches a tenant until a time.
func (f *eventFeed) addRemote(tenant eventhook.TenantID, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remote[tenant] = until
	f.updateWatchedLocked()
}

// expire removes tenants that no other instance has announced recently.
func (f *eventFeed) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tenant, until := range f.remote {
		if !now.Before(until) {
			delete(f.remote, tenant)
		}
	}
	f.updateWatchedLocked()
}

// markAllMissed reports to all watchers that changes were missed, since notifications were
// lost.
func (f *eventFeed) markAllMissed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tenant := range f.local {
		f.addPendingLocked(tenant, eventhook.EventID{}, true)
	}
}

// isUnwatched reports whether no tenant is watched. It takes no lock.
func (f *eventFeed) isUnwatched() bool { return f.watched.Load() == 0 }

// announceWatched announces the tenants that this process watches to the other instances.
func (f *eventFeed) announceWatched() {
	f.mu.Lock()
	var topics []string
	for tenant := range f.local {
		topics = append(topics, watchTopic(tenant))
	}
	f.mu.Unlock()
	f.hub.wake(topics...)
}

func (f *eventFeed) subscribe(tenant eventhook.TenantID) *watcher {
	w := &watcher{signal: wake.New(1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.local[tenant]
	if h == nil {
		h = &tenantFeed{watchers: map[*watcher]bool{}}
		f.local[tenant] = h
		f.updateWatchedLocked()
		f.hub.wake(watchTopic(tenant))
	}
	h.watchers[w] = true
	return w
}

func (f *eventFeed) unsubscribe(tenant eventhook.TenantID, w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.local[tenant]
	delete(h.watchers, w)
	if len(h.watchers) == 0 {
		delete(f.local, tenant)
		f.updateWatchedLocked()
	}
}

// takeUpdates returns the updates that wait for a watcher, and clears them.
func (f *eventFeed) takeUpdates(w *watcher) eventhook.EventUpdates {
	f.mu.Lock()
	defer f.mu.Unlock()
	updates := w.updates
	w.updates = eventhook.EventUpdates{}
	return updates
}

// takePending returns the changes to read, and clears them. If there are more than maxRead, it
// returns the changes of some tenants and leaves the rest for the next call.
func (f *eventFeed) takePending() map[eventhook.TenantID]changedEvents {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken, n := map[eventhook.TenantID]changedEvents{}, 0
	for tenant, h := range f.local {
		if len(h.pending.ids) == 0 && !h.pending.missed {
			continue
		}
		if n += len(h.pending.ids); n > maxRead {
			f.ready.Notify()
			break
		}
		taken[tenant] = h.pending
		h.pending = changedEvents{}
	}
	return taken
}

// distribute appends updates of a tenant for all its watchers. It never blocks.
func (f *eventFeed) distribute(tenant eventhook.TenantID, updates eventhook.EventUpdates) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.local[tenant]
	if h == nil {
		return
	}
	for w := range h.watchers {
		space := max(0, maxBuffered-len(w.updates.Events))
		w.updates.Missed = w.updates.Missed || updates.Missed || len(updates.Events) > space
		w.updates.Events = append(w.updates.Events, updates.Events[:min(space, len(updates.Events))]...)
		w.signal.Notify()
	}
}
