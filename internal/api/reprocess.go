package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// EventReprocess selects events to reprocess.
type EventReprocess struct {
	Mode     string                `json:"mode,omitempty" enum:"retry,again" doc:"retry (default): route failed, dead and unrouted events again; actions that succeeded are not repeated. again: create a new event with the payload of each event that is dead, unrouted, delivered or a duplicate, and route it by the current routes; all its effects are created again."`
	EventIDs []string              `json:"event_ids,omitempty" minItems:"1" maxItems:"1000" doc:"Events to reprocess. If given, filter is ignored."`
	Filter   *EventReprocessFilter `json:"filter,omitempty" doc:"Events to reprocess. If more match than limit, the newest are reprocessed."`
	Limit    *int                  `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"Maximum number of events; required with filter."`
	// ExpectedCount is compared before anything is reprocessed.
	ExpectedCount *int `json:"expected_count,omitempty" minimum:"0" maximum:"10000" doc:"Number of events that event_ids names or filter matches, regardless of limit. If it is another number, nothing is reprocessed: 409 with that number."`
}

// EventReprocessFilter filters events. An omitted member does not filter.
type EventReprocessFilter struct {
	Status         []string `json:"status,omitempty" minItems:"1" enum:"failed,dead,unrouted,delivered,duplicate" doc:"Statuses to reprocess: a list, or one status as a string. Mode retry: failed, dead and unrouted, default all three. Mode again: dead, unrouted, delivered and duplicate, default the first three."`
	Source         string   `json:"source,omitempty" doc:"Slug of the source."`
	SourceID       string   `json:"source_id,omitempty" doc:"Id of the source."`
	ReceivedAfter  string   `json:"received_after,omitempty" format:"date-time" doc:"Events received after this time."`
	ReceivedBefore string   `json:"received_before,omitempty" format:"date-time" doc:"Events received before this time."`
}

// EventsReprocessed lists the reprocessed events.
type EventsReprocessed struct {
	ReprocessedCount int      `json:"reprocessed_count" doc:"Number of reprocessed events."`
	EventIDs         []string `json:"event_ids" doc:"Mode retry: the reprocessed events, newest first. Mode again: the new events, in the order of their originals."`

	Skipped []EventSkipped `json:"skipped,omitempty" doc:"Mode again: selected events for which no event was created."`
}

// EventSkipped is a selected event that was not reprocessed.
type EventSkipped struct {
	EventID string `json:"event_id" format:"uuid"`
	Reason  string `json:"reason" example:"its payload is past the retention period"`
}

type reprocessRequest struct {
	TenantPath
	Body document[EventReprocess]
}

type reprocessAnswer struct{ Body EventsReprocessed }

func (s *server) reprocessEvents(ctx context.Context, by caller, in *reprocessRequest) (*reprocessAnswer, error) {
	body, shape := in.Body.readStatuses(s)
	which, err := body.selection(shape)
	if err != nil {
		return nil, err
	}
	if body.Mode == modeAgain {
		return s.reprocessAgain(ctx, by, in.Tenant, which)
	}
	ids, err := s.Events.ReprocessEvents(ctx, by.actor(), by.tenant, which)
	if err != nil {
		return nil, err
	}
	return &reprocessAnswer{EventsReprocessed{ReprocessedCount: len(ids), EventIDs: idTexts(ids)}}, nil
}

// modeAgain is the mode that creates new events.
const modeAgain = "again"

// reprocessAgain creates new events within the quota of the tenant. It fails if the quota is
// exhausted before the first event.
func (s *server) reprocessAgain(ctx context.Context, by caller, tenant string, which eventhook.EventSelection) (*reprocessAnswer, error) {
	account, err := s.accounts.Get(ctx, tenant)
	if err != nil {
		return nil, err
	}
	ids, repeatable, err := s.Events.SelectAgain(ctx, by.tenant, which)
	if err != nil {
		return nil, err
	}
	share := takeShare(account, repeatable, s.Now())
	if len(repeatable) > 0 && len(share.taken) == 0 {
		return nil, quotaError(share.excess, share.at)
	}
	ids = slices.DeleteFunc(ids, func(id eventhook.EventID) bool { return share.refused[id] })
	copies, err := s.Events.ReprocessAgain(ctx, by.actor(), by.tenant, ids)
	share.giveBack(copies)
	if err != nil {
		return nil, err
	}
	out := EventsReprocessed{ReprocessedCount: len(copies.IDs), EventIDs: idTexts(copies.IDs)}
	for _, x := range append(copies.Skipped, share.skipped(repeatable)...) {
		out.Skipped = append(out.Skipped, EventSkipped{x.ID.String(), x.Reason})
	}
	return &reprocessAnswer{out}, nil
}

// checkStatuses adds a fault for each status that the mode cannot reprocess.
func (b EventReprocess) checkStatuses(rules *eventhook.Faults) {
	allowed, mode := eventhook.Reprocessable, "retry"
	if b.Mode == modeAgain {
		allowed, mode = eventhook.FinalEvents, modeAgain
	}
	for i, status := range b.Filter.Status {
		if !slices.Contains(allowed, eventhook.EventStatus(status)) {
			rules.Add(fmt.Sprintf("body.filter.status[%d]", i), "events that are %s cannot be reprocessed in mode %s", status, mode)
		}
	}
}

// selection returns the selected events. If an id cannot be parsed, the error is
// KindMalformed, whatever other faults there are.
func (b EventReprocess) selection(shape eventhook.Faults) (which eventhook.EventSelection, err error) {
	which.ExpectedCount = b.ExpectedCount
	var ids, rules eventhook.Faults
	for i, text := range b.EventIDs {
		which.IDs = append(which.IDs, idAt[eventhook.Event](&ids, fmt.Sprintf("body.event_ids[%d]", i), text))
	}
	if f := b.Filter; f != nil {
		which.Filter.SourceID = namedID[eventhook.Source](&ids, &rules, "body.filter.source_id", f.SourceID)
		checkText(&rules, "body.filter.source", f.Source)
		which.Filter.Source = f.Source
		which.Filter.ReceivedAfter, which.Filter.ReceivedBefore = moment(f.ReceivedAfter), moment(f.ReceivedBefore)
		b.checkStatuses(&rules)
		for _, status := range f.Status {
			which.Statuses = append(which.Statuses, eventhook.EventStatus(status))
		}
	}
	switch {
	case b.EventIDs != nil:
	case b.Filter == nil:
		rules.Add("body", "needs event_ids, or filter and limit")
	case b.Limit == nil:
		rules.Add("body.limit", "is required with filter")
	default:
		which.Filter.Limit = *b.Limit
	}
	return which, unreadFirst(shape, ids, rules)
}

// moment parses a time that was checked against its schema; it returns the zero time
// for any other text.
func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return sinceEpoch(at)
}
