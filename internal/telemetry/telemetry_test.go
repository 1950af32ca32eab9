package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/route"
)

var (
	_ route.Observer      = (*telemetry.Metrics)(nil)
	_ telemetry.QueueAges = (*pg.DB)(nil)
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

func TestActsChangeTheirMetrics(t *testing.T) {
	settlement := func(status eventhook.EventStatus, actions ...eventhook.Action) *effects.Settlement {
		s := &effects.Settlement{Status: status}
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
		{"a commit", func(m *telemetry.Metrics) { m.Committed(7, 2*time.Second, nil) },
			map[string]float64{"accept_batch_events_sum": 7, "accept_batch_events_count": 1, "accept_commit_seconds_sum": 2, "accept_commit_seconds_count": 1}},
		{"a commit that failed", func(m *telemetry.Metrics) { m.Committed(1, 0, errors.New("x")) },
			map[string]float64{"accept_batch_events_sum": 1, "accept_batch_events_count": 1, "accept_commit_seconds_count": 1, "accept_failed_total": 1}},
		{"processed events", func(m *telemetry.Metrics) {
			task := eventhook.Action{TargetType: "task", Status: eventhook.ActionSuccess}
			m.Settled([]*effects.Settlement{settlement("delivered", task, task), settlement("delivered"),
				settlement("failed", eventhook.Action{TargetType: "promise", Status: eventhook.ActionFailed})}, 2, 3*time.Second)
		}, map[string]float64{
			`events_settled_total{status="delivered"}`: 2, `events_settled_total{status="failed"}`: 1, "events_lease_lost_total": 2,
			`actions_total{status="success",target_type="task"}`: 2, `actions_total{status="failed",target_type="promise"}`: 1,
			"events_settle_seconds_sum": 3, "events_settle_seconds_count": 1,
		}},
		{"an event whose request is pending", func(m *telemetry.Metrics) {
			m.Settled([]*effects.Settlement{settlement("processing", eventhook.Action{TargetType: "task", Status: eventhook.ActionSuccess},
				eventhook.Action{TargetType: "http", Status: eventhook.ActionPending})}, 0, 0)
		}, map[string]float64{`actions_total{status="success",target_type="task"}`: 1, "events_settle_seconds_count": 1}},
		{"events stored with their effects", func(m *telemetry.Metrics) {
			m.Planned([]*effects.Settlement{settlement("delivered", eventhook.Action{TargetType: "task", Status: eventhook.ActionSuccess}), settlement("unrouted"),
				settlement("processing", eventhook.Action{TargetType: "http", Status: eventhook.ActionPending})})
		}, map[string]float64{
			"events_planned_before_commit_total": 3, `events_settled_total{status="delivered"}`: 1, `events_settled_total{status="unrouted"}`: 1,
			`actions_total{status="success",target_type="task"}`: 1,
		}},
		{"probes", func(m *telemetry.Metrics) { m.Probed(outbound.ProbeFailed) }, map[string]float64{`probes_total{result="failed"}`: 1}},
		{"recovered deliveries", func(m *telemetry.Metrics) {
			released := &eventhook.Delivery{IsReleased: true}
			m.SettledDeliveries([]*outbound.DeliverySettlement{{Delivery: released, Status: eventhook.DeliverySuccess}, {Delivery: released, Status: eventhook.DeliveryDead},
				{Delivery: &eventhook.Delivery{}, Status: eventhook.DeliverySuccess}}, 0, 0)
		}, map[string]float64{`deliveries_settled_total{status="success"}`: 2, `deliveries_settled_total{status="dead"}`: 1, "deliveries_recovered_total": 1,
			"deliveries_settle_seconds_count": 1}},
		{"acts of workers", func(m *telemetry.Metrics) { m.Worked("claimed", 3) }, map[string]float64{`executions_total{act="claimed"}`: 3}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			m := telemetry.NewMetrics([]string{"accepted", "unverified"})
			before := series(t, m)
			c.act(m)
			if diff := cmp.Diff(c.want, changedSeries(before, series(t, m))); diff != "" {
				t.Errorf("changed series (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutcomesAreCountedFromZero(t *testing.T) {
	var outcomes []string
	for _, o := range ingest.Outcomes() {
		outcomes = append(outcomes, string(o))
	}
	got := series(t, telemetry.NewMetrics(outcomes))
	for _, o := range outcomes {
		if n, ok := got[fmt.Sprintf("ingest_requests_total{outcome=%q}", o)]; !ok || n != 0 {
			t.Errorf("%s: got %v, %v; want the series at zero", o, n, ok)
		}
	}
	if len(outcomes) == 0 {
		t.Error("there are no outcomes")
	}
}

func TestLabelsAreBounded(t *testing.T) {
	const many = 10_000
	m := telemetry.NewMetrics([]string{"accepted"})
	for i := range many {
		label := fmt.Sprint("made up ", i)
		m.Answered(label, label)
		m.Settled([]*effects.Settlement{{Status: eventhook.EventDead, Actions: []effects.PlannedAction{
			{Action: eventhook.Action{TargetType: label, Status: eventhook.ActionFailed}},
		}}}, 0, 0)
	}
	got := series(t, m)
	if len(got) > 150 {
		t.Errorf("there are %d series after %d made-up labels, want a few", len(got), many)
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
			m := telemetry.NewManagement(telemetry.NewMetrics(nil), c.ping, map[string]string{"version": "1"})
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
		w := get(telemetry.NewManagement(telemetry.NewMetrics(nil), hangs, nil).Handler(), "/health/ready")
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took > 2*time.Second {
			t.Errorf("answered %d after %s, want 503 within 2s", w.Code, took)
		}
	})
}

func TestTheProfilerIsOffByDefault(t *testing.T) {
	m := telemetry.NewManagement(telemetry.NewMetrics(nil), alive, nil)
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

// ages implements telemetry.QueueAges with ages that a test sets.
type ages struct {
	mu                 sync.Mutex
	events, executions time.Duration
	err                error
	reads              int
}

func (a *ages) set(events, executions time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events, a.executions, a.err = events, executions, err
}

func (*ages) OutageCounts(context.Context) (failing, recovering int, err error) { return 0, 0, nil }

func (a *ages) EventQueueAge(context.Context) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	return a.events, a.err
}

func (a *ages) ExecutionQueueAge(context.Context) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.executions, nil
}

func (a *ages) DeliveryQueueAge(context.Context) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return 2 * a.executions, nil
}

func TestWatchQueuesReadsTheAgesAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := telemetry.NewMetrics(nil), &ages{events: 90 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.WatchQueues(ctx, a, 5*time.Second, slog.New(slog.DiscardHandler)) }()
		want := func(claim string, events, executions float64, reads int) {
			t.Helper()
			synctest.Wait()
			got := series(t, m)
			a.mu.Lock()
			defer a.mu.Unlock()
			if got[`queue_age_seconds{queue="events"}`] != events || got[`queue_age_seconds{queue="executions"}`] != executions ||
				got[`queue_age_seconds{queue="deliveries"}`] != 2*executions || a.reads != reads {
				t.Errorf("%s: got %v after %d reads, want %v and %v after %d", claim, got, a.reads, events, executions, reads)
			}
		}
		want("at the start", 90, 0, 1)
		a.set(0, 2*time.Second, nil)
		want("between two reads", 90, 0, 1)
		time.Sleep(5 * time.Second) // in the bubble
		want("at the next read", 0, 2, 2)
		a.set(time.Hour, time.Second, errors.New("x"))
		time.Sleep(5 * time.Second)
		want("a queue that cannot be read does not stop the others", 0, 1, 3)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("WatchQueues returned %v, want nil", err)
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
