package main

import (
	"context"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pg"
)

// tenantSlugs keeps the slugs of up to slugsInMemory tenants for the log, so that no line waits for
// the database. A slug never changes. run must be running. It is safe for concurrent use.
type tenantSlugs struct {
	store  slugStore
	log    *slog.Logger
	slugs  *lru.Cache[eventhook.TenantID, string]
	missed chan eventhook.TenantID // tenants to read; further ones are dropped while it is full
	reload chan struct{}           // has a token after changes that were not notified
}

// slugStore has the slugs of all tenants.
type slugStore interface {
	TenantSlugs(ctx context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error)
	NewestTenantSlugs(ctx context.Context, limit int) (map[eventhook.TenantID]string, error)
}

// slugsInMemory is the number of tenants whose slugs are kept: about 1 MB.
const slugsInMemory = 10_000

func newTenantSlugs(store slugStore, log *slog.Logger) *tenantSlugs {
	const atOnce = 100
	slugs, _ := lru.New[eventhook.TenantID, string](slugsInMemory) // fails for a size below 1 only
	return &tenantSlugs{store: store, log: log, slugs: slugs, missed: make(chan eventhook.TenantID, atOnce), reload: make(chan struct{}, 1)}
}

// slug returns the slug of a tenant from memory. If it is not there, slug returns "" and has it
// read for later lines.
func (s *tenantSlugs) slug(id eventhook.TenantID) string {
	if slug, ok := s.slugs.Get(id); ok {
		return slug
	}
	select {
	case s.missed <- id:
	default:
	}
	return ""
}

// changed keeps the slug of a tenant that was created or changed.
func (s *tenantSlugs) changed(c pg.ConfigChange) {
	switch {
	case c == pg.ConfigChange{}:
		select {
		case s.reload <- struct{}{}:
		default:
		}
	case !c.TenantID.IsZero() && c.TenantSlug != "":
		s.slugs.Add(c.TenantID, c.TenantSlug)
	}
}

// run reads the slugs that are asked for until ctx ends. It always returns nil.
func (s *tenantSlugs) run(ctx context.Context) error {
	for {
		var found map[eventhook.TenantID]string
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-s.reload:
			found, err = s.store.NewestTenantSlugs(ctx, slugsInMemory)
		case id := <-s.missed:
			found, err = s.readMissed(ctx, id)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug("cannot read the slugs of tenants for the log", "error", err)
		}
		for id, slug := range found {
			s.slugs.Add(id, slug)
		}
	}
}

// readMissed reads the slugs of all tenants that wait. A tenant that does not exist has the slug
// "", so that it is not read again soon.
func (s *tenantSlugs) readMissed(ctx context.Context, first eventhook.TenantID) (map[eventhook.TenantID]string, error) {
	ids := []eventhook.TenantID{first}
	for len(s.missed) > 0 {
		ids = append(ids, <-s.missed) // run is the only receiver
	}
	found, err := s.store.TenantSlugs(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		found[id] += ""
	}
	return found, nil
}
