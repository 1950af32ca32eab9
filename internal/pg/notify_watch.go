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
	watchInterval = 10 * time.Second  // how often an instance announces the tenants that it watches
	watchTTL      = 3 * watchInterval // how long the other instances remember an announcement
)

// WatchEvents calls send with the changes of a tenant's events on any instance, from now on
// until ctx ends or send fails, and returns the error of send. The first call comes at once,
// without changes. Later calls come at least once per idle, without changes if there are none.
// There is one call at a time. While send runs, changes are collected; if there are too many,
// the next update has Missed set. Changes on other instances arrive only after these have
// received this instance's announcement. PushEvents must run.
func (db *DB) WatchEvents(ctx context.Context, tenant eventhook.TenantID, idle time.Duration, send func(eventhook.EventUpdates) error) error {
	w := db.feed.subscribe(tenant)
	defer db.feed.unsubscribe(tenant, w)
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		if err := send(db.feed.takeUpdates(w)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.signal:
		case <-tick.C:
		}
	}
}

// PushEvents reads changed events for the watchers of this process, at most once per interval,
// until ctx ends.
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

// watchedEventsSQL reads one partition for each event. Primary key.
const watchedEventsSQL = `SELECT ` + eventColumns + `
FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
JOIN eventhook.event e ON e.tenant_id = u.tenant_id AND e.id = u.id
LEFT JOIN eventhook.source s ON s.id = e.source_id
ORDER BY e.id`

func (db *DB) pushEvents(ctx context.Context) {
	pending := db.feed.takePending()
	var tenants, ids [][16]byte
	for tenant, changed := range pending {
		for id := range changed.ids {
			tenants, ids = append(tenants, tenant), append(ids, id)
		}
	}
	events, err := db.watchedEvents(ctx, tenants, ids)
	if err != nil && ctx.Err() == nil {
		db.log.Warn("cannot read events for their watchers", "error", err)
	}
	for tenant, changed := range pending {
		db.feed.distribute(tenant, eventhook.EventUpdates{Events: events[tenant], Missed: changed.missed || err != nil})
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

// notifyAccepted reports the events that Accept has stored to the event feed.
func (db *DB) notifyAccepted(batch []*effects.Arrival) {
	if db.feed.isUnwatched() {
		return
	}
	now := db.now()
	for _, a := range batch {
		if e := a.Event; e.Status != "" { // "" if it was refused
			db.feed.eventsChanged(now, e.TenantID, e.ID)
		}
		if a.IsPlanned() {
			db.notifyPublications(now, a.Plan)
		}
	}
}

// notifySettled reports the events that SettleEvents has settled to the event feed.
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

// notifyPublications reports the events that an event's routes have published to the event
// feed.
func (db *DB) notifyPublications(now time.Time, s *effects.Settlement) {
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Effect.Publication != nil && a.Status == eventhook.ActionSuccess {
			db.feed.eventsChanged(now, s.Event.TenantID, a.PublishedEventID)
		}
	}
}

// The first words of notices about events. All other notices are topics to wake.
const (
	watchNotice  = "watch"  // the sending instance has watchers of a tenant
	eventNotice  = "event"  // events of a tenant have changed; the ids follow
	missedNotice = "missed" // more events of a tenant have changed than were sent
)

// maxIDsPerNotice is how many ids fit into the 8000 bytes of a NOTIFY payload.
const maxIDsPerNotice = 200

func watchTopic(tenant eventhook.TenantID) string { return watchNotice + " " + tenant.String() }

// takeNotices returns the notices about changed events that other instances watch, and clears
// them.
func (f *eventFeed) takeNotices() (notices []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tenant, h := range f.outgoing {
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
	clear(f.outgoing)
	f.outgoingIDs = 0
	return notices
}

// handleNotice handles a notice of another instance. It ignores notices that it does not
// understand: the other instance may be newer.
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
