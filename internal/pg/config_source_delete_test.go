package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// deleteRoutes deletes crm's routes.
func (f *fixture) deleteRoutes() {
	f.Helper()
	f.exec(`DELETE FROM eventhook.route WHERE source_id = $1`, [16]byte(f.crm))
}

// insertOtherEvents inserts n events of shop that are due before crm's, and n ended events of crm that
// are newer.
func (f *fixture) insertOtherEvents(n int) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.event (id, tenant_id, source_id, due_at, status, origin)
		SELECT overlay(gen_random_uuid()::text PLACING substr($4, 1, 13) FROM 1)::uuid, $1, $2, $3::timestamptz, 'pending', 'source' FROM generate_series(1, $5::int)`,
		[16]byte(f.tenant), [16]byte(f.shop), noon.Add(-time.Hour), eventhook.FirstID[eventhook.Event](noon.Add(time.Hour)).String(), n)
	f.exec(`INSERT INTO eventhook.event (id, tenant_id, source_id, status, origin)
		SELECT overlay(gen_random_uuid()::text PLACING substr($3, 1, 13) FROM 1)::uuid, $1, $2, 'delivered', 'source' FROM generate_series(1, $4::int)`,
		[16]byte(f.tenant), [16]byte(f.crm), eventhook.FirstID[eventhook.Event](noon.Add(time.Hour)).String(), n)
}

func TestASourceWithOpenEventsIsNotDeleted(t *testing.T) {
	for _, c := range []struct {
		claim   string
		prepare func(*fixture)
		want    string // a part of the message
	}{
		{"leased events", func(f *fixture) { f.leasedEvents(3) }, "has 1 route, and 3 events are still to be processed: "},
		{"one that waits for a retry", func(f *fixture) {
			f.leasedEvents(1)
			f.deleteRoutes()
			f.exec(`UPDATE eventhook.event SET status = 'failed', due_at = $1`, noon.Add(time.Hour))
		}, "has 0 routes, and 1 event is still to be processed: "},
		{"a retry behind a long queue", func(f *fixture) {
			f.leasedEvents(1)
			f.deleteRoutes()
			f.exec(`UPDATE eventhook.event SET status = 'failed', due_at = $1`, noon.Add(time.Hour))
			f.insertOtherEvents(maxCountedEvents)
		}, "1 event is still"},
		{"a new event behind a long queue", func(f *fixture) {
			f.deleteRoutes()
			f.insertOtherEvents(maxCountedEvents)
			f.exec(`DELETE FROM eventhook.event WHERE source_id = $1`, [16]byte(f.crm))
			f.leasedEvents(2)
		}, "2 events are still"},
		{"an old event that was reprocessed", func(f *fixture) {
			f.deleteRoutes()
			f.leasedEvents(1)
			f.insertOtherEvents(maxCountedEvents)
			f.exec(`DELETE FROM eventhook.event WHERE source_id = $1`, [16]byte(f.shop))
		}, "1 event is still"},
		{"only routes", func(*fixture) {}, "has 1 route: "},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			f.clock.Advance(time.Second)
			c.prepare(f)
			err := f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", 0, false)
			wantKind(t, "alone", err, eventhook.KindConflict)
			if e, ok := errors.AsType[*eventhook.Error](err); !ok || !strings.Contains(e.Message, c.want) || !strings.Contains(e.Message, "?cascade=true") {
				t.Errorf("got %v, want a part %q", err, c.want)
			}
			f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", 0, true))
		})
	}
}

func TestASourceWithoutOpenEventsIsDeleted(t *testing.T) {
	f := setUp(t)
	f.leasedEvents(2)
	f.deleteRoutes()
	f.exec(`UPDATE eventhook.event SET status = 'dead', due_at = NULL`)
	f.insertOtherEvents(5)
	f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", 0, false))
}

// TestSourceChangesHaveTheNamesOfTheAPI compares the recorded fields with the fields of API
// requests.
func TestSourceChangesHaveTheNamesOfTheAPI(t *testing.T) {
	f := setUp(t)
	db := f.open(func(o *Options) {
		o.Describe = func(v eventhook.Secret) (json.RawMessage, string, error) {
			if strings.Contains(v.Reveal(), "s3cr3t") {
				return json.RawMessage(`{"provider":"github","scheme":"sha1"}`), "a", nil
			}
			return json.RawMessage(`{"options":{"team":"x"},"public_keys":["k"],"tolerance_seconds":5,"verifier":{"type":"hmac","header":"X"}}`), "a", nil
		}
	})
	_, err := db.UpdateSource(t.Context(), operator, f.tenant, "crm", 0, func(s eventhook.Source) (eventhook.Source, error) {
		s.Verifier, s.RequireIdempotencyKey, s.RateLimit.BurstSize = eventhook.NewSecret(`{}`), true, 7
		return s, nil
	})
	f.must(err)
	var got []string
	for _, c := range f.audit(eventhook.AuditFilter{Action: "source.updated"})[0].Changes {
		got = append(got, fmt.Sprintf("%s: %s -> %s", c.Field, c.From, c.To))
	}
	same(t, "changes", got, []string{
		`options.team: null -> "x"`, `provider: "github" -> null`, `public_keys: null -> ["k"]`, `rate_limit.burst_size: null -> 7`,
		`require_idempotency_key: null -> true`, `scheme: "sha1" -> null`, `tolerance_seconds: null -> 5`,
		`verifier.header: null -> "X"`, `verifier.type: null -> "hmac"`,
	})
}

func TestApplyLimitsTheRoutesOfASource(t *testing.T) {
	f := setUp(t)
	config := acme()
	for i := range eventhook.MaxRoutes {
		r := config.Sources[0].Routes[0]
		r.Name = fmt.Sprint(i)
		config.Sources[0].Routes = append(config.Sources[0].Routes, r)
	}
	routes := config.Sources[0].Routes
	for _, c := range []struct {
		claim  string
		routes []eventhook.Route
		prune  bool
		full   bool
	}{
		{"the maximum, beside a route that stays", routes[1:], false, true},
		{"one more", routes, true, true},
		{"the maximum, and the route is pruned", routes[1:], true, false},
		{"one route more", routes[:1], false, true},
		{"the existing ones", routes[1:], false, false},
	} {
		config.Sources[0].Routes = c.routes
		for _, dry := range []bool{true, false} {
			_, err := f.db.ApplyTenant(t.Context(), operator, config, ApplyOptions{Prune: c.prune, DryRun: dry})
			if c.full {
				wantKind(t, c.claim, err, eventhook.KindConflict)
			} else {
				f.must(err)
			}
		}
	}
	same(t, "routes", f.count("route", "source_id = $1", [16]byte(f.crm)), eventhook.MaxRoutes)
}

func TestApplyLimitsTheTargetsOfASource(t *testing.T) {
	f := setUp(t)
	config := acme()
	stays := config.Sources[0].Routes[0]
	var full []eventhook.Route
	for i := range eventhook.MaxSourceTargets / eventhook.MaxTargets {
		r := stays
		r.Name, r.Targets = fmt.Sprint(i), withTargets("", eventhook.MaxTargets).Targets
		full = append(full, r)
	}
	less := slices.Clone(full)
	less[0].Targets = less[0].Targets[1:]
	for _, c := range []struct {
		claim  string
		routes []eventhook.Route
		prune  bool
		full   bool
	}{
		{"the maximum, beside a route that stays", full, false, true},
		{"the maximum, and the route is pruned", full, true, false},
		{"one route more", []eventhook.Route{stays}, false, true},
		{"the existing ones", full, false, false},
		{"the maximum, with one target less", append([]eventhook.Route{stays}, less...), false, false},
		{"the maximum again", append([]eventhook.Route{stays}, full...), false, true},
	} {
		config.Sources[0].Routes = c.routes
		for _, dry := range []bool{true, false} {
			_, err := f.db.ApplyTenant(t.Context(), operator, config, ApplyOptions{Prune: c.prune, DryRun: dry})
			if c.full {
				wantKind(t, c.claim, err, eventhook.KindConflict)
			} else {
				f.must(err)
			}
		}
	}
	f.exec(`UPDATE eventhook.route SET targets = targets || targets WHERE name = '1'`)
	config.Sources[0].Routes = full[:1]
	_, err := f.db.ApplyTenant(t.Context(), operator, config, ApplyOptions{})
	wantKind(t, "more targets of a source above the maximum", err, eventhook.KindConflict)
	config.Sources[0].Routes = less[:1]
	_, err = f.db.ApplyTenant(t.Context(), operator, config, ApplyOptions{})
	f.must(err) // the source is above the maximum and gets no more targets
}
