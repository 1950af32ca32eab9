package pg

import (
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Notices about events, beside those that wake: their first word says which.
const (
	watchNotice  = "watch"  // the sender watches a tenant
	eventNotice  = "event"  // something happened to a tenant's events: their ids
	missedNotice = "missed" // more happened than was told
)

// mostInNotice ids fit into the 8000 bytes that a notice may have.
const mostInNotice = 200

func watchTopic(tenant eventhook.TenantID) string { return watchNotice + " " + tenant.String() }

// takeTold returns the notices that tell the others what has happened.
func (w *watches) takeTold() (notices []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tenant, h := range w.told {
		var ids []string
		for id := range h.ids {
			ids = append(ids, id.String())
		}
		for part := range slices.Chunk(ids, mostInNotice) {
			notices = append(notices, eventNotice+" "+tenant.String()+" "+strings.Join(part, " "))
		}
		if h.missed {
			notices = append(notices, missedNotice+" "+tenant.String())
		}
	}
	clear(w.told)
	w.inTold = 0
	return notices
}

// hear takes in what another instance says. What is not understood is left
// alone: the other may be newer.
func (db *DB) hear(notice string) {
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
		db.watches.wanted(tenant, db.now().Add(watchFor))
		return
	}
	var ids []eventhook.EventID
	for _, word := range words[2:] {
		if id, err := eventhook.ParseID[eventhook.Event](word); err == nil {
			ids = append(ids, id)
		}
	}
	db.watches.heard(tenant, ids, words[0] == missedNotice)
}
