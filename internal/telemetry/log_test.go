package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/telemetry"
)

func TestTenantsAreLoggedBySlug(t *testing.T) {
	var b bytes.Buffer
	log := telemetry.NewLogger(&b, "info", "text")
	id := eventhook.NewID[eventhook.Tenant](time.Now())
	log.Info("before")
	log.Info("unresolved", "tenant", id)
	telemetry.LogHandlerOf(log).ResolveTenants(func(asked eventhook.TenantID) string {
		if asked != id {
			t.Errorf("asked for %s, want %s", asked, id)
		}
		return "acme"
	})
	log.Info("direct", "n", 1, "tenant", id)
	log.With("tenant", id).Info("with")
	log.Info("in a group", slog.Group("of", "tenant", id))
	if got := b.String(); strings.Contains(got, id.String()) || strings.Count(got, "tenant=acme") != 3 || !strings.Contains(got, "tenant=unknown") || !strings.Contains(got, "n=1") {
		t.Errorf("logged\n%s, want three lines with the slug and no id", got)
	}
}

var errDatabase = errors.New("connection refused")

// outageFixture is a log with an Outage. The database is up while failure is nil.
type outageFixture struct {
	text    bytes.Buffer
	log     *slog.Logger
	failure atomic.Pointer[error]
	probes  atomic.Int64
}

func newOutage(t *testing.T, level string) *outageFixture {
	f := &outageFixture{}
	f.log = telemetry.NewLogger(&f.text, level, "text")
	o := &telemetry.Outage{Now: time.Now, IsDown: func(err error) bool { return errors.Is(err, errDatabase) },
		Probe: func(context.Context) error {
			f.probes.Add(1)
			time.Sleep(100 * time.Millisecond)
			if p := f.failure.Load(); p != nil {
				return *p
			}
			return nil
		}}
	telemetry.LogHandlerOf(f.log).WatchOutages(o)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.Run(ctx, f.log)
	}()
	t.Cleanup(func() { stop(); <-done })
	synctest.Wait()
	return f
}

// logged returns the log, after every goroutine has written its lines.
func (f *outageFixture) logged() string {
	synctest.Wait()
	return f.text.String()
}

func TestAnOutageIsTwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOutage(t, "info")
		f.failure.Store(&errDatabase)
		for range 500 {
			f.log.Warn("cannot claim", "error", errDatabase)
			f.log.Warn("cannot claim in time", "error", context.DeadlineExceeded)
			time.Sleep(50 * time.Millisecond)
		}
		f.log.Warn("another fault", "error", errors.New("of a tenant"))
		f.failure.Store(nil)
		time.Sleep(2 * time.Second)
		f.log.Warn("a connection of before the outage", "error", errDatabase)
		time.Sleep(time.Minute)
		got := f.logged()
		for text, want := range map[string]int{"the database cannot be used": 1, "the database is back\" down_for=2": 1, "lines_held_back=": 1,
			"another fault": 1, "cannot claim\"": 0, "of before": 0} {
			if n := strings.Count(got, text); n != want {
				t.Errorf("%q is in %d lines, want %d:\n%s", text, n, want, got)
			}
		}
	})
}

func TestASingleFaultOfTheDatabaseIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOutage(t, "info")
		f.log.Warn("cannot claim", "error", errDatabase)
		time.Sleep(time.Second)
		f.log.Warn("cannot fetch", "error", context.DeadlineExceeded)
		if got := f.logged(); strings.Count(got, "cannot") != 2 || f.probes.Load() != 1 {
			t.Errorf("%d probes, want 1; logged\n%s, want both lines", f.probes.Load(), got)
		}
	})
}

func TestLinesBeyondTheHeldOnesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOutage(t, "info")
		for range 250 {
			f.log.Warn("cannot claim", "error", errDatabase)
		}
		time.Sleep(time.Second)
		if got := f.logged(); strings.Count(got, "cannot claim") != 200 || strings.Count(got, "lines_dropped=50") != 1 {
			t.Errorf("logged\n%s, want 200 lines and that 50 were dropped", got)
		}
	})
}

func TestHeldLinesAreAtDebugLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOutage(t, "debug")
		f.failure.Store(&errDatabase)
		f.log.Warn("cannot claim", "error", errDatabase, "request_id", "r-1")
		time.Sleep(time.Second)
		f.log.Error("cannot settle", "error", errDatabase)
		if got := f.logged(); strings.Count(got, "level=DEBUG msg=\"cannot") != 2 || !strings.Contains(got, "request_id=r-1") {
			t.Errorf("logged\n%s, want both lines at debug level", got)
		}
	})
}

func TestTheLevelCanBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := telemetry.NewLogger(&text, "info", "json")
		level := telemetry.NewLogLevel(log, time.Now)
		m := telemetry.NewManagement(telemetry.NewMetrics(), nil, nil)
		m.LogLevel = level
		handler := m.Handler()
		call := func(method, body string) (int, map[string]any) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(method, "/log-level", strings.NewReader(body)))
			var answer map[string]any
			_ = json.Unmarshal(w.Body.Bytes(), &answer)
			return w.Code, answer
		}
		for _, c := range []struct {
			method, body string
			status       int
			level        string
		}{
			{"GET", "", 200, "info"},
			{"PUT", `{"level":"debug","for_seconds":600}`, 200, "debug"},
			{"PUT", `{"level":"loud"}`, 422, "debug"},
			{"PUT", `{"level":"warn","for_seconds":0}`, 422, "debug"},
			{"PUT", `{"level":"warn","for_seconds":86401}`, 422, "debug"},
			{"PUT", `{"lvl":"warn"}`, 400, "debug"},
			{"PUT", `{"level":"warn"} {"level":"error"}`, 400, "debug"},
			{"PUT", ``, 400, "debug"},
			{"PUT", strings.Repeat(" ", 2000) + `{"level":"warn"}`, 400, "debug"},
		} {
			status, _ := call(c.method, c.body)
			if _, answer := call(http.MethodGet, ""); status != c.status || answer["level"] != c.level {
				t.Errorf("%s %.40s: answered %d, and the level is %v; want %d, %s", c.method, c.body, status, answer["level"], c.status, c.level)
			}
		}
		time.Sleep(599 * time.Second)
		if !log.Enabled(t.Context(), slog.LevelDebug) {
			t.Error("the level was reset too early")
		}
		time.Sleep(2 * time.Second)
		if _, answer := call(http.MethodGet, ""); answer["level"] != "info" || answer["reverts_at"] != nil || log.Enabled(t.Context(), slog.LevelDebug) {
			t.Errorf("after its time the level is %v, want info again", answer)
		}
		call(http.MethodPut, `{"level":"error","for_seconds":5}`)
		level.Configure(telemetry.ParseLevel("warn"))
		time.Sleep(time.Minute)
		if _, answer := call(http.MethodGet, ""); answer["level"] != "warn" || answer["configured"] != "warn" {
			t.Errorf("after a reload the level is %v, want warn", answer)
		}
		var changes []string
		for line := range strings.Lines(text.String()) {
			var change struct{ From, To string }
			_ = json.Unmarshal([]byte(line), &change)
			changes = append(changes, change.From+">"+change.To)
		}
		if got := strings.Join(changes, " "); got != "info>debug debug>info info>error error>warn" {
			t.Errorf("the log has the changes %s, want each change of the level", got)
		}
	})
}

func TestHostileValuesStayInOneShortLine(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		log := telemetry.NewLogger(&b, "info", format)
		for _, value := range []any{"a\nlevel=ERROR msg=forged", "\x1b[2J\x00\xff\u2028\u202e", strings.Repeat("é", 1<<20), errors.New("e\n" + strings.Repeat("x", 1<<20))} {
			b.Reset()
			log.With("with", value).Info("line", "value", value)
			line, hasEnd := strings.CutSuffix(b.String(), "\n")
			if !hasEnd || strings.ContainsAny(line, "\n\r\x1b\x00") || len(line) > 80<<10 {
				t.Errorf("%s: %.100q became a line of %d bytes: %.200q", format, value, len(line), line)
			}
			if format == "json" && !json.Valid([]byte(line)) {
				t.Errorf("%.100q became %.200q, which is not JSON", value, line)
			}
		}
	}
}

func TestLinesAboutARepeatedFaultAreWrittenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := telemetry.NewLogger(&b, "info", "text")
		telemetry.LogHandlerOf(log).BoundRepeats(&telemetry.Repeats{Interval: time.Minute, Now: time.Now,
			IsRepeated: func(err error) bool { return errors.Is(err, errDatabase) }})
		for range 121 {
			log.Warn("cannot settle", "error", errDatabase)
			log.Warn("cannot claim", "error", errDatabase)
			log.Warn("another fault", "error", errors.New("of a tenant"))
			time.Sleep(time.Second)
		}
		got := b.String()
		for text, want := range map[string]int{"cannot settle": 3, "cannot claim": 0, "lines_held_back=119": 2, "another fault": 121} {
			if n := strings.Count(got, text); n != want {
				t.Errorf("%q is in %d lines, want %d", text, n, want)
			}
		}
	})
}
