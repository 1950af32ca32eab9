package pg

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
)

const (
	maxPending  = 500  // events of a tenant that are read together; what is beyond is missed
	maxRead     = 2000 // events that are read together
	maxOutgoing = 400  // events that one notice round tells the others
	maxBuffered = 1000 // events that wait for a listener who is slow
)

// eventFeed is who follows what happens to which tenants' events: listeners of
// this process, and other instances that have said so. Ids are collected for
// the listeners, and read together; the others are told the ids. Nothing is
// collected, told or read of a tenant whom nobody watches.
type eventFeed struct {
	// watched counts the entries of local and remote: while it is 0, accepting
	// and settling pay for a look at it and no more.
	watched atomic.Int64
	ready   wake.Signal // something is to be read, or handed over
	hub     *hub

	mu          sync.Mutex
	local       map[eventhook.TenantID]*tenantFeed
	remote      map[eventhook.TenantID]time.Time // until when the others want to know
	outgoing    map[eventhook.TenantID]*changedEvents
	outgoingIDs int // ids in outgoing
}

// watch is one tenant's.
type tenantFeed struct {
	listeners map[*watcher]bool
	pending   changedEvents
}

// happenings are events to which something has happened.
type changedEvents struct {
	ids    map[eventhook.EventID]bool
	missed bool // there were more
}

// add notes an event if it is there already or most are not reached; it
// reports whether it was added.
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

// listener is one who is told.
type watcher struct {
	signal wake.Signal
	news   eventhook.EventUpdates // guarded by eventFeed.mu
}

func newEventFeed(h *hub) *eventFeed {
	return &eventFeed{ready: wake.New(1), hub: h, local: map[eventhook.TenantID]*tenantFeed{},
		remote: map[eventhook.TenantID]time.Time{}, outgoing: map[eventhook.TenantID]*changedEvents{}}
}

// eventsChanged notes that something was committed about a tenant's events.
func (w *eventFeed) eventsChanged(now time.Time, tenant eventhook.TenantID, ids ...eventhook.EventID) {
	if w.isUnwatched() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.addPendingLocked(tenant, id, false)
		if now.Before(w.remote[tenant]) {
			w.addOutgoingLocked(tenant, id)
		}
	}
}

// heard notes what another instance tells of a tenant's events.
func (w *eventFeed) remoteChanged(tenant eventhook.TenantID, ids []eventhook.EventID, missed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.addPendingLocked(tenant, id, false)
	}
	if missed {
		w.addPendingLocked(tenant, eventhook.EventID{}, true)
	}
}

// addPendingLocked has an event read for this process's listeners; or, without one,
// has them told that something was missed.
func (w *eventFeed) addPendingLocked(tenant eventhook.TenantID, id eventhook.EventID, missed bool) {
	h := w.local[tenant]
	if h == nil {
		return
	}
	if missed {
		h.pending.missed = true
	} else {
		h.pending.add(id, len(h.pending.ids) >= maxPending)
	}
	w.ready.Notify()
}

func (w *eventFeed) addOutgoingLocked(tenant eventhook.TenantID, id eventhook.EventID) {
	h := w.outgoing[tenant]
	if h == nil {
		h = &changedEvents{}
		w.outgoing[tenant] = h
	}
	if h.add(id, w.outgoingIDs >= maxOutgoing) {
		w.outgoingIDs++
	}
	w.hub.outgoing.Notify()
}

func (w *eventFeed) updateWatchedLocked() { w.watched.Store(int64(len(w.local) + len(w.remote))) }

// wanted notes that another instance watches a tenant, until a moment.
func (w *eventFeed) addRemote(tenant eventhook.TenantID, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remote[tenant] = until
	w.updateWatchedLocked()
}

// expire forgets whom the others have not asked about for some time.
func (w *eventFeed) expire(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tenant, until := range w.remote {
		if !now.Before(until) {
			delete(w.remote, tenant)
		}
	}
	w.updateWatchedLocked()
}

// markAllMissed says that nobody knows what was missed: notices were not heard.
func (w *eventFeed) markAllMissed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tenant := range w.local {
		w.addPendingLocked(tenant, eventhook.EventID{}, true)
	}
}

// isUnwatched reports that nobody watches anything; it is as cheap as can be.
func (w *eventFeed) isUnwatched() bool { return w.watched.Load() == 0 }

// announce tells the others whom this process watches.
func (w *eventFeed) announceWatched() {
	w.mu.Lock()
	var topics []string
	for tenant := range w.local {
		topics = append(topics, watchTopic(tenant))
	}
	w.mu.Unlock()
	w.hub.wake(topics...)
}

func (w *eventFeed) join(tenant eventhook.TenantID) *watcher {
	l := &watcher{signal: wake.New(1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.local[tenant]
	if h == nil {
		h = &tenantFeed{listeners: map[*watcher]bool{}}
		w.local[tenant] = h
		w.updateWatchedLocked()
		w.hub.wake(watchTopic(tenant))
	}
	h.listeners[l] = true
	return l
}

func (w *eventFeed) leave(tenant eventhook.TenantID, l *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.local[tenant]
	delete(h.listeners, l)
	if len(h.listeners) == 0 {
		delete(w.local, tenant)
		w.updateWatchedLocked()
	}
}

// take returns what waits for a listener.
func (w *eventFeed) takeNews(l *watcher) eventhook.EventUpdates {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := l.news
	l.news = eventhook.EventUpdates{}
	return news
}

// takePending returns what is to be read, of some tenants if there is much; the
// rest waits for the next time.
func (w *eventFeed) takePending() map[eventhook.TenantID]changedEvents {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken, n := map[eventhook.TenantID]changedEvents{}, 0
	for tenant, h := range w.local {
		if len(h.pending.ids) == 0 && !h.pending.missed {
			continue
		}
		if n += len(h.pending.ids); n > maxRead {
			w.ready.Notify()
			break
		}
		taken[tenant] = h.pending
		h.pending = changedEvents{}
	}
	return taken
}

// hand gives a tenant's news to all its listeners and waits for none.
func (w *eventFeed) distribute(tenant eventhook.TenantID, news eventhook.EventUpdates) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.local[tenant]
	if h == nil {
		return
	}
	for l := range h.listeners {
		room := max(0, maxBuffered-len(l.news.Events))
		l.news.Missed = l.news.Missed || news.Missed || len(news.Events) > room
		l.news.Events = append(l.news.Events, news.Events[:min(room, len(news.Events))]...)
		l.signal.Notify()
	}
}
