package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// agent creates an agent of acme whose key is the text of its name.
func (f *fixture) agent(name string, labels ...string) eventhook.Agent {
	f.Helper()
	f.clock.Advance(time.Second)
	a, err := f.db.CreateAgent(f.Context(), operator, eventhook.Agent{TenantID: f.tenant, Name: name, Labels: labels}, storedKey("ehk_"+name))
	f.must(err)
	return a
}

func storedKey(text string) eventhook.NewKey {
	return eventhook.NewKey{Prefix: text[:5], Hash: hashed(text)}
}

// storedAgent reads an agent of acme through another instance.
func (f *fixture) storedAgent(id eventhook.AgentID) eventhook.Agent {
	f.Helper()
	a, err := f.other.Agent(f.Context(), f.tenant, id)
	f.must(err)
	a.CreatedAt, a.UpdatedAt = a.CreatedAt.UTC(), a.UpdatedAt.UTC()
	if a.LastSeenAt != nil {
		a.LastSeenAt = new(a.LastSeenAt.UTC())
	}
	return a
}

// hold lets an agent hold a delivery until a time.
func (f *fixture) hold(a eventhook.Agent, d *eventhook.Delivery, until time.Time) {
	f.Helper()
	f.exec(`UPDATE eventhook.delivery SET status = 'acquired', due_at = $2, lease_token = 1, acquired_by = $3, agent_leases = 1 WHERE id = $1`,
		[16]byte(d.ID), until, [16]byte(a.ID))
}

func TestAgents(t *testing.T) {
	f := setUp(t)
	umbrella := f.secondTenant()
	all := f.subscription(named("all", "agent.*", "api_key.*"))
	eu := f.agent("eu", "region:eu", "env:prod")
	us := f.agent("us", "region:us")
	same(t, "stored", f.storedAgent(eu.ID), eu)

	_, err := f.db.CreateAgent(t.Context(), operator, eventhook.Agent{TenantID: f.tenant, Name: "eu", Labels: []string{"a:b"}}, storedKey("ehk_again"))
	wantKind(t, "a name twice", err, eventhook.KindConflict)
	_, err = f.db.CreateAgent(t.Context(), operator, eventhook.Agent{TenantID: umbrella, Name: "eu", Labels: []string{"a:b"}}, storedKey("ehk_umbrella"))
	f.must(err)

	list, err := f.db.Agents(t.Context(), f.tenant, eventhook.AgentFilter{Limit: 10})
	f.must(err)
	same(t, "newest first, of one tenant", []eventhook.AgentID{list[0].ID, list[len(list)-1].ID}, []eventhook.AgentID{us.ID, eu.ID})
	list, err = f.db.Agents(t.Context(), f.tenant, eventhook.AgentFilter{Before: us.ID, Limit: 10})
	f.must(err)
	same(t, "before a cursor", len(list), 1)
	_, err = f.db.Agent(t.Context(), umbrella, eu.ID)
	wantKind(t, "another tenant's", err, eventhook.KindNotFound)

	rename := func(id eventhook.AgentID, version int64, name string) (eventhook.Agent, error) {
		return f.db.UpdateAgent(t.Context(), operator, f.tenant, id, version, func(a eventhook.Agent) (eventhook.Agent, error) {
			a.Name, a.Labels = name, []string{"region:eu"}
			return a, nil
		})
	}
	_, err = rename(eu.ID, 0, "us")
	wantKind(t, "the name of another", err, eventhook.KindConflict)
	_, err = rename(eu.ID, 7, "west")
	wantKind(t, "another version", err, eventhook.KindStale)
	west, err := rename(eu.ID, 1, "west")
	f.must(err)
	same(t, "version", west.Version, int64(2))
	same(t, "changed", f.storedAgent(eu.ID), west)
	again, err := rename(eu.ID, 2, "west")
	f.must(err)
	same(t, "unchanged", again.Version, int64(2))

	wantKind(t, "delete another version", f.db.DeleteAgent(t.Context(), operator, f.tenant, eu.ID, 1), eventhook.KindStale)
	wantKind(t, "delete another tenant's", f.db.DeleteAgent(t.Context(), operator, umbrella, eu.ID, 0), eventhook.KindNotFound)
	f.clock.Advance(time.Second)
	f.must(f.db.DeleteAgent(t.Context(), operator, f.tenant, eu.ID, 2))
	wantKind(t, "deleted twice", f.db.DeleteAgent(t.Context(), operator, f.tenant, eu.ID, 0), eventhook.KindNotFound)
	_, _, err = f.other.KeyByHash(t.Context(), hashed("ehk_eu"))
	wantKind(t, "the key of a deleted agent", err, eventhook.KindUnauthorized)
	same(t, "events", f.deliveredTypes(all),
		"agent.registered api_key.created agent.registered api_key.created api_key.deleted agent.deleted")
	same(t, "audit", f.count("audit_log", `action LIKE 'agent.%'`), 5)
}

func TestTheKeysOfAnAgent(t *testing.T) {
	f := setUp(t)
	a := f.agent("eu", "region:eu")
	wantKey := func(claim, text string) {
		t.Helper()
		k, _, err := f.other.KeyByHash(t.Context(), hashed(text))
		f.must(err)
		same(t, claim, fmt.Sprint(k.AgentID, k.AgentLabels, k.Scopes), fmt.Sprint(a.ID, []string{"region:eu"}, []eventhook.Scope{eventhook.ScopeDeliver}))
	}
	wantNone := func(claim, text string) {
		t.Helper()
		_, _, err := f.other.KeyByHash(t.Context(), hashed(text))
		wantKind(t, claim, err, eventhook.KindUnauthorized)
	}
	rotate := func(text string, grace time.Duration) {
		t.Helper()
		f.must(f.db.RotateAgentKey(t.Context(), operator, f.tenant, a.ID, storedKey(text), grace))
	}
	wantKey("the first key", "ehk_eu")
	rotate("ehk_second", time.Hour)
	wantKey("the new key", "ehk_second")
	wantKey("the previous key in its grace period", "ehk_eu")
	rotate("ehk_third", time.Hour)
	wantNone("the key before the previous one", "ehk_eu")
	wantKey("the previous key", "ehk_second")
	f.clock.Advance(time.Hour)
	wantNone("after the grace period", "ehk_second")
	rotate("ehk_fourth", 0)
	wantNone("without a grace period", "ehk_third")
	wantKey("the last key", "ehk_fourth")
	wantKind(t, "of another tenant", f.db.RotateAgentKey(t.Context(), operator, f.secondTenant(), a.ID, storedKey("ehk_fifth"), 0),
		eventhook.KindNotFound)
}

func TestHeldDeliveries(t *testing.T) {
	f := setUp(t)
	a, b := f.agent("a", "env:prod"), f.agent("b", "env:prod")
	s := f.insertSubscription()
	list := f.publishTo(4, s)
	until := f.clock.Now().Add(time.Minute)
	f.hold(a, list[0], until)
	f.hold(a, list[1], until)
	f.hold(a, list[2], f.clock.Now()) // the lease has run out
	f.hold(b, list[3], until)
	same(t, "of an agent", f.storedAgent(a.ID).Held, 2)
	agents, err := f.db.Agents(t.Context(), f.tenant, eventhook.AgentFilter{Limit: 10})
	f.must(err)
	same(t, "in a list", fmt.Sprint(agents[0].Held, agents[1].Held), "1 2")
	f.exec(`UPDATE eventhook.delivery SET status = 'success', due_at = NULL, completed_at = $2 WHERE id = $1`, [16]byte(list[3].ID), f.clock.Now())
	same(t, "after a result", f.storedAgent(b.ID).Held, 0)
}

func TestTheHeartbeatOfAgents(t *testing.T) {
	f := setUp(t)
	all := f.subscription(named("all", "agent.online", "agent.offline"))
	a, b := f.agent("a", "env:prod"), f.agent("b", "env:prod")
	seen := func(db *DB, version string, list ...eventhook.Agent) {
		t.Helper()
		var sightings []eventhook.AgentSighting
		for _, one := range list {
			sightings = append(sightings, eventhook.AgentSighting{ID: one.ID, ProgramVersion: version})
		}
		f.must(db.SeenAgents(t.Context(), sightings))
	}
	wantEnded := func(claim string, want int) {
		t.Helper()
		n, err := f.other.EndAgents(t.Context())
		f.must(err)
		same(t, claim, n, want)
	}
	same(t, "before the first claim", f.storedAgent(a.ID).LastSeenAt == nil, true)
	wantEnded("agents that were never seen", 0)
	wake := f.db.hub.wait(deliveriesTopic)
	first := f.clock.Now()
	seen(f.db, "1.2", a, b)
	wantClosed(t, "dispatchers", wake)
	same(t, "seen", *f.storedAgent(a.ID).LastSeenAt, first.UTC())
	same(t, "version", f.storedAgent(a.ID).ProgramVersion, "1.2")
	same(t, "events", f.deliveredTypes(all), "agent.online agent.online")

	f.clock.Advance(eventhook.AgentSeenGap - time.Second)
	seen(f.other, "1.2", a)
	same(t, "a claim soon after", *f.storedAgent(a.ID).LastSeenAt, first.UTC())
	seen(f.other, "1.3", a)
	same(t, "a new version at once", *f.storedAgent(a.ID).LastSeenAt, f.clock.Now().UTC())

	f.clock.Advance(eventhook.AgentOfflineAfter - eventhook.AgentSeenGap)
	wantEnded("89 s after the last claim", 0)
	f.clock.Advance(time.Second)
	wantEnded("90 s after the last claim", 1)
	wantEnded("a second time", 0)
	counts, err := f.db.AgentCounts(t.Context())
	f.must(err)
	same(t, "counts", counts, eventhook.AgentCounts{Online: 1, Offline: 1})
	same(t, "events", f.deliveredTypes(all), "agent.online agent.online agent.offline")
	f.must(f.db.DeleteAgent(t.Context(), operator, f.tenant, b.ID, 0))
	seen(f.db, "1.2", b)
	same(t, "a deleted agent", f.deliveredTypes(all), "agent.online agent.online agent.offline")
}

func TestAgentsOfAClosedTenantGoOfflineSilently(t *testing.T) {
	f := setUp(t)
	a := f.agent("a", "env:prod")
	f.must(f.db.SeenAgents(t.Context(), []eventhook.AgentSighting{{ID: a.ID}}))
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	f.clock.Advance(eventhook.AgentOfflineAfter)
	n, err := f.db.EndAgents(t.Context())
	f.must(err)
	same(t, "ended", n, 1)
	same(t, "announced", f.count("event", `event_type = 'agent.offline'`), 0)
}
