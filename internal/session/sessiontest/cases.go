package sessiontest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// Subject is an empty store under test, with its clock.
type Subject struct {
	Store interface {
		session.Store
		SweepWebSessions(ctx context.Context) (int, error)
	}
	Now     func() time.Time
	Advance func(time.Duration)
}

// Cases are the claims that every session.Store fulfils.
var Cases = map[string]func(*testing.T, Subject){
	"a session is found by its hash until it is deleted": foundUntilDeleted,
	"the time of the last use never moves back":          touched,
	"a link is taken once by concurrent callers":         takenOnce,
	"a link of another kind or after its end stays":      linkOfAnotherKind,
	"the sweep deletes exactly what is not valid":        swept,
	"a link keeps its newest sessions":                   newestOfLink,
}

// anyone is the actor of a request without an address and ids.
var anyone = eventhook.Actor{}

func hash(text string) []byte {
	h := sha256.Sum256([]byte(text))
	return h[:]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, claim string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", claim, diff)
	}
}

func (s Subject) session(kind session.Kind, lasts time.Duration) session.Session {
	now := s.Now()
	return session.Session{ID: eventhook.NewID[session.Session](now), Kind: kind, Name: "Zoë", CreatedAt: now, LastSeenAt: now, ExpiresAt: now.Add(lasts)}
}

// full returns a session with a grant and every other member.
func (s Subject) full() session.Session {
	n := s.session(session.Portal, time.Hour)
	n.Grant = &eventhook.Grant{Name: "zoe", AdminReadOnly: true, Tenants: map[string][]eventhook.Scope{"acme": {eventhook.ScopeRead}}}
	n.TenantSlug, n.Scope, n.ReadOnly = "acme", "customer-42", true
	return n
}

func foundUntilDeleted(t *testing.T, s Subject) {
	ctx := t.Context()
	byKey := s.session(session.Console, time.Hour)
	byKey.KeyHash = hash("key")
	person := s.session(session.Console, time.Hour)
	person.Person = &session.Person{Issuer: "https://login.example", Claim: "groups", Values: []string{"pay"}}
	for _, want := range []session.Session{byKey, person, s.full()} {
		must(t, s.Store.CreateWebSession(ctx, hash("token"), want, anyone))
		got, err := s.Store.WebSession(ctx, hash("token"))
		must(t, err)
		same(t, "the session", got, want)
		must(t, s.Store.DeleteWebSession(ctx, hash("token"), anyone))
		must(t, s.Store.DeleteWebSession(ctx, hash("token"), anyone))
		_, err = s.Store.WebSession(ctx, hash("token"))
		same(t, "the error after the end", eventhook.KindOf(err), eventhook.KindNotFound)
	}
}

func touched(t *testing.T, s Subject) {
	ctx, n := t.Context(), s.session(session.Console, time.Hour)
	must(t, s.Store.CreateWebSession(ctx, hash("token"), n, anyone))
	later := n.CreatedAt.Add(2 * time.Minute)
	for _, at := range []time.Time{later, n.CreatedAt.Add(time.Minute)} {
		must(t, s.Store.TouchWebSession(ctx, hash("token"), at))
		got, err := s.Store.WebSession(ctx, hash("token"))
		must(t, err)
		same(t, "last seen", got.LastSeenAt, later)
	}
	must(t, s.Store.TouchWebSession(ctx, hash("no such token"), later))
}

func takenOnce(t *testing.T, s Subject) {
	ctx, want := t.Context(), s.full()
	must(t, s.Store.CreateWebLink(ctx, hash("code"), want, s.Now().Add(time.Minute)))
	want.ID, want.CreatedAt, want.LastSeenAt = eventhook.ID[session.Session]{}, time.Time{}, time.Time{} // Start sets them
	var taken atomic.Int64
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			got, err := s.Store.TakeWebLink(ctx, hash("code"), session.Portal, s.Now())
			if eventhook.KindOf(err) == eventhook.KindNotFound {
				return
			}
			if err != nil {
				t.Errorf("take: %v", err)
				return
			}
			taken.Add(1)
			got.ID, got.CreatedAt, got.LastSeenAt = want.ID, want.CreatedAt, want.LastSeenAt
			same(t, "the session of the link", got, want)
		})
	}
	callers.Wait()
	same(t, "callers that took the link", taken.Load(), int64(1))
}

func linkOfAnotherKind(t *testing.T, s Subject) {
	ctx, n := t.Context(), s.session(session.Console, 0)
	n.ExpiresAt = time.Time{}
	end := s.Now().Add(time.Minute)
	must(t, s.Store.CreateWebLink(ctx, hash("code"), n, end))
	_, err := s.Store.TakeWebLink(ctx, hash("code"), session.Portal, s.Now())
	same(t, "another kind", eventhook.KindOf(err), eventhook.KindNotFound)
	_, err = s.Store.TakeWebLink(ctx, hash("code"), session.Console, end)
	same(t, "at its end", eventhook.KindOf(err), eventhook.KindNotFound)
	got, err := s.Store.TakeWebLink(ctx, hash("code"), session.Console, end.Add(-time.Millisecond))
	must(t, err)
	same(t, "the end of its session", got.ExpiresAt.IsZero(), true)
}

func swept(t *testing.T, s Subject) {
	ctx := t.Context()
	for name, n := range map[string]session.Session{"old": s.session(session.Console, time.Hour), "idle": s.session(session.Console, session.MaxAge),
		"portal": s.session(session.Portal, session.MaxAge), "active": s.session(session.Console, session.MaxAge)} {
		must(t, s.Store.CreateWebSession(ctx, hash(name), n, anyone))
	}
	must(t, s.Store.CreateWebLink(ctx, hash("old"), s.full(), s.Now().Add(time.Hour)))
	must(t, s.Store.CreateWebLink(ctx, hash("new"), s.full(), s.Now().Add(24*time.Hour)))
	sweep := func(want int) {
		t.Helper()
		n, err := s.Store.SweepWebSessions(ctx)
		must(t, err)
		same(t, "deleted", n, want)
	}
	sweep(0)
	s.Advance(time.Hour)
	must(t, s.Store.TouchWebSession(ctx, hash("active"), s.Now()))
	sweep(2) // the old session and the old link
	s.Advance(session.IdleTimeout - time.Hour)
	sweep(1)
	for name, want := range map[string]bool{"old": false, "idle": false, "portal": true, "active": true} {
		_, err := s.Store.WebSession(ctx, hash(name))
		same(t, name, err == nil, want)
	}
	_, err := s.Store.TakeWebLink(ctx, hash("new"), session.Portal, s.Now())
	must(t, err)
}

func newestOfLink(t *testing.T, s Subject) {
	ctx := t.Context()
	of := func(link eventhook.PortalLinkID) session.Session {
		n := s.full()
		n.Grant.Customer = &eventhook.Customer{Scope: n.Scope, LinkID: link}
		return n
	}
	one, two := eventhook.NewID[eventhook.PortalLink](s.Now()), eventhook.NewID[eventhook.PortalLink](s.Now())
	must(t, s.Store.CreateWebSession(ctx, hash("of another link"), of(two), anyone))
	must(t, s.Store.CreateWebSession(ctx, hash("of no link"), s.full(), anyone))
	const more = 3
	for i := range session.MaxOfLink + more {
		s.Advance(time.Second)
		must(t, s.Store.CreateWebSession(ctx, hash(fmt.Sprint(i)), of(one), anyone))
	}
	for i := range session.MaxOfLink + more {
		_, err := s.Store.WebSession(ctx, hash(fmt.Sprint(i)))
		same(t, fmt.Sprintf("the session %d is valid", i), err == nil, i >= more)
	}
	for _, other := range []string{"of another link", "of no link"} {
		_, err := s.Store.WebSession(ctx, hash(other))
		must(t, err)
	}
}
