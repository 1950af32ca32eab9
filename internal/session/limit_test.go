package session_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

// countingStore counts lookups and can hold them up.
type countingStore struct {
	*sessiontest.Store
	mu                    sync.Mutex
	lookups, running, max int
	hold                  chan struct{} // nil: no lookup waits
}

func (s *countingStore) WebSession(ctx context.Context, hash []byte) (session.Session, error) {
	s.enter()
	defer s.leave()
	return s.Store.WebSession(ctx, hash)
}

func (s *countingStore) TakeWebLink(ctx context.Context, hash []byte, kind session.Kind, now time.Time) (session.Session, error) {
	s.enter()
	defer s.leave()
	return s.Store.TakeWebLink(ctx, hash, kind, now)
}

func (s *countingStore) enter() {
	s.mu.Lock()
	s.lookups, s.running = s.lookups+1, s.running+1
	s.max = max(s.max, s.running)
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

func (s *countingStore) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// limited is the fixture with the limits of client addresses.
type limited struct {
	*fixture
	counts *countingStore
}

func setUpLimited(t *testing.T) *limited {
	t.Helper()
	f := &limited{fixture: setUp(t)}
	f.counts = &countingStore{Store: f.store}
	f.console = session.New(session.Config{Kind: session.Console, Cookies: session.ConsoleCookies(), Store: f.counts, Now: f.clock.Now,
		Client: func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() }})
	return f
}

// from returns a request of a client with a cookie.
func from(client, token string) *http.Request {
	r := request("GET", site, &http.Cookie{Name: session.SecurePrefix + "eventhook_console", Value: token})
	r.RemoteAddr = client + ":4000"
	return r
}

func random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (f *limited) read(client, token string) eventhook.Kind {
	_, _, err := f.console.Read(from(client, token))
	return eventhook.KindOf(err)
}

const stranger, neighbour = "198.51.100.7", "203.0.113.9"

// exhaust uses up the budget of the stranger's address.
func (f *limited) exhaust() {
	f.Helper()
	for range 20 {
		f.same("within the budget", f.read(stranger, random()), eventhook.KindUnauthorized)
	}
}

func TestUnknownTokensUseUpTheBudgetOfTheirAddress(t *testing.T) {
	f := setUpLimited(t)
	f.exhaust()
	_, _, err := f.console.Read(from(stranger, random()))
	refusal, _ := errors.AsType[*eventhook.Error](err)
	if refusal == nil || refusal.Kind != eventhook.KindRateLimited || refusal.RetryAfter <= 0 || refusal.RetryAfter > time.Second {
		t.Errorf("beyond the budget, got %+v, want KindRateLimited with RetryAfter", err)
	}
	_, err = f.console.Redeem(from(stranger, ""), random())
	f.same("a code", eventhook.KindOf(err), eventhook.KindRateLimited)
	f.same("another address", f.read(neighbour, random()), eventhook.KindUnauthorized)
	f.clock.Advance(time.Second)
	f.same("a second later", f.read(stranger, random()), eventhook.KindUnauthorized)
}

func TestUnknownCodesUseUpTheBudgetOfTheirAddress(t *testing.T) {
	f := setUpLimited(t)
	for n := range 21 {
		_, err := f.console.Redeem(from(stranger, ""), random())
		f.same("the code", eventhook.KindOf(err), map[bool]eventhook.Kind{true: eventhook.KindNotFound, false: eventhook.KindRateLimited}[n < 20])
	}
	f.same("a text that is no code", func() eventhook.Kind {
		_, err := f.console.Redeem(from(stranger, ""), "x")
		return eventhook.KindOf(err)
	}(), eventhook.KindNotFound)
}

func TestAValidSessionIsNeverRefused(t *testing.T) {
	f := setUpLimited(t)
	token := f.start(f.console, from(stranger, ""), session.Session{}).Value
	for range 100 {
		f.same("a valid session", f.read(stranger, token), eventhook.Kind(""))
	}
	other := f.start(f.console, from(neighbour, ""), session.Session{}).Value
	code, err := f.console.NewLink(t.Context(), session.Session{}, time.Minute)
	f.must(err)
	f.exhaust()
	f.same("beside an exhausted budget", f.read(stranger, token), eventhook.Kind(""))
	f.same("one that this instance does not know", f.read(stranger, other), eventhook.Kind(""))
	_, err = f.console.Redeem(from(stranger, ""), code)
	f.must(err)
}

func TestEndedSessionIsAnUnknownTokenAtItsSecondUse(t *testing.T) {
	f := setUpLimited(t)
	token := f.start(f.console, from(stranger, ""), session.Session{}).Value
	f.same("valid", f.read(stranger, token), eventhook.Kind(""))
	f.must(f.console.End(t.Context(), httptest.NewRecorder(), from(stranger, token)))
	f.exhaust()
	f.same("the first use", f.read(stranger, token), eventhook.KindUnauthorized)
	f.same("the second use", f.read(stranger, token), eventhook.KindRateLimited)
}

func TestFewLookupsOfExhaustedAddressesRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUpLimited(t)
		token := f.start(f.console, from(stranger, ""), session.Session{}).Value
		f.same("valid", f.read(stranger, token), eventhook.Kind(""))
		f.exhaust()
		f.counts.hold, f.counts.lookups, f.counts.max = make(chan struct{}), 0, 0
		ctx, leave := context.WithCancel(t.Context())
		for range 50 {
			go func() { _, _, _ = f.console.Read(from(stranger, random()).WithContext(ctx)) }()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if f.counts.lookups != 2 {
			t.Errorf("lookups, got %d, want 2", f.counts.lookups)
		}
		go func() { _ = f.read(stranger, token) }() // a session that the instance knows does not wait
		synctest.Wait()
		if f.counts.lookups != 3 {
			t.Errorf("lookups with the one of a known session, got %d, want 3", f.counts.lookups)
		}
		leave()
		synctest.Wait()
		close(f.counts.hold)
		synctest.Wait()
		if f.counts.lookups != 3 {
			t.Errorf("lookups after the clients left, got %d, want 3", f.counts.lookups)
		}
	})
}

func TestLookupsOfExhaustedAddressesAreLimitedPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUpLimited(t)
		token := f.start(f.console, from(neighbour, ""), session.Session{}).Value
		f.exhaust()
		started := time.Now()
		for range 202 {
			f.same("beyond the budget", f.read(stranger, random()), eventhook.KindRateLimited)
		}
		f.same("a session that this instance does not know", f.read(stranger, token), eventhook.Kind(""))
		if took := time.Since(started); took < time.Second || took > 2*time.Second {
			t.Errorf("203 lookups took %s, want about a second", took)
		}
		started = time.Now()
		for range 202 {
			f.same("a session that it knows", f.read(stranger, token), eventhook.Kind(""))
		}
		f.same("time of its lookups", time.Since(started), time.Duration(0))
	})
}

func TestStartsOfSessionsAreLimitedByAddress(t *testing.T) {
	f := setUpLimited(t)
	for range 50 {
		f.start(f.console, from(stranger, ""), session.Session{})
	}
	w := httptest.NewRecorder()
	_, err := f.console.Start(t.Context(), w, from(stranger, ""), session.Session{})
	f.same("beyond the budget", eventhook.KindOf(err), eventhook.KindRateLimited)
	f.same("its cookies", len(w.Result().Cookies()), 0)
	f.start(f.console, from(neighbour, ""), session.Session{})
	f.clock.Advance(time.Second / 2)
	f.start(f.console, from(stranger, ""), session.Session{})
}
