package api

import (
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
)

// quotaShare is the part of a tenant's quota that a request has taken for new events with the
// payloads of old ones.
type quotaShare struct {
	account *usage.Account
	at      time.Time
	taken   map[eventhook.EventID]int // bytes
	refused map[eventhook.EventID]bool
	excess  *usage.Excess // of the last refused event; nil if none was refused
}

// takeShare takes the quota of each event, in their order, as if it had just been received.
func takeShare(account *usage.Account, events []eventhook.RepeatableEvent, at time.Time) quotaShare {
	q := quotaShare{account: account, at: at, taken: map[eventhook.EventID]int{}, refused: map[eventhook.EventID]bool{}}
	for _, e := range events {
		if excess := account.Take(e.Bytes, at); excess != nil {
			q.refused[e.ID], q.excess = true, excess
			continue
		}
		q.taken[e.ID] = e.Bytes
	}
	return q
}

// giveBack returns the quota of events for which no event was created: of these that were
// skipped, or of all if copies is empty.
func (q quotaShare) giveBack(copies eventhook.EventCopies) {
	for _, x := range copies.Skipped {
		q.giveBackOne(x.ID)
	}
	if len(copies.IDs) == 0 {
		for id := range q.taken {
			q.giveBackOne(id)
		}
	}
}

func (q quotaShare) giveBackOne(id eventhook.EventID) {
	if bytes, ok := q.taken[id]; ok {
		q.account.Return(bytes, q.at)
		delete(q.taken, id)
	}
}

// skipped names the refused events, in their order.
func (q quotaShare) skipped(events []eventhook.RepeatableEvent) (list []eventhook.SkippedEvent) {
	for _, e := range events {
		if q.refused[e.ID] {
			list = append(list, eventhook.SkippedEvent{ID: e.ID,
				Reason: fmt.Sprintf("the quota %s of the tenant is used up; process the event again when it is reset, at %s",
					q.excess.Quota, q.excess.ResetsAt.UTC().Format(time.RFC3339))})
		}
	}
	return list
}
