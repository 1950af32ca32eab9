package pg

import (
	"context"

	"github.com/eventhook/eventhook"
)

// maxSearchPageBytes limits the bodies that a search reads at once. The last may exceed it.
const maxSearchPageBytes = 8 << 20

// EventsToSearch returns a tenant's events as routes see them, newest first, within the times
// of f and before f.Before. It reads at most f.Limit events, fewer if their bodies are large.
// next is the cursor of the next page, zero at the end. With needsPayload it reads
// payloads; headers of an event are nil if its payload is past its retention. Primary keys.
func (db *DB) EventsToSearch(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter,
	needsPayload bool) (events []*eventhook.Event, next eventhook.EventID, err error) {
	list, err := readEvents(ctx, db.lists, tenant, f, routedColumns, scanRouted)
	if err != nil || len(list) == 0 {
		return nil, next, err
	}
	size := 0
	for i, e := range list {
		size += e.BodySize
		if needsPayload && size >= maxSearchPageBytes || i == f.Limit-1 {
			list, next = list[:i+1], e.ID
			break
		}
	}
	if !needsPayload {
		return list, next, nil
	}
	return list, next, db.readPayloads(ctx, list)
}

// EventsByID returns events of a tenant, newest first, without their payloads. Events that
// do not exist are missing. Primary keys.
func (db *DB) EventsByID(ctx context.Context, tenant eventhook.TenantID, ids []eventhook.EventID) ([]eventhook.Event, error) {
	keys := make([]rowKey, len(ids))
	for i, id := range ids {
		keys[i] = rowKey{tenant, id}
	}
	list, err := db.lists.eventsByKey(ctx, keys)
	return list, translate("read events", err)
}
