package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pg"
)

// slowSlugs answers after an hour.
type slowSlugs struct {
	known map[eventhook.TenantID]string
	reads atomic.Int64
}

func (s *slowSlugs) TenantSlugs(_ context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error) {
	s.reads.Add(1)
	time.Sleep(time.Hour)
	found := map[eventhook.TenantID]string{}
	for _, id := range ids {
		if slug, ok := s.known[id]; ok {
			found[id] = slug
		}
	}
	return found, nil
}

func (s *slowSlugs) NewestTenantSlugs(ctx context.Context, _ int) (map[eventhook.TenantID]string, error) {
	return s.TenantSlugs(ctx, []eventhook.TenantID{{1}})
}

func TestNoLineWaitsForTheSlugOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowSlugs{known: map[eventhook.TenantID]string{{1}: "acme", {2}: "shop"}}
		s := newTenantSlugs(store, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.run(ctx) }()
		began := time.Now()
		for range 1000 {
			for n := range byte(200) {
				if got := s.slug(eventhook.TenantID{n}); got != "" {
					t.Fatalf("before the read the slug is %q, want none", got)
				}
			}
		}
		s.changed(pg.ConfigChange{TenantID: eventhook.TenantID{3}, TenantSlug: "bank"})
		if got := s.slug(eventhook.TenantID{3}); got != "bank" || !time.Now().Equal(began) {
			t.Errorf("the slug of a notified tenant is %q after %s, want bank at once", got, time.Since(began))
		}
		s.changed(pg.ConfigChange{}) // reads the newest tenants
		time.Sleep(10 * time.Hour)
		for n, want := range map[byte]string{1: "acme", 2: "shop", 9: ""} {
			if got := s.slug(eventhook.TenantID{n}); got != want {
				t.Errorf("the slug of %d is %q, want %q", n, got, want)
			}
		}
		time.Sleep(10 * time.Hour)
		if n := store.reads.Load(); n > 4 {
			t.Errorf("%d reads, want few", n)
		}
		stop()
		<-ended
	})
}
