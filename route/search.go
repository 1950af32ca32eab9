package route

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
)

// ReadForSearch reads events of a tenant, newest first, within the window of a search. It
// begins with the first event that is older than before. It examines at most limit events,
// fewer if the events are large. next is the id to continue from, zero at the end. With
// needsPayload, the events have their payloads; an event whose payload was deleted by
// retention has nil headers.
type ReadForSearch func(ctx context.Context, before eventhook.EventID, limit int, needsPayload bool) (events []*eventhook.Event,
	next eventhook.EventID, err error)

// SearchOptions describe a search.
type SearchOptions struct {
	Tenant     eventhook.TenantID
	CPULimiter *cpushare.Limiter
	Read       ReadForSearch
	Filter     []byte            // a pattern filter, as in routes
	Before     eventhook.EventID // continues a search; zero for the newest event
	Limit      int               // maximum number of events to find
}

// SearchResult holds the events that a search found. It examined every event of the window
// that is not older than Until.
type SearchResult struct {
	IDs     []eventhook.EventID // newest first
	Scanned int                 // number of events examined
	Until   eventhook.EventID   // the oldest event examined; zero if none
	Next    eventhook.EventID   // the search continues before this id; zero at the end of the window
}

// The budget of one search. It ends at the first of these limits, or when the tenant's
// share of processor time is used up, and the next search continues.
const (
	maxSearchTime  = 5 * time.Second
	maxSearched    = 200_000   // events
	maxSearchBytes = 256 << 20 // of bodies
	searchPage     = 500       // events read at once
)

// Search finds the events of a tenant that match a filter, from the newest to the oldest.
// An event whose payload is past its retention matches only a filter that reads nothing
// from it, and an event for which the filter takes too many steps does not match.
// A tenant runs one search or backtest at a time. The errors are the faults of the filter,
// those of Read, and KindUnavailable if no slot was free in time.
func Search(ctx context.Context, o SearchOptions) (SearchResult, error) {
	s, err := newSearch(o)
	if err != nil {
		return SearchResult{}, err
	}
	err = backtestLimit.run(ctx, o.Tenant, s.run)
	return s.result, err
}

// search is the state of one search.
type search struct {
	SearchOptions
	fields       filter.Fields
	filter       *filter.Filter
	needsPayload bool
	subject      filter.Subject
	bytes        int
	result       SearchResult
}

func newSearch(o SearchOptions) (*search, error) {
	s := &search{SearchOptions: o}
	compiled, faults := filter.Compile(o.Filter, &s.fields)
	if len(faults) > 0 {
		return nil, faults.Err("The filter is not valid.")
	}
	s.filter, s.needsPayload = compiled, compiled.Reads("body") || compiled.Reads("header")
	return s, nil
}

// run returns nil when a limit ends the search.
func (s *search) run(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, maxSearchTime)
	defer cancel()
	s.result.Next = s.Before
	err := s.readAll(bounded)
	hasEnded := bounded.Err() != nil && ctx.Err() == nil || errors.Is(err, cpushare.ErrBusy)
	if err != nil && hasEnded && s.result.Scanned > 0 {
		return nil
	}
	return err
}

func (s *search) readAll(ctx context.Context) error {
	for s.result.Scanned < maxSearched && s.bytes < maxSearchBytes {
		events, next, err := s.Read(ctx, s.result.Next, searchPage, s.needsPayload)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := s.add(ctx, e); err != nil || len(s.result.IDs) == s.Limit {
				return err
			}
		}
		if s.result.Next = next; next.IsZero() {
			return nil
		}
	}
	return nil
}

// add examines one event. It adds nothing if ctx ends first.
func (s *search) add(ctx context.Context, e *eventhook.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	isFound := false
	if !s.needsPayload || e.Headers != nil {
		err := s.CPULimiter.Evaluate(ctx, e.TenantID, cpushare.Tests, func(m *meter.Meter) {
			s.subject.Begin(m, e, &s.fields)
			defer s.subject.End()
			isFound = s.filter.Holds(&s.subject, nil)
		})
		if err != nil && !errors.Is(err, meter.ErrLimit) {
			return err
		}
	}
	if isFound {
		s.result.IDs = append(s.result.IDs, e.ID)
	}
	s.result.Scanned++
	s.result.Until, s.result.Next = e.ID, e.ID
	s.bytes += len(e.Body)
	return nil
}
