package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/natslog"
)

// keptEvents is a natslog.Sink in memory.
type keptEvents struct {
	natslog.Sink
	events []*eventhook.Event
	err    error
}

func (s *keptEvents) Store(events []*eventhook.Event) error {
	for _, e := range events {
		e.Status = eventhook.EventPending
	}
	s.events = append(s.events, events...)
	return s.err
}

type closedCount int

func (c *closedCount) LogClosed(events int) { *c += closedCount(events) }

func TestEventsOfClosedTenantsAreNotStored(t *testing.T) {
	at := time.Now()
	open, closed := eventhook.NewID[eventhook.Tenant](at), eventhook.NewID[eventhook.Tenant](at)
	kept, n := &keptEvents{}, closedCount(0)
	var broken error
	sink := openTenantsSink{kept, func(_ context.Context, asked []eventhook.TenantID) (map[eventhook.TenantID]bool, error) {
		return map[eventhook.TenantID]bool{closed: slices.Contains(asked, closed)}, broken
	}, &n, slog.New(slog.DiscardHandler)}
	batch := []*eventhook.Event{{TenantID: open}, {TenantID: closed}, {TenantID: open}, {TenantID: closed}}

	broken = errors.New("the database is down")
	if err := sink.Store(batch); !errors.Is(err, broken) || len(kept.events) != 0 {
		t.Errorf("it is not known which tenants are closed: got %v and %d stored events, want %v and 0", err, len(kept.events), broken)
	}
	broken, kept.err = nil, errors.New("the commit failed")
	if err := sink.Store(batch); !errors.Is(err, kept.err) || batch[1].Status != "" || n != 0 {
		t.Errorf("the commit failed: got %v, the status %q and %d counted; want %v, none and 0", err, batch[1].Status, n, kept.err)
	}
	kept.err, kept.events = nil, nil
	if err := sink.Store(batch); err != nil || !slices.Equal(kept.events, []*eventhook.Event{batch[0], batch[2]}) || n != 2 {
		t.Errorf("got %v, %d stored events and %d counted; want the two of the open tenant, and 2", err, len(kept.events), n)
	}
	for i, e := range batch {
		if e.Status == "" {
			t.Errorf("event %d has no status, so that the log keeps it", i)
		}
	}
	kept.events = nil
	if err := sink.Store([]*eventhook.Event{{TenantID: closed}}); err != nil || len(kept.events) != 0 || n != 3 {
		t.Errorf("only a closed tenant: got %v, %d stored events and %d counted; want 0 and 3", err, len(kept.events), n)
	}
}
