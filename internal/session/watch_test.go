package session_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

// failingStore fails while isDown.
type failingStore struct {
	*sessiontest.Store
	isDown atomic.Bool
}

func (s *failingStore) WebSession(ctx context.Context, hash []byte) (session.Session, error) {
	if s.isDown.Load() {
		return session.Session{}, errors.New("no connection")
	}
	return s.Store.WebSession(ctx, hash)
}

// watched is a session that a stream watches, on one of two instances, in the time of a synctest bubble.
type watched struct {
	*fixture
	store     *failingStore
	one, two  *session.Sessions
	token     string
	hasEnded  func() bool
	startedAt time.Time
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{fixture: &fixture{T: t}, store: &failingStore{Store: sessiontest.NewStore(time.Now)}, startedAt: time.Now()}
	instance := func() *session.Sessions {
		return session.New(session.Config{Kind: session.Console, Cookies: session.ConsoleCookies(), Store: w.store})
	}
	w.one, w.two = instance(), instance()
	w.token = w.start(w.one, request("POST", site), session.Session{}).Value
	ctx, stop := w.one.Watch(from(stranger, w.token), w.token)
	t.Cleanup(stop)
	w.hasEnded = func() bool { synctest.Wait(); return ctx.Err() != nil }
	w.same("ended at the start", w.hasEnded(), false)
	return w
}

func (w *watched) end(s *session.Sessions) {
	w.Helper()
	w.must(s.End(w.Context(), httptest.NewRecorder(), from(stranger, w.token)))
}

func TestWatchEndsAtOnceWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		other := w.start(w.one, request("POST", site), session.Session{}).Value
		w.must(w.one.End(t.Context(), httptest.NewRecorder(), from(stranger, other)))
		w.same("with another session", w.hasEnded(), false)
		w.end(w.one)
		w.same("with its session", w.hasEnded(), true)
		w.same("time", time.Since(w.startedAt), time.Duration(0))
	})
}

func TestWatchEndsSoonAfterAnotherInstanceEndedTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.end(w.two)
		w.same("at once", w.hasEnded(), false)
		w.store.isDown.Store(true)
		time.Sleep(time.Minute)
		w.same("while the store fails", w.hasEnded(), false)
		w.store.isDown.Store(false)
		time.Sleep(15 * time.Second)
		w.same("15 s later", w.hasEnded(), true)
	})
}

func TestWatchEndsIfTheSessionEndedBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.end(w.one)
		ctx, stop := w.one.Watch(from(stranger, w.token), w.token)
		defer stop()
		synctest.Wait()
		w.same("ended", ctx.Err() != nil, true)
	})
}

func TestWatchDoesNotExtendTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		time.Sleep(session.IdleTimeout - time.Second)
		w.same("before the idle timeout", w.hasEnded(), false)
		time.Sleep(16 * time.Second)
		w.same("after the idle timeout", w.hasEnded(), true)
		w.same("touches", w.store.Touches(), 0)
	})
}

func TestWatchEndsWhenItsCallerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		ctx, stop := w.one.Watch(from(stranger, w.token), w.token)
		stop()
		w.same("ended", ctx.Err() != nil, true)
		w.same("the other one", w.hasEnded(), false)
	})
}
