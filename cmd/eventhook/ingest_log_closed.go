package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/natslog"
)

// openTenantsSink is a natslog.Sink without the events of closed tenants. A tenant may be closed, and its data
// deleted, while its events wait in the log.
type openTenantsSink struct {
	natslog.Sink
	closed  func(ctx context.Context, tenants []eventhook.TenantID) (map[eventhook.TenantID]bool, error)
	metrics interface{ LogClosed(events int) }
	log     *slog.Logger
}

// Store stores the events of tenants that are not closed. Other events get the status EventDead, so that
// the log deletes them.
func (s openTenantsSink) Store(events []*eventhook.Event) error {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	closed, err := s.closed(ctx, tenantsOf(events))
	if err != nil {
		return err
	}
	var open, dropped []*eventhook.Event
	for _, e := range events {
		if closed[e.TenantID] {
			dropped = append(dropped, e)
		} else {
			open = append(open, e)
		}
	}
	if len(open) > 0 {
		if err := s.Sink.Store(open); err != nil {
			return err
		}
	}
	if len(dropped) == 0 {
		return nil
	}
	for _, e := range dropped {
		e.Status = eventhook.EventDead
	}
	s.metrics.LogClosed(len(dropped))
	s.log.Info("webhooks of closed tenants waited in the log; they are not stored", "events", len(dropped))
	return nil
}

// tenantsOf returns the tenant of each event once.
func tenantsOf(events []*eventhook.Event) (tenants []eventhook.TenantID) {
	seen := map[eventhook.TenantID]bool{}
	for _, e := range events {
		if !seen[e.TenantID] {
			seen[e.TenantID] = true
			tenants = append(tenants, e.TenantID)
		}
	}
	return tenants
}
