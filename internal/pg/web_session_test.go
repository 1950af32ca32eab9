package pg

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

var _ session.Store = (*DB)(nil)

func TestTheStoreOfWebSessionsConforms(t *testing.T) {
	for claim, check := range sessiontest.Cases {
		t.Run(claim, func(t *testing.T) {
			f := setUp(t)
			check(t, sessiontest.Subject{Store: f.db, Now: f.clock.Now, Advance: func(d time.Duration) { f.clock.Advance(d) }})
		})
	}
}

func TestSessionsOfTheConsoleAreAudited(t *testing.T) {
	f := setUp(t)
	_, err := f.db.CreateKey(t.Context(), operator, eventhook.APIKey{TenantID: f.tenant, Name: "ci", Prefix: "ehk_ci", Scopes: []eventhook.Scope{eventhook.ScopeRead}}, []byte("hash of ci"))
	f.must(err)
	f.exec(`DELETE FROM eventhook.audit_log`)
	by := eventhook.Actor{SourceIP: "198.51.100.7", RequestID: "req-1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}
	admin, person := session.Session{Name: "admin key", KeyHash: []byte("another hash")}, session.Session{Name: "ada@acme.example", Person: &session.Person{Issuer: "x"}}
	ofKey, purged := session.Session{Name: "ci", KeyHash: []byte("hash of ci"), TenantSlug: "acme"}, session.Session{Name: "gone", KeyHash: []byte("x"), TenantSlug: "gone"}
	portal := session.Session{Name: "portal customer-42", TenantSlug: "acme", Grant: &eventhook.Grant{}}
	for i, s := range []session.Session{admin, person, ofKey, purged, portal} {
		s.ID, s.Kind = eventhook.NewID[session.Session](noon), session.Console
		if s.Grant != nil {
			s.Kind = session.Portal
		}
		hash := []byte{byte(i)}
		f.must(f.db.CreateWebSession(t.Context(), hash, s, by))
		f.clock.Advance(time.Millisecond) // orders the entries
		f.must(f.db.DeleteWebSession(t.Context(), hash, by))
		f.must(f.db.DeleteWebSession(t.Context(), hash, by)) // there is nothing to end
		f.clock.Advance(time.Millisecond)
	}
	for _, s := range []session.Session{{Name: "mallory"}, {KeyHash: []byte("hash of ci")}, {KeyHash: []byte("an unknown hash")}} {
		s.Kind = session.Console
		f.must(f.db.RecordRefusal(t.Context(), s, by))
		f.clock.Advance(time.Millisecond)
	}
	var got []string
	for _, e := range f.audit(eventhook.AuditFilter{Limit: 100}) {
		tenant := map[eventhook.TenantID]string{eventhook.OperatorTenant: "operator", f.tenant: "acme"}[e.TenantID]
		if e.Actor.Via != eventhook.ViaConsole || e.Actor.SourceIP != by.SourceIP || e.Actor.RequestID != by.RequestID || e.TraceID != by.TraceID || e.Actor.Name != e.ResourceName {
			t.Errorf("entry, got %+v", e)
		}
		got = append(got, strings.Join([]string{tenant, e.Action, string(e.Actor.Type), e.Actor.Name}, " "))
	}
	same(t, "entries, the newest first", got, []string{
		"acme session.refused api_key ci", "operator session.refused session mallory",
		"acme session.ended api_key ci", "acme session.started api_key ci",
		"operator session.ended session ada@acme.example", "operator session.started session ada@acme.example",
		"operator session.ended admin admin key", "operator session.started admin admin key"})
	if list := f.audit(eventhook.AuditFilter{Tenant: f.tenant, Action: session.ActionStarted, Limit: 1}); len(list) != 1 || list[0].Actor.KeyID.IsZero() || list[0].ResourceID == "" {
		t.Errorf("entry of the key, got %+v, want its id and that of the session", list)
	}
}
