package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/route"
)

var (
	_ route.Observer   = (*telemetry.Metrics)(nil)
	_ telemetry.Queues = (*pg.DB)(nil)
)

func alive(context.Context) error { return nil }

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

// series returns the values of the gateway's own metrics by name and labels.
func series(t *testing.T, m *telemetry.Metrics) map[string]float64 {
	t.Helper()
	w := get(telemetry.NewManagement(m, alive, nil).Handler(), "/metrics")
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics answered %d %s", w.Code, w.Body)
	}
	all := map[string]float64{}
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		name, number, ok := strings.Cut(line, " ")
		if i := strings.LastIndex(line, " "); i > 0 {
			name, number = line[:i], line[i+1:]
		}
		if !ok || !strings.HasPrefix(line, "eventhook_") || strings.Contains(name, "_bucket{") {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(line)
		}
		all[strings.TrimPrefix(name, "eventhook_")] = v
	}
	return all
}

// changedSeries returns the series that changed between two scrapes.
func changedSeries(before, after map[string]float64) map[string]float64 {
	changes := map[string]float64{}
	for name, v := range after {
		if v != before[name] {
			changes[name] = v - before[name]
		}
	}
	return changes
}

// instant is the time of the clock of the metrics.
var instant = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return instant }

// receivedBefore returns the id of an event that was received some time ago.
func receivedBefore(ago time.Duration) eventhook.EventID {
	return eventhook.NewID[eventhook.Event](instant.Add(-ago))
}

func TestActsChangeTheirMetrics(t *testing.T) {
	arrival := &effects.Arrival{Event: &eventhook.Event{ID: receivedBefore(3 * time.Second), Status: eventhook.EventPending}}
	refused := &effects.Arrival{Event: &eventhook.Event{ID: receivedBefore(9 * time.Second)}}
	settlement := func(status eventhook.EventStatus, actions ...eventhook.Action) *effects.Settlement {
		s := &effects.Settlement{Status: status, Event: &eventhook.Event{ID: receivedBefore(2 * time.Second)}}
		for _, a := range actions {
			s.Actions = append(s.Actions, effects.PlannedAction{Action: a})
		}
		return s
	}
	for _, c := range []struct {
		claim string
		act   func(m *telemetry.Metrics)
		want  map[string]float64
	}{
		{"an accepted webhook", func(m *telemetry.Metrics) { m.Answered("accepted", "") },
			map[string]float64{`ingest_requests_total{outcome="accepted"}`: 1}},
		{"an unverified webhook", func(m *telemetry.Metrics) { m.Answered("unverified", "mismatch") },
			map[string]float64{`ingest_requests_total{outcome="unverified"}`: 1, `ingest_unverified_total{reason="mismatch"}`: 1}},
		{"a commit in which the database refused one event", func(m *telemetry.Metrics) {
			m.Committed([]*effects.Arrival{arrival, refused, arrival}, 2*time.Second, nil)
		},
			map[string]float64{"accept_batch_events_sum": 3, "accept_batch_events_count": 1, "accept_commit_seconds_sum": 2, "accept_commit_seconds_count": 1,
				"received_to_committed_seconds_sum": 6, "received_to_committed_seconds_count": 2}},
		{"a commit that failed", func(m *telemetry.Metrics) { m.Committed([]*effects.Arrival{arrival}, 0, errors.New("x")) },
			map[string]float64{"accept_batch_events_sum": 1, "accept_batch_events_count": 1, "accept_commit_seconds_count": 1, "accept_failed_total": 1}},
		{"processed events", func(m *telemetry.Metrics) {
			task := eventhook.Action{TargetType: "task", Status: eventhook.ActionSuccess}
			m.Settled([]*effects.Settlement{settlement("delivered", task, task), settlement("delivered"),
				settlement("failed", eventhook.Action{TargetType: "promise", Status: eventhook.ActionFailed})}, 2, 3*time.Second)
		}, map[string]float64{
			`events_settled_total{status="delivered"}`: 2, `events_settled_total{status="failed"}`: 1, "events_lease_lost_total": 2,
			`actions_total{status="success",target_type="task"}`: 2, `actions_total{status="failed",target_type="promise"}`: 1,
			"events_settle_seconds_sum": 3, "events_settle_seconds_count": 1,
			"received_to_settled_seconds_sum": 6, "received_to_settled_seconds_count": 3,
		}},
		{"an event that fails again, and one that a user reprocesses", func(m *telemetry.Metrics) {
			again, reprocessed := settlement("dead"), settlement("dead")
			again.Event.RetryCount, reprocessed.Event.IsReprocessed = 1, true
			m.Settled([]*effects.Settlement{again, reprocessed}, 0, 0)
		}, map[string]float64{`events_settled_total{status="dead"}`: 2, `dead_letters_total{kind="event"}`: 2, "events_settle_seconds_count": 1}},
		{"a stale plan", func(m *telemetry.Metrics) { m.Stale() }, map[string]float64{"events_stale_total": 1}},
		{"an attempt that starts late", func(m *telemetry.Metrics) { m.Started(&eventhook.Delivery{}, 4*time.Second) },
			map[string]float64{"delivery_delay_seconds_sum": 4, "delivery_delay_seconds_count": 1}},
		{"a claim of an agent", func(m *telemetry.Metrics) { m.AgentsClaimed(3, 1) }, map[string]float64{"agent_deliveries_claimed_total": 3, "agent_leases_expired_total": 1}},
		{"results of an agent", func(m *telemetry.Metrics) { m.AgentsReported(2, 1) },
			map[string]float64{`agent_results_total{outcome="stored"}`: 2, `agent_results_total{outcome="lost"}`: 1}},
		{"agents that wait", func(m *telemetry.Metrics) { m.WatchAgentClaims(func() int { return 2 }) }, map[string]float64{"agent_claims_waiting": 2}},
		{"an attempt that fails", func(m *telemetry.Metrics) { m.Attempted(eventhook.ErrorTLS, 4*time.Second) },
			map[string]float64{`delivery_attempt_seconds_sum{outcome="tls"}`: 4, `delivery_attempt_seconds_count{outcome="tls"}`: 1}},
		{"a successful delivery", func(m *telemetry.Metrics) {
			m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: &eventhook.Delivery{EventID: receivedBefore(5 * time.Second)}, Status: eventhook.DeliverySuccess,
				Attempt: &eventhook.Attempt{StartedAt: instant.Add(-3 * time.Second), Duration: time.Second}}}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="success"}`: 1, "deliveries_settle_seconds_count": 1,
			"received_to_delivered_seconds_sum": 3, "received_to_delivered_seconds_count": 1}},
		{"a dead delivery of a route", func(m *telemetry.Metrics) {
			m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: &eventhook.Delivery{RouteID: eventhook.RouteID{1}}, TargetType: "kafka", Status: eventhook.DeliveryDead, EventStatus: eventhook.EventDead}}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="dead"}`: 1, `dead_letters_total{kind="delivery"}`: 1, `dead_letters_total{kind="event"}`: 1,
			`events_settled_total{status="dead"}`: 1, `actions_total{status="failed",target_type="kafka"}`: 1, "deliveries_settle_seconds_count": 1}},
		{"a workflow that Temporal had already", func(m *telemetry.Metrics) {
			existed := &eventhook.Attempt{StatusCode: eventhook.StatusExisted}
			m.SettledDeliveries([]*outbound.DeliverySettlement{
				{Delivery: &eventhook.Delivery{RouteID: eventhook.RouteID{1}}, TargetType: "workflow", Status: eventhook.DeliverySuccess, Attempt: existed, IsUncounted: true},
				{Delivery: &eventhook.Delivery{RouteID: eventhook.RouteID{1}}, TargetType: "http", Status: eventhook.DeliverySuccess, Attempt: existed, IsUncounted: true},
			}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="success"}`: 2, `actions_total{status="skipped",target_type="workflow"}`: 1,
			`actions_total{status="success",target_type="http"}`: 1, "deliveries_settle_seconds_count": 1}},
		{"an action of a target that was deleted", func(m *telemetry.Metrics) {
			m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: &eventhook.Delivery{RouteID: eventhook.RouteID{1}}, Status: eventhook.DeliveryDead}}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="dead"}`: 1, `dead_letters_total{kind="delivery"}`: 1, `actions_total{status="failed",target_type="other"}`: 1,
			"deliveries_settle_seconds_count": 1}},
		{"a dead execution", func(m *telemetry.Metrics) { m.Worked("dead", 1) }, map[string]float64{`executions_total{act="dead"}`: 1, `dead_letters_total{kind="execution"}`: 1}},

		{"an event whose request is pending", func(m *telemetry.Metrics) {
			m.Settled([]*effects.Settlement{settlement("processing", eventhook.Action{TargetType: "task", Status: eventhook.ActionSuccess},
				eventhook.Action{TargetType: "http", Status: eventhook.ActionPending})}, 0, 0)
		}, map[string]float64{`actions_total{status="success",target_type="task"}`: 1, "events_settle_seconds_count": 1,
			"received_to_settled_seconds_sum": 2, "received_to_settled_seconds_count": 1}},
		{"events stored with their effects", func(m *telemetry.Metrics) {
			m.Planned([]*effects.Settlement{settlement("delivered", eventhook.Action{TargetType: "task", Status: eventhook.ActionSuccess}), settlement("unrouted"),
				settlement("processing", eventhook.Action{TargetType: "http", Status: eventhook.ActionPending})})
		}, map[string]float64{
			"events_planned_before_commit_total": 3, "received_to_settled_seconds_sum": 6, "received_to_settled_seconds_count": 3, `events_settled_total{status="delivered"}`: 1, `events_settled_total{status="unrouted"}`: 1,
			`actions_total{status="success",target_type="task"}`: 1,
		}},
		{"probes", func(m *telemetry.Metrics) { m.Probed(outbound.ProbeFailed) }, map[string]float64{`probes_total{result="failed"}`: 1}},
		{"recovered deliveries", func(m *telemetry.Metrics) {
			released := &eventhook.Delivery{IsReleased: true}
			m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: released, Status: eventhook.DeliverySuccess}, {Delivery: released, Status: eventhook.DeliveryDead},
				{Delivery: &eventhook.Delivery{}, Status: eventhook.DeliverySuccess}}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="success"}`: 2, `deliveries_settled_total{status="dead"}`: 1, "deliveries_recovered_total": 1, `dead_letters_total{kind="delivery"}`: 1,
			"deliveries_settle_seconds_count": 1}},
		{"a recovered delivery and a test, whose times say nothing about the gateway", func(m *telemetry.Metrics) {
			attempt := &eventhook.Attempt{StartedAt: instant}
			m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: &eventhook.Delivery{IsReleased: true}, Status: eventhook.DeliverySuccess, Attempt: attempt},
				{Delivery: &eventhook.Delivery{}, Status: eventhook.DeliverySuccess, Attempt: attempt, IsUncounted: true}}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="success"}`: 2, "deliveries_recovered_total": 1, "deliveries_settle_seconds_count": 1}},
		{"deliveries that are too old", func(m *telemetry.Metrics) { m.DeliveriesExpired(3) }, map[string]float64{`dead_letters_total{kind="delivery"}`: 3}},
		{"executions whose last lease ran out", func(m *telemetry.Metrics) { m.ExecutionsLost(2) }, map[string]float64{`dead_letters_total{kind="execution"}`: 2}},
		{"disabled subscriptions", func(m *telemetry.Metrics) {
			m.SubscriptionsDisabled(eventhook.DisabledByGone, 1)
			m.SubscriptionsDisabled(eventhook.DisabledByFailures, 2)
			m.SubscriptionsDisabled(eventhook.DisabledByUser, 3)
			m.SubscriptionsDisabled(eventhook.DisabledByTenant, 4)
		}, map[string]float64{`subscriptions_disabled_total{reason="gone"}`: 1, `subscriptions_disabled_total{reason="failures"}`: 2,
			`subscriptions_disabled_total{reason="person"}`: 3, `subscriptions_disabled_total{reason="tenant_closed"}`: 4}},
		{"recovered outages", func(m *telemetry.Metrics) { m.OutagesRecovered(2) }, map[string]float64{"outages_recovered_total": 2}},
		{"a cancelled replay", func(m *telemetry.Metrics) { m.ReplayEnded(eventhook.ReplayCancelled) }, map[string]float64{`replays_ended_total{status="cancelled"}`: 1}},
		{"a dropped partition", func(m *telemetry.Metrics) { m.PartitionDropped("delivery") }, map[string]float64{`partitions_dropped_total{table="delivery"}`: 1}},
		{"a failed maintenance", func(m *telemetry.Metrics) { m.PartitionMaintenanceFailed() }, map[string]float64{"partition_maintenance_failed_total": 1}},
		{"a pool", func(m *telemetry.Metrics) {
			m.WatchPools(func(name string) eventhook.PoolStats {
				if name != "work" {
					return eventhook.PoolStats{}
				}
				return eventhook.PoolStats{Idle: 1, Used: 2, Max: 3, Waited: 4 * time.Second}
			})
		}, map[string]float64{`db_connections{pool="work",state="idle"}`: 1, `db_connections{pool="work",state="used"}`: 2, `db_connections{pool="work",state="max"}`: 3,
			`db_acquire_wait_seconds_total{pool="work"}`: 4}},
		{"a replica", func(m *telemetry.Metrics) { m.WatchReplica(func() bool { return true }) }, map[string]float64{"db_replica_used": 1}},
		{"an instance", func(m *telemetry.Metrics) {
			m.WatchInstance(telemetry.Instance{Version: "1", Revision: "abc", Go: "go1", Roles: []string{"api"}, Ready: func() bool { return true }, FreeBytes: func() float64 { return 5 }})
		}, map[string]float64{`build_info{go="go1",revision="abc",version="1"}`: 1, `role{role="api"}`: 1, "ready": 1, "data_dir_free_bytes": 5}},
		{"a panic", func(*telemetry.Metrics) { panics.Count(panics.Loop) }, map[string]float64{`panics_total{place="loop"}`: 1}},
		{"acts of workers", func(m *telemetry.Metrics) { m.Worked("claimed", 3) }, map[string]float64{`executions_total{act="claimed"}`: 3}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			m := telemetry.NewMetricsAt(clock)
			before := series(t, m)
			c.act(m)
			if diff := cmp.Diff(c.want, changedSeries(before, series(t, m))); diff != "" {
				t.Errorf("changed series (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEverySeriesOfAKnownLabelExistsFromTheStart(t *testing.T) {
	m := telemetry.NewMetrics()
	got := series(t, m)
	for _, f := range m.Families() {
		for _, name := range f.SeriesNames() {
			if n, ok := got[name]; !ok || n != 0 && f.Name != "panics_total" { // panics count by process, for all tests
				t.Errorf("%s: got %v, %v; want the series at zero", name, n, ok)
			}
		}
	}
	for _, o := range ingest.Outcomes() {
		if _, ok := got[fmt.Sprintf("ingest_requests_total{outcome=%q}", o)]; !ok {
			t.Errorf("requests with the outcome %s have no series", o)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	const many = 10_000
	m := telemetry.NewMetrics()
	atStart := len(series(t, m))
	for i := range many {
		label := fmt.Sprint("made up ", i)
		m.Answered(ingest.Outcome(label), label)
		m.Settled([]*effects.Settlement{{Event: &eventhook.Event{}, Status: eventhook.EventDead, Actions: []effects.PlannedAction{
			{Action: eventhook.Action{TargetType: label, Status: eventhook.ActionFailed}},
		}}}, 0, 0)
	}
	got := series(t, m)
	if more := len(got) - atStart; more > 200 {
		t.Errorf("there are %d more series after %d made-up labels, want a few", more, many)
	}
	if n := got[`actions_total{status="failed",target_type="other"}`]; n != many-50 {
		t.Errorf("counted %v with the label other, want all of %d but the first 50", n, many)
	}
	unverified := 0.0
	for name, n := range got {
		if strings.HasPrefix(name, "ingest_unverified_total") {
			unverified += n
		}
	}
	if unverified != many {
		t.Errorf("counted %v unverified requests, want all %d", unverified, many)
	}
}

func TestCountsByTenantAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics()
		count := func(n int) {
			var batch []*effects.Arrival
			for i := range n {
				batch = append(batch, &effects.Arrival{Event: &eventhook.Event{TenantID: eventhook.TenantID{byte(i), byte(i >> 8), 1}, Status: eventhook.EventPending}})
			}
			m.Committed(batch, 0, nil)
		}
		count(3)
		m.EnableTenants()
		if n, ok := series(t, m)[`tenant_events_total{tenant="other"}`]; n != 0 || !ok {
			t.Errorf("at the start other tenants have %v events, %t; want the series at zero", n, ok)
		}
		go func() {
			_ = m.WatchTenants(t.Context(), func(_ context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error) {
				slugs := map[eventhook.TenantID]string{}
				for _, id := range ids {
					slugs[id] = fmt.Sprintf("t%d", int(id[0])+int(id[1])<<8)
				}
				return slugs, nil
			}, telemetry.Watch{Interval: time.Second, Log: slog.New(slog.DiscardHandler)})
		}()
		synctest.Wait()
		count(600)
		m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: &eventhook.Delivery{TenantID: eventhook.TenantID{0, 0, 1}}, Status: eventhook.DeliveryFailed}}, 0, 0)
		time.Sleep(time.Second) // in the bubble
		synctest.Wait()
		got, tenants := series(t, m), 0
		for name := range got {
			if strings.HasPrefix(name, "tenant_events_total{") {
				tenants++
			}
		}
		if others := got[`tenant_events_total{tenant="other"}`]; tenants != 501 || others != 100 {
			t.Errorf("got %d series and %v events of other tenants, want 501 and 100", tenants, others)
		}
	})
}

func TestHealth(t *testing.T) {
	dead := func(context.Context) error { return errors.New("password=hush") }
	for _, c := range []struct {
		claim       string
		ping        func(context.Context) error
		stopping    bool
		ready       int
		readyStatus string
	}{
		{"working", alive, false, 200, "ready"},
		{"without its database", dead, false, 503, "the database does not answer"},
		{"stopping", alive, true, 503, "stopping"},
		{"stopping, without its database", dead, true, 503, "stopping"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			m := telemetry.NewManagement(telemetry.NewMetrics(), c.ping, func() map[string]any { return map[string]any{"version": "1"} })
			if c.stopping {
				m.Stopping()
			}
			for path, want := range map[string]struct {
				code int
				body string
			}{
				"/health/live":  {200, `{"status":"live"}`},
				"/health/ready": {c.ready, fmt.Sprintf(`{"status":%q}`, c.readyStatus)},
				"/info":         {200, `{"version":"1"}`},
			} {
				w := get(m.Handler(), path)
				if w.Code != want.code || strings.TrimSpace(w.Body.String()) != want.body || w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("%s answered %d %s, want %d %s", path, w.Code, w.Body, want.code, want.body)
				}
			}
		})
	}
}

func TestReadyDoesNotWaitForADatabaseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		w := get(telemetry.NewManagement(telemetry.NewMetrics(), hangs, nil).Handler(), "/health/ready")
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took > 2*time.Second {
			t.Errorf("answered %d after %s, want 503 within 2s", w.Code, took)
		}
	})
}

func TestTheProfilerIsOffByDefault(t *testing.T) {
	m := telemetry.NewManagement(telemetry.NewMetrics(), alive, nil)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/profile?seconds=1"} {
		if w := get(m.Handler(), path); w.Code != http.StatusNotFound {
			t.Errorf("%s answered %d, want 404", path, w.Code)
		}
	}
	m.Profiler = true
	if w := get(m.Handler(), "/debug/pprof/goroutine?debug=1"); w.Code != http.StatusOK {
		t.Errorf("with the profiler on, a profile answered %d, want 200", w.Code)
	}
	if w := get(m.Handler(), "/debug/pprof/cmdline"); w.Code != http.StatusNotFound {
		t.Errorf("answered %d %s, want 404, because flags may contain a password", w.Code, w.Body)
	}
}

// queues implements telemetry.Queues with states that a test sets.
type queues struct {
	mu    sync.Mutex
	of    map[string]eventhook.QueueState
	err   error // of the queue of events
	reads int
}

func (q *queues) set(events, executions, deliveries eventhook.QueueState, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of, q.err = map[string]eventhook.QueueState{"events": events, "executions": executions, "deliveries": deliveries}, err
}

func (q *queues) count() (reads int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reads
}

func (q *queues) EventQueue(context.Context) (eventhook.QueueState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reads++
	return q.of["events"], q.err
}

func (q *queues) ExecutionQueue(context.Context) (eventhook.QueueState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of["executions"], nil
}

func (q *queues) DeliveryQueue(_ context.Context, blocked eventhook.BlockedDestinations) (eventhook.QueueState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	state := q.of["deliveries"]
	state.Depth = max(0, state.Depth-len(blocked.Open))
	return state, nil
}

func (*queues) SubscriptionCounts(context.Context) (eventhook.SubscriptionCounts, error) {
	return eventhook.SubscriptionCounts{Failing: 4, Recovering: 5, Replaying: 6}, nil
}

func (*queues) AgentCounts(context.Context) (eventhook.AgentCounts, error) {
	return eventhook.AgentCounts{Online: 3, Offline: 2}, nil
}

func TestWatchQueuesReadsTheQueuesAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, q := telemetry.NewMetrics(), &queues{}
		old := eventhook.QueueState{Age: 90 * time.Second, Depth: 7}
		parked := eventhook.QueueState{Age: time.Second, Depth: 9, Parked: map[eventhook.ParkReason]int{"breaker": 3, "suspended": 2}}
		q.set(old, eventhook.QueueState{}, parked, nil)
		blocked := func() eventhook.BlockedDestinations {
			return eventhook.BlockedDestinations{Open: make([]eventhook.DestinationID, 4)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		before := series(t, m)
		go func() {
			ended <- m.WatchQueues(ctx, q, blocked, telemetry.Watch{Interval: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
		}()
		want := func(claim string, reads int, want map[string]float64) {
			t.Helper()
			synctest.Wait()
			want[`subscription_outages{state="failing"}`], want[`subscription_outages{state="recovering"}`], want["replays_running"] = 4, 5, 11
			want[`agents{status="online"}`], want[`agents{status="offline"}`] = 3, 2
			if diff := cmp.Diff(want, changedSeries(before, series(t, m))); diff != "" || q.count() != reads {
				t.Errorf("%s: got %d reads, want %d (-want +got):\n%s", claim, q.count(), reads, diff)
			}
		}
		deliveries := map[string]float64{`queue_age_seconds{queue="deliveries"}`: 1, `queue_depth{queue="deliveries"}`: 5, `parked{queue="deliveries",reason="breaker"}`: 3}
		both := map[string]float64{`queue_age_seconds{queue="events"}`: 90, `queue_depth{queue="events"}`: 7}
		maps.Copy(both, deliveries)
		want("at the start", 1, maps.Clone(both))
		q.set(eventhook.QueueState{}, eventhook.QueueState{}, eventhook.QueueState{}, nil)
		want("between two reads", 1, maps.Clone(both))
		time.Sleep(5 * time.Second) // in the bubble
		want("at the next read", 2, map[string]float64{})
		q.set(old, parked, eventhook.QueueState{}, errors.New("x"))
		time.Sleep(5 * time.Second)
		want("a queue that cannot be read does not stop the others", 3, map[string]float64{
			`queue_age_seconds{queue="executions"}`: 1, `queue_depth{queue="executions"}`: 9, `parked{queue="executions",reason="suspended"}`: 2})
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("WatchQueues returned %v, want nil", err)
		}
	})
}

// longQueues are queues whose reading takes some time.
type longQueues struct {
	queues
	takes time.Duration
}

func (q *longQueues) EventQueue(ctx context.Context) (eventhook.QueueState, error) {
	time.Sleep(q.takes) // in the bubble
	return q.queues.EventQueue(ctx)
}

func TestWatchQueuesReadsLongQueuesSeldom(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		reads int // in ten minutes
	}{
		{time.Millisecond, 120},
		{50 * time.Millisecond, 120},
		{140 * time.Millisecond, 40},
		{5 * time.Second, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, q := telemetry.NewMetrics(), &longQueues{takes: c.takes}
			go func() {
				_ = m.WatchQueues(t.Context(), q, func() (b eventhook.BlockedDestinations) { return b },
					telemetry.Watch{Interval: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
			}()
			time.Sleep(10*time.Minute - time.Second) // in the bubble
			if n := q.count(); n != c.reads {
				t.Errorf("readings of %s: got %d in ten minutes, want %d", c.takes, n, c.reads)
			}
		})
	}
}

// database implements telemetry.Database.
type database struct {
	isDown atomic.Bool
	sizes  int
}

func (d *database) ClockSkew(context.Context) (time.Duration, error) {
	if d.isDown.Load() {
		return 0, errors.New("down")
	}
	return -2 * time.Second, nil
}

func (d *database) Sizes(context.Context) (eventhook.DatabaseSizes, error) {
	d.sizes++
	return eventhook.DatabaseSizes{Bytes: 7, Partitions: map[string]int{"event": 4}, HasNextDays: map[string]bool{"event": true}}, nil
}

func TestWatchDatabaseChecksOftenAndReadsSizesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, d := telemetry.NewMetrics(), &database{}
		before := series(t, m)
		go func() {
			_ = m.WatchDatabase(t.Context(), d, telemetry.Watch{Interval: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
		}()
		synctest.Wait()
		want := map[string]float64{"db_up": 1, "db_clock_skew_seconds": -2, "db_bytes": 7, `partitions{table="event"}`: 4, `partition_next_exists{table="event"}`: 1}
		if diff := cmp.Diff(want, changedSeries(before, series(t, m))); diff != "" || d.sizes != 1 {
			t.Errorf("got %d readings of sizes, want 1 (-want +got):\n%s", d.sizes, diff)
		}
		time.Sleep(59 * time.Second) // in the bubble
		synctest.Wait()
		if d.sizes != 1 {
			t.Errorf("got %d readings of sizes within a minute, want 1", d.sizes)
		}
		d.isDown.Store(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if up := series(t, m)["db_up"]; up != 0 {
			t.Errorf("db_up is %v while the database is down, want 0", up)
		}
	})
}

func TestLogs(t *testing.T) {
	for _, c := range []struct {
		level, format string
		lines         int
		json          bool
	}{
		{"debug", "text", 4, false}, {"info", "text", 3, false}, {"warn", "json", 2, true}, {"error", "json", 1, true}, {"loud", "xml", 3, false},
	} {
		var b bytes.Buffer
		log := telemetry.NewLogger(&b, c.level, c.format)
		log.Debug("m")
		log.Info("m")
		log.Warn("m")
		log.Error("m", "key", eventhook.NewSecret("hush"))
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != c.lines || json.Valid([]byte(lines[0])) != c.json || strings.Contains(b.String(), "hush") {
			t.Errorf("level %s, format %s: wrote %q, want %d lines, JSON %v, and no secret", c.level, c.format, lines, c.lines, c.json)
		}
	}
}
