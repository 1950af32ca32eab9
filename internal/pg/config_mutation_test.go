package pg

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// fields returns the names of the fields that an entry has changed, in order.
func fields(e eventhook.AuditEntry) (names []string) {
	for _, c := range e.Changes {
		names = append(names, c.Field)
	}
	return names
}

// lastEntry returns the newest entry after checking its contents.
func (f *fixture) lastEntry(claim, action, name string, changed ...string) eventhook.AuditEntry {
	f.Helper()
	e := f.audit(eventhook.AuditFilter{Limit: 1})[0]
	same(f, claim+": audited", []string{e.Action, e.ResourceName, strings.Join(fields(e), " ")}, []string{action, name, strings.Join(changed, " ")})
	return e
}

// renamed changes a source's name.
func renamed(name string) func(eventhook.Source) (eventhook.Source, error) {
	return func(s eventhook.Source) (eventhook.Source, error) {
		s.Name = name
		return s, nil
	}
}

// prioritized changes a route's priority.
func prioritized(priority int) func(eventhook.Route) (eventhook.Route, error) {
	return func(r eventhook.Route) (eventhook.Route, error) {
		r.Priority = priority
		return r, nil
	}
}

func (f *fixture) newSource(slug string) eventhook.Source {
	return eventhook.Source{TenantID: f.tenant, Slug: slug, Name: slug, Verifier: eventhook.NewSecret(`{"verifier":{"type":"none"}}`), IsEnabled: true}
}

func newRoute(name string) eventhook.Route {
	return eventhook.Route{Name: name, IsEnabled: true, Targets: []eventhook.Target{{Type: eventhook.TargetTask, Settings: []byte(`{"task_kind":"x"}`)}}}
}

func TestSourceLifecycle(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Second)
	want := f.newSource("erp")
	want.Provider, want.SecretsCount, want.MaxBodyBytes, want.AllowedIPRanges = "github", 1, 10, []string{"192.0.2.0/24"}
	made, err := f.db.CreateSource(t.Context(), operator, want)
	f.must(err)
	f.lastEntry("made", "source.created", "erp", "allowed_ip_ranges", "is_enabled", "max_body_bytes", "name", "provider", "slug")
	stored := f.source("acme", "erp")
	same(t, "stored", []any{stored.ID, stored.Version, stored.Provider, stored.SecretsCount, stored.SourceSettings, stored.Verifier.Reveal()},
		[]any{made.ID, int64(1), "github", 1, want.SourceSettings, want.Verifier.Reveal()})

	f.clock.Advance(time.Second)
	changed, err := f.db.UpdateSource(t.Context(), operator, f.tenant, "erp", 0, func(s eventhook.Source) (eventhook.Source, error) {
		same(t, "the source that change receives", s.Verifier.Reveal(), want.Verifier.Reveal())
		s.Name, s.MaxBodyBytes, s.Verifier = "ERP", 20, eventhook.NewSecret("another")
		return s, nil
	})
	f.must(err)
	e := f.lastEntry("changed", "source.updated", "erp", "max_body_bytes", "name", "secrets")
	same(t, "a field's change", e.Changes[0], eventhook.FieldChange{Field: "max_body_bytes", From: json.RawMessage("10"), To: json.RawMessage("20")})
	stored = f.source("acme", "erp")
	same(t, "stored then", []any{stored.Version, stored.Name, stored.MaxBodyBytes, stored.Verifier.Reveal(), stored.UpdatedAt.UTC(), stored.CreatedAt.UTC()},
		[]any{int64(2), "ERP", 20, "another", f.clock.Now(), f.clock.Now().Add(-time.Second)})
	same(t, "the returned version", changed.Version, int64(2))

	before := f.count("audit_log", "true")
	again, err := f.db.UpdateSource(t.Context(), operator, f.tenant, "erp", 0, renamed("ERP"))
	f.must(err)
	same(t, "an update without changes", []any{again.Version, f.count("audit_log", "true")}, []any{int64(2), before})

	f.clock.Advance(time.Second)
	f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "erp", 2, false))
	f.lastEntry("deleted", "source.deleted", "erp", "allowed_ip_ranges", "is_enabled", "max_body_bytes", "name", "provider", "slug")
	_, err = f.db.FindSource(t.Context(), "acme", "erp")
	wantKind(t, "found then", err, eventhook.KindNotFound)
}

func TestRouteLifecycle(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Second)
	want := newRoute("pay")
	want.Priority, want.FilterEventTypes, want.Filter = 7, []string{"a.*"}, json.RawMessage(`{"body.n": 9007199254740993, "body.a":null}`)
	want.FilterExpression, want.FilterFunction, want.Transform = "true", "f", &eventhook.Transform{Type: "jmespath", Expression: "a"}
	made, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "crm", want)
	f.must(err)
	f.lastEntry("made", "route.created", "crm/pay", `filter["body.a"]`, `filter["body.n"]`, "filter_event_types", "filter_expression", "filter_function", "is_enabled", "name", "priority", "targets",
		"transform.expression", "transform.type")
	stored, err := f.db.Route(t.Context(), f.crm, made.ID)
	f.must(err)
	stored.CreatedAt, stored.UpdatedAt = stored.CreatedAt.UTC(), stored.UpdatedAt.UTC()
	same(t, "stored", stored, made)
	same(t, "its filter, as it was written", string(stored.Filter), string(want.Filter))
	_, err = f.db.Route(t.Context(), f.shop, made.ID)
	wantKind(t, "below another source", err, eventhook.KindNotFound)

	f.clock.Advance(time.Second)
	_, err = f.db.UpdateRoute(t.Context(), operator, f.tenant, "crm", made.ID, 1, func(r eventhook.Route) (eventhook.Route, error) {
		r.Priority, r.Transform, r.Filter = 8, nil, nil
		return r, nil
	})
	f.must(err)
	f.lastEntry("changed", "route.updated", "crm/pay", `filter["body.a"]`, `filter["body.n"]`, "priority", "transform.expression", "transform.type")
	same(t, "the fields that were removed", f.count("route", "name = 'pay' AND filter IS NULL AND transform IS NULL AND version = 2"), 1)
	before := f.count("audit_log", "true")
	_, err = f.db.UpdateRoute(t.Context(), operator, f.tenant, "crm", made.ID, 0, prioritized(8))
	f.must(err)
	same(t, "an update without changes", f.count("audit_log", "true"), before)

	f.clock.Advance(time.Second)
	f.must(f.db.DeleteRoute(t.Context(), operator, f.tenant, "crm", made.ID, 2))
	f.lastEntry("deleted", "route.deleted", "crm/pay", "filter_event_types", "filter_expression", "filter_function", "is_enabled", "name", "priority", "targets")
	wantKind(t, "deleted again", f.db.DeleteRoute(t.Context(), operator, f.tenant, "crm", made.ID, 0), eventhook.KindNotFound)
}

func TestEventTypeLifecycle(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Second)
	want := eventhook.EventType{Name: "a.b", Description: "d", Schema: json.RawMessage(`{"type": "object"}`), Visibility: eventhook.VisibleToTenant}
	put := func(claim string, version int64, wantMade bool, wantVersion int64) {
		t.Helper()
		f.clock.Advance(time.Second)
		got, made, err := f.db.PutEventType(t.Context(), operator, f.tenant, version, want)
		f.must(err)
		same(t, claim, []any{made, got.Version, got.Description, string(got.Schema)}, []any{wantMade, wantVersion, want.Description, string(want.Schema)})
	}
	put("made", 0, true, 1)
	f.lastEntry("made", "event_type.created", "a.b", "category", "description", "schema.type", "visibility")
	put("put again", 1, false, 1)
	want.Description, want.Schema = "e", nil
	put("replaced", 1, false, 2)
	f.lastEntry("replaced", "event_type.updated", "a.b", "description", "schema.type")
	_, _, err := f.db.PutEventType(t.Context(), operator, f.tenant, 1, want)
	wantKind(t, "an old version", err, eventhook.KindStale)
	want.Name = "new"
	_, _, err = f.db.PutEventType(t.Context(), operator, f.tenant, 1, want)
	wantKind(t, "a version of an entry that does not exist", err, eventhook.KindStale)
	same(t, "entries after a stale change", f.count("event_type", "name = 'new'"), 0)
	wantKind(t, "an old version", f.db.DeleteEventType(t.Context(), operator, f.tenant, "a.b", 1), eventhook.KindStale)
	f.clock.Advance(time.Second)
	f.must(f.db.DeleteEventType(t.Context(), operator, f.tenant, "a.b", 2))
	f.lastEntry("deleted", "event_type.deleted", "a.b", "category", "description", "visibility")
	wantKind(t, "deleted again", f.db.DeleteEventType(t.Context(), operator, f.tenant, "a.b", 0), eventhook.KindNotFound)
}

func TestEventTypesOfTheAdminAreHidden(t *testing.T) {
	f := setUp(t)
	its := eventhook.Actor{Type: eventhook.ActorKey, Name: "ci"}
	hidden := eventhook.EventType{Name: "hidden", Visibility: eventhook.VisibleToAdmin}
	for _, name := range []string{"hidden", "open"} {
		f.clock.Advance(time.Second)
		_, _, err := f.db.PutEventType(t.Context(), operator, f.tenant, 0, eventhook.EventType{Name: name,
			Visibility: map[string]eventhook.Visibility{"hidden": eventhook.VisibleToAdmin, "open": eventhook.VisibleToTenant}[name]})
		f.must(err)
	}
	names := func(to eventhook.Actor) (all []string) {
		list, err := f.db.EventTypes(t.Context(), to, f.tenant, eventhook.EventTypeID{}, 10)
		f.must(err)
		for _, e := range list {
			all = append(all, e.Name)
		}
		return all
	}
	same(t, "for the admin", names(operator), []string{"open", "hidden"})
	same(t, "for a tenant's key", names(its), []string{"open"})
	_, _, err := f.db.PutEventType(t.Context(), its, f.tenant, 0, hidden)
	wantKind(t, "replaced by a tenant's key", err, eventhook.KindForbidden)
	wantKind(t, "deleted by it", f.db.DeleteEventType(t.Context(), its, f.tenant, "hidden", 0), eventhook.KindNotFound)
	same(t, "entries left", f.count("event_type", "version = 1"), 2)
}

func TestStaleVersionsChangeNothing(t *testing.T) {
	f := setUp(t)
	_, err := f.db.UpdateSource(t.Context(), operator, f.tenant, "crm", 1, renamed("new"))
	f.must(err)
	_, err = f.db.UpdateRoute(t.Context(), operator, f.tenant, "crm", f.route.ID, 1, prioritized(1))
	f.must(err)
	before := f.count("audit_log", "true")
	for _, version := range []int64{1, 3} {
		_, err = f.db.UpdateSource(t.Context(), operator, f.tenant, "crm", version, renamed("never"))
		wantKind(t, "a source's change", err, eventhook.KindStale)
		wantKind(t, "a deleted source", f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", version, true), eventhook.KindStale)
		_, err = f.db.UpdateRoute(t.Context(), operator, f.tenant, "crm", f.route.ID, version, prioritized(9))
		wantKind(t, "a route's change", err, eventhook.KindStale)
		wantKind(t, "a deleted route", f.db.DeleteRoute(t.Context(), operator, f.tenant, "crm", f.route.ID, version), eventhook.KindStale)
	}
	same(t, "entries after stale changes", f.count("audit_log", "true"), before)
	same(t, "changed sources and routes", []int{f.count("source", "name = 'new' AND version = 2"), f.count("route", "priority = 1 AND version = 2")}, []int{1, 1})
}

// outcomes runs act several times concurrently on both instances, and counts the kinds of its
// errors.
func (f *fixture) outcomes(act func(db *DB, n int) error) map[eventhook.Kind]int {
	const many = 8
	kinds := make([]eventhook.Kind, many)
	var acts []func()
	for i := range many {
		db := []*DB{f.db, f.other}[i%2]
		acts = append(acts, func() { kinds[i] = eventhook.KindOf(act(db, i)) })
	}
	concurrently(acts...)
	counts := map[eventhook.Kind]int{}
	for _, k := range kinds {
		counts[k]++
	}
	return counts
}

func TestConcurrentCreatesOfOneName(t *testing.T) {
	f := setUp(t)
	once := map[eventhook.Kind]int{"": 1, eventhook.KindConflict: 7}
	same(t, "sources of one slug", f.outcomes(func(db *DB, _ int) error {
		_, err := db.CreateSource(t.Context(), operator, f.newSource("race"))
		return err
	}), once)
	same(t, "routes of one name", f.outcomes(func(db *DB, _ int) error {
		_, err := db.CreateRoute(t.Context(), operator, f.tenant, "shop", newRoute("race"))
		return err
	}), once)
	same(t, "routes renamed to one name", f.outcomes(func(db *DB, n int) error {
		r, err := db.CreateRoute(t.Context(), operator, f.tenant, "shop", newRoute(fmt.Sprint(n)))
		if err != nil {
			return err
		}
		_, err = db.UpdateRoute(t.Context(), operator, f.tenant, "shop", r.ID, 0, func(r eventhook.Route) (eventhook.Route, error) {
			r.Name = "one"
			return r, nil
		})
		return err
	}), once)
	made := make(chan bool, 8)
	same(t, "event types of one name", f.outcomes(func(db *DB, n int) error {
		_, first, err := db.PutEventType(t.Context(), operator, f.tenant, 0, eventhook.EventType{Name: "a", Description: fmt.Sprint(n), Visibility: eventhook.VisibleToTenant})
		made <- first
		return err
	}), map[eventhook.Kind]int{"": 8})
	close(made)
	times := map[bool]int{}
	for first := range made {
		times[first]++
	}
	same(t, "created", times, map[bool]int{true: 1, false: 7})
	same(t, "entries about creations", f.counts(`SELECT action, count(*) FROM eventhook.audit_log
		WHERE action IN ('source.created', 'event_type.created', 'event_type.updated') GROUP BY 1`),
		map[string]int{"source.created": 3, "event_type.created": 1, "event_type.updated": 7})
}

func TestNoConcurrentChangeIsLost(t *testing.T) {
	f := setUp(t)
	same(t, "of a source", f.outcomes(func(db *DB, n int) error {
		_, err := db.UpdateSource(t.Context(), operator, f.tenant, "crm", 0, func(s eventhook.Source) (eventhook.Source, error) {
			s.EventTypePaths = append(slices.Clone(s.EventTypePaths), fmt.Sprintf("body.t%d", n))
			return s, nil
		})
		return err
	}), map[eventhook.Kind]int{"": 8})
	same(t, "paths", len(f.source("acme", "crm").EventTypePaths), 8)
	same(t, "of one version", f.outcomes(func(db *DB, n int) error {
		_, err := db.UpdateRoute(t.Context(), operator, f.tenant, "crm", f.route.ID, 1, prioritized(n+1))
		return err
	}), map[eventhook.Kind]int{"": 1, eventhook.KindStale: 7})
}

func TestRoutesOfASourceAreLimited(t *testing.T) {
	f := setUp(t)
	f.exec(`INSERT INTO eventhook.route (id, tenant_id, source_id, name, filter_event_types, targets)
		SELECT gen_random_uuid(), tenant_id, source_id, i::text, '{}', targets FROM eventhook.route, generate_series(1, $1::int) i`, eventhook.MaxRoutes-4)
	got := f.outcomes(func(db *DB, n int) error {
		_, err := db.CreateRoute(t.Context(), operator, f.tenant, "crm", newRoute(fmt.Sprint("new", n)))
		return err
	})
	same(t, "outcomes", got, map[eventhook.Kind]int{"": 3, eventhook.KindConflict: 5})
	same(t, "routes", f.count("route", "source_id = $1", [16]byte(f.crm)), eventhook.MaxRoutes)
}

// withTargets returns a route with n targets. retargeted changes a route to have n targets.
func withTargets(name string, n int) eventhook.Route {
	r := newRoute(name)
	r.Targets = slices.Repeat(r.Targets, n)
	return r
}

func retargeted(n int) func(eventhook.Route) (eventhook.Route, error) {
	return func(r eventhook.Route) (eventhook.Route, error) {
		r.Targets = withTargets("", n).Targets
		return r, nil
	}
}

func TestTargetsOfASourceAreLimited(t *testing.T) {
	f := setUp(t)
	change := func(n int) error {
		_, err := f.db.UpdateRoute(t.Context(), operator, f.tenant, "crm", f.route.ID, 0, retargeted(n))
		return err
	}
	f.must(change(eventhook.MaxTargets))
	rest := eventhook.MaxSourceTargets/eventhook.MaxTargets - 2 // so many that one more route fits
	f.exec(`INSERT INTO eventhook.route (id, tenant_id, source_id, name, filter_event_types, targets)
		SELECT gen_random_uuid(), tenant_id, source_id, i::text, '{}', targets FROM eventhook.route, generate_series(1, $1::int) i WHERE id = $2`, rest, [16]byte(f.route.ID))
	got := f.outcomes(func(db *DB, n int) error {
		_, err := db.CreateRoute(t.Context(), operator, f.tenant, "crm", withTargets(fmt.Sprint("new", n), eventhook.MaxTargets/2))
		return err
	})
	same(t, "concurrently created routes", got, map[eventhook.Kind]int{"": 2, eventhook.KindConflict: 6})
	f.must(change(eventhook.MaxTargets - 1))
	f.must(change(eventhook.MaxTargets))
	wantKind(t, "a route with one target too many", change(eventhook.MaxTargets+1), eventhook.KindConflict)
	f.exec(`UPDATE eventhook.route SET targets = targets || targets WHERE name = '1'`)
	f.must(change(eventhook.MaxTargets))
	f.must(change(eventhook.MaxTargets - 1)) // still above the maximum, but fewer
	wantKind(t, "more targets of a source above the maximum", change(eventhook.MaxTargets), eventhook.KindConflict)
	_, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "shop", withTargets("another's", eventhook.MaxTargets))
	f.must(err)
}

// changes runs all changes that an actor can make to sources, routes and event types.
func (f *fixture) changes(by eventhook.Actor) map[string]error {
	ctx := f.Context()
	_, addSource := f.db.CreateSource(ctx, by, f.newSource("x"))
	_, changeSource := f.db.UpdateSource(ctx, by, f.tenant, "shop", 0, renamed("x"))
	_, addRoute := f.db.CreateRoute(ctx, by, f.tenant, "crm", newRoute("x"))
	_, changeRoute := f.db.UpdateRoute(ctx, by, f.tenant, "crm", f.route.ID, 0, prioritized(3))
	_, _, putEventType := f.db.PutEventType(ctx, by, f.tenant, 0, eventhook.EventType{Name: "x", Visibility: eventhook.VisibleToTenant})
	return map[string]error{
		"CreateSource": addSource, "UpdateSource": changeSource, "CreateRoute": addRoute, "UpdateRoute": changeRoute, "PutEventType": putEventType,
		"ReorderRoutes":   f.db.ReorderRoutes(ctx, by, f.tenant, "crm", []eventhook.RoutePriority{{ID: f.route.ID, Priority: 4}}),
		"DeleteEventType": f.db.DeleteEventType(ctx, by, f.tenant, "x", 0),
		"DeleteRoute":     f.db.DeleteRoute(ctx, by, f.tenant, "crm", f.route.ID, 0),
		"DeleteSource":    f.db.DeleteSource(ctx, by, f.tenant, "shop", 0, true),
	}
}

func TestChangesOfSuspendedAndClosedTenants(t *testing.T) {
	its := eventhook.Actor{Type: eventhook.ActorKey, Name: "ci"}
	for _, c := range []struct {
		status string
		by     eventhook.Actor
		want   eventhook.Kind
	}{
		{"active", its, ""},
		{"suspended", its, eventhook.KindForbidden},
		{"suspended", eventhook.Actor{Type: eventhook.ActorOnBehalf}, ""},
		{"closed", its, eventhook.KindConflict},
		{"closed", operator, eventhook.KindConflict},
	} {
		t.Run(c.status+" "+string(c.by.Type), func(t *testing.T) {
			f := setUp(t)
			f.exec(`UPDATE eventhook.tenant SET status = $1`, c.status)
			before := f.count("audit_log", "true")
			results := f.changes(c.by)
			for _, act := range slices.Sorted(maps.Keys(results)) {
				wantKind(t, act, results[act], c.want)
			}
			if entries := f.count("audit_log", "true") - before; (c.want == "") != (entries == len(results)) || c.want != "" && entries != 0 {
				t.Errorf("%d entries were written about %d changes", entries, len(results))
			}
		})
	}
	t.Run("another tenant's", func(t *testing.T) {
		f := setUp(t)
		f.tenant = f.secondTenant()
		results := f.changes(its)
		for _, act := range []string{"UpdateSource", "CreateRoute", "UpdateRoute", "ReorderRoutes", "DeleteRoute", "DeleteSource"} {
			wantKind(t, act, results[act], eventhook.KindNotFound)
		}
	})
}

func TestASourceWithRoutesIsDeletedOnlyWithCascade(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Second)
	e := f.leasedEvents(1)[0]
	for i := range 3 {
		_, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "crm", newRoute(fmt.Sprint(i)))
		f.must(err)
	}
	f.must(f.db.StoreLearnedSecret(t.Context(), f.crm, eventhook.NewSecret("s")))
	before := f.count("audit_log", "true")
	wantKind(t, "alone", f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", 0, false), eventhook.KindConflict)
	same(t, "entries about refused deletions", f.count("audit_log", "true"), before)
	f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", 0, true))
	same(t, "entries", f.counts(`SELECT action, count(*) FROM eventhook.audit_log WHERE action LIKE '%.deleted' GROUP BY 1`),
		map[string]int{"route.deleted": 4, "source.deleted": 1})
	same(t, "remaining rows of the source", []int{f.count("route", "true"), f.count("learned_secret", "true"), f.count("source", "slug = 'crm'")}, []int{0, 0, 0})
	same(t, "its event stays", f.storedEvent(e).ID, e.ID)
}

func TestReorderIsAllOrNothing(t *testing.T) {
	f := setUp(t)
	second, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "crm", newRoute("second"))
	f.must(err)
	foreign, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "shop", newRoute("foreign"))
	f.must(err)
	order := []eventhook.RoutePriority{{ID: second.ID, Priority: 5}, {ID: foreign.ID, Priority: 6}}
	before := f.count("audit_log", "true")
	wantKind(t, "with another source's", f.db.ReorderRoutes(t.Context(), operator, f.tenant, "crm", order), eventhook.KindInvalid)
	same(t, "priorities after the error", f.count("route", "priority <> 0"), 0)
	order[1] = eventhook.RoutePriority{ID: f.route.ID, Priority: 0}
	f.must(f.db.ReorderRoutes(t.Context(), operator, f.tenant, "crm", order))
	routes, err := f.db.AllRoutes(t.Context(), f.crm)
	f.must(err)
	same(t, "their order", []eventhook.RouteID{routes[0].ID, routes[1].ID}, []eventhook.RouteID{second.ID, f.route.ID})
	same(t, "entries about moved routes", f.count("audit_log", "true"), before+1)
}

// An instance is notified of changes that another instance makes.
func TestInstancesAreNotifiedOfChanges(t *testing.T) {
	f := setUp(t)
	received := f.listening(f.other)
	wantChange := func(claim, slug string) {
		t.Helper()
		c := next(t, received)
		same(t, claim, []string{c.TenantSlug, c.SourceSlug}, []string{"acme", slug})
	}
	s, err := f.db.CreateSource(t.Context(), operator, f.newSource("erp"))
	f.must(err)
	wantChange("a new source", "erp")
	_, err = f.db.UpdateSource(t.Context(), operator, f.tenant, "erp", 0, renamed("ERP"))
	f.must(err)
	wantChange("a changed source", "erp")
	r, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "erp", newRoute("r"))
	f.must(err)
	wantChange("a new route", "erp")
	_, err = f.db.UpdateRoute(t.Context(), operator, f.tenant, "erp", r.ID, 0, prioritized(1))
	f.must(err)
	wantChange("a changed route", "erp")
	f.must(f.db.ReorderRoutes(t.Context(), operator, f.tenant, "erp", []eventhook.RoutePriority{{ID: r.ID, Priority: 2}}))
	wantChange("new priorities", "erp")
	f.must(f.db.DeleteRoute(t.Context(), operator, f.tenant, "erp", r.ID, 0))
	wantChange("a deleted route", "erp")
	f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "erp", 0, false))
	wantChange("a deleted source", "erp")
	_, err = f.other.FindSource(t.Context(), "acme", s.Slug)
	wantKind(t, "found there", err, eventhook.KindNotFound)
}
