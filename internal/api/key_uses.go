package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// KeyUseStore notes when keys were used last, all of them or, with an error,
// none. A moment before the one that it has changes nothing.
type KeyUseStore interface {
	RecordKeyUse(ctx context.Context, used map[eventhook.KeyID]time.Time) error
}

// KeyUses remembers when keys were used last, so that no request has to write
// it. Safe for concurrent use.
type KeyUses struct {
	mu   sync.Mutex
	last map[eventhook.KeyID]time.Time
}

// NewKeyUses remembers nothing yet; Run writes down what it does.
func NewKeyUses() *KeyUses { return &KeyUses{last: map[eventhook.KeyID]time.Time{}} }

// note remembers a use. Beyond so many keys, which only a store that fails for
// long brings about, it remembers no further ones.
func (u *KeyUses) record(key eventhook.KeyID, at time.Time) {
	const maxKeys = 100_000
	u.mu.Lock()
	defer u.mu.Unlock()
	if before, known := u.last[key]; at.After(before) && (known || len(u.last) < maxKeys) {
		u.last[key] = at
	}
}

// Flush writes down what was remembered, in one act. With an error it is kept
// for the next.
func (u *KeyUses) Flush(ctx context.Context, store KeyUseStore) error {
	u.mu.Lock()
	used := u.last
	u.last = map[eventhook.KeyID]time.Time{}
	u.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := store.RecordKeyUse(ctx, used)
	if err != nil {
		for key, at := range used {
			u.record(key, at)
		}
	}
	return err
}

// Run flushes every ten seconds until ctx ends, and then what is left: end it
// after the last request. Run it once.
func (u *KeyUses) Run(ctx context.Context, store KeyUseStore, log *slog.Logger) error {
	const interval, timeout = 10 * time.Second, 5 * time.Second
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		if err := u.Flush(ctx, store); err != nil {
			log.Warn("cannot note which keys were used; trying again", "error", err)
		}
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			flush()
			return nil
		case <-tick.C:
			flush()
		}
	}
}
