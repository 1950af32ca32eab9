package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// KeyUseStore records the time of the last use of keys, for all keys of a call or,
// with an error, for none. A time before the recorded one has no effect.
type KeyUseStore interface {
	RecordKeyUse(ctx context.Context, used map[eventhook.KeyID]time.Time) error
}

// KeyUses buffers the time of the last use of keys, so that requests do not write to
// the database. It is safe for concurrent use.
type KeyUses struct {
	mu   sync.Mutex
	last map[eventhook.KeyID]time.Time
}

// NewKeyUses returns an empty buffer. Run writes it to the database.
func NewKeyUses() *KeyUses { return &KeyUses{last: map[eventhook.KeyID]time.Time{}} }

// record buffers a use. When the buffer has maxKeys keys, which happens only if the
// store fails for long, further keys are dropped.
func (u *KeyUses) record(key eventhook.KeyID, at time.Time) {
	const maxKeys = 100_000
	u.mu.Lock()
	defer u.mu.Unlock()
	if before, known := u.last[key]; at.After(before) && (known || len(u.last) < maxKeys) {
		u.last[key] = at
	}
}

// Flush writes the buffer in one call of the store. If the call fails, the buffer is
// kept for the next Flush.
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

// Run flushes every ten seconds until ctx ends, and once more then. End ctx after
// the last request. Run must be called once.
func (u *KeyUses) Run(ctx context.Context, store KeyUseStore, log *slog.Logger) error {
	const interval, timeout = 10 * time.Second, 5 * time.Second
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		if err := u.Flush(ctx, store); err != nil {
			log.Warn("cannot record the last use of API keys; retrying", "error", err)
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
