package pg

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

const (
	watchInterval = 10 * time.Second  // how often an instance says whom it watches
	watchTTL      = 3 * watchInterval // how long others believe it
)

// WatchEvents calls tell with what happens to a tenant's events on any
// instance, from now on until ctx ends or tell returns an error, which it
// returns. The first call comes at once, and another at least every idle, with
// nothing if nothing happened. Calls come one at a time; while one runs, news
// gather, and when they are too many it is told that some were missed. What
// other instances do is heard from a moment later on. PushEvents must run.
func (db *DB) WatchEvents(ctx context.Context, tenant eventhook.TenantID, idle time.Duration, tell func(eventhook.EventUpdates) error) error {
	l := db.feed.join(tenant)
	defer db.feed.leave(tenant, l)
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		if err := tell(db.feed.takeNews(l)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.signal:
		case <-tick.C:
		}
	}
}

// PushEvents reads, for those who watch, the events to which something has
// happened, at most once per interval, until ctx ends.
func (db *DB) PushEvents(ctx context.Context, interval time.Duration) error {
	announce := time.NewTicker(watchInterval)
	defer announce.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-announce.C:
			db.feed.expire(db.now())
			db.feed.announceWatched()
			continue
		case <-db.feed.ready:
		}
		db.pushEvents(ctx)
		pause.Reset(interval)
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// watchedEventsSQL looks into one partition for each event. Primary key.
const watchedEventsSQL = `SELECT ` + eventColumns + `
FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
JOIN eventhook.event e ON e.tenant_id = u.tenant_id AND e.id = u.id
LEFT JOIN eventhook.source s ON s.id = e.source_id
ORDER BY e.id`

func (db *DB) pushEvents(ctx context.Context) {
	pending := db.feed.takePending()
	var tenants, ids [][16]byte
	for tenant, h := range pending {
		for id := range h.ids {
			tenants, ids = append(tenants, tenant), append(ids, id)
		}
	}
	events, err := db.watchedEvents(ctx, tenants, ids)
	if err != nil && ctx.Err() == nil {
		db.log.Warn("cannot read events for those who watch them", "error", err)
	}
	for tenant, h := range pending {
		db.feed.distribute(tenant, eventhook.EventUpdates{Events: events[tenant], Missed: h.missed || err != nil})
	}
}

func (db *DB) watchedEvents(ctx context.Context, tenants, ids [][16]byte) (map[eventhook.TenantID][]eventhook.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := db.lists.Query(ctx, watchedEventsSQL, tenants, ids)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, scanEvent)
	events := map[eventhook.TenantID][]eventhook.Event{}
	for _, e := range list {
		events[e.TenantID] = append(events[e.TenantID], e)
	}
	return events, err
}

// notifyAccepted notes what Accept has stored for those who watch.
func (db *DB) notifyAccepted(batch []*effects.Arrival) {
	if db.feed.isUnwatched() {
		return
	}
	now := db.now()
	for _, a := range batch {
		if e := a.Event; e.Status != "" { // else it was refused
			db.feed.eventsChanged(now, e.TenantID, e.ID)
		}
		if a.IsPlanned() {
			db.notifyPublications(now, a.Plan)
		}
	}
}

// notifySettled does so with what SettleEvents has settled.
func (db *DB) notifySettled(batch []*effects.Settlement) {
	if db.feed.isUnwatched() {
		return
	}
	now := db.now()
	for _, s := range batch {
		db.feed.eventsChanged(now, s.Event.TenantID, s.Event.ID)
		db.notifyPublications(now, s)
	}
}

// notifyPublications does so with the events that an event's routes have published.
func (db *DB) notifyPublications(now time.Time, s *effects.Settlement) {
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Effect.Publication != nil && a.Status == eventhook.ActionSuccess {
			db.feed.eventsChanged(now, s.Event.TenantID, a.PublishedEventID)
		}
	}
}

// Notices about events, beside those that wake: their first word says which.
const (
	watchNotice  = "watch"  // the sender watches a tenant
	eventNotice  = "event"  // something happened to a tenant's events: their ids
	missedNotice = "missed" // more happened than was told
)

// maxIDsPerNotice ids fit into the 8000 bytes that a notice may have.
const maxIDsPerNotice = 200

func watchTopic(tenant eventhook.TenantID) string { return watchNotice + " " + tenant.String() }

// takeNotices returns the notices that tell the others what has happened.
func (w *eventFeed) takeNotices() (notices []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tenant, h := range w.outgoing {
		var ids []string
		for id := range h.ids {
			ids = append(ids, id.String())
		}
		for part := range slices.Chunk(ids, maxIDsPerNotice) {
			notices = append(notices, eventNotice+" "+tenant.String()+" "+strings.Join(part, " "))
		}
		if h.missed {
			notices = append(notices, missedNotice+" "+tenant.String())
		}
	}
	clear(w.outgoing)
	w.outgoingIDs = 0
	return notices
}

// hear takes in what another instance says. What is not understood is left
// alone: the other may be newer.
func (db *DB) handleNotice(notice string) {
	words := strings.Fields(notice)
	if len(words) < 2 || !slices.Contains([]string{watchNotice, eventNotice, missedNotice}, words[0]) {
		db.hub.wakeLocal(notice)
		return
	}
	tenant, err := eventhook.ParseID[eventhook.Tenant](words[1])
	if err != nil {
		return
	}
	if words[0] == watchNotice {
		db.feed.addRemote(tenant, db.now().Add(watchTTL))
		return
	}
	var ids []eventhook.EventID
	for _, word := range words[2:] {
		if id, err := eventhook.ParseID[eventhook.Event](word); err == nil {
			ids = append(ids, id)
		}
	}
	db.feed.remoteChanged(tenant, ids, words[0] == missedNotice)
}
