package session

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
)

// watchInterval is how often Watch checks for the end of a session that another instance, its idle
// timeout or its expiry has ended.
const watchInterval = 15 * time.Second

// Watch returns a context for a response that lasts, such as a stream. The context ends with the
// request and with its session, which has the given token: at once if this instance ends the session,
// and within watchInterval otherwise. While the store fails, the context continues. The caller must
// call stop.
func (s *Sessions) Watch(r *http.Request, token string) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	w := &watcher{cancel}
	hash := hashOf(token)
	s.watchers.add(hash, w)
	go panics.Guarded(func() {
		defer s.watchers.remove(hash, w)
		defer cancel()
		s.waitForEnd(r.WithContext(ctx))
	})()
	return ctx, cancel
}

// waitForEnd returns when the session of a request has ended, or the context of the request. It checks
// the session at once, because it may have ended before Watch began.
func (s *Sessions) waitForEnd(r *http.Request) {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		if _, _, err := s.Peek(r); eventhook.KindOf(err) == eventhook.KindUnauthorized {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticks.C:
		}
	}
}

// watchers are the calls of Watch by the token of their session.
type watchers struct {
	mu  sync.Mutex
	all map[tokenHash]map[*watcher]struct{}
}

type watcher struct{ cancel context.CancelFunc }

func (l *watchers) add(hash tokenHash, w *watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[tokenHash]map[*watcher]struct{}{}
	}
	if l.all[hash] == nil {
		l.all[hash] = map[*watcher]struct{}{}
	}
	l.all[hash][w] = struct{}{}
}

func (l *watchers) remove(hash tokenHash, w *watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all[hash], w)
	if len(l.all[hash]) == 0 {
		delete(l.all, hash)
	}
}

// end cancels the contexts of a session that has ended.
func (l *watchers) end(hash tokenHash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.all[hash] {
		w.cancel()
	}
}
