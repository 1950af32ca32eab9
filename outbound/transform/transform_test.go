package transform_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/outbound/transform"
)

var acme, umbrella = eventhook.TenantID{1}, eventhook.TenantID{2}

func limiter() *cpushare.Limiter { return cpushare.New(cpushare.DefaultConfig(), nil, time.Now) }

func TestTransforms(t *testing.T) {
	pool := script.NewPool(1, 5*script.TimeLimit)
	defer pool.Close()
	for _, c := range []struct{ kind, source, want, fault string }{
		{"jmespath", "{id: event_id, n: data.n}", `{"id":"e1","n":7}`, ""},
		{"javascript", "const transform = e => ({n: e.data.n * 2})", `{"n":14}`, ""},
		{"jmespath", "data.none", `null`, ""},
		{"javascript", "const transform = e => e.none.n", "", "transform: line 1, column"},
		{"javascript", "const transform = e => 'x'.repeat(10 << 20)", "", "transform: "},
		{"xslt", "x", "", "transform: its type is unknown"},
	} {
		r := transform.NewRunner(pool, 2, limiter(), time.Now)
		got, err := r.Transform(t.Context(), acme, &eventhook.Transform{Type: c.kind, Expression: c.source}, []byte(`{"event_id":"e1","timestamp":"2026-11-22T02:44:25.123Z","data":{"n":7}}`))
		if fault, ok := errors.AsType[*send.TransformError](err); ok != (c.fault != "") || ok && (fault.IsBusy || !strings.HasPrefix(fault.Reason, c.fault)) || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s, %q", c.source, got, err, c.want, c.fault)
		}
	}
}

// failing is a script runner whose runs fail.
type failing struct{ script.Reason }

func (f failing) Run(context.Context, script.Program, []byte) (json.RawMessage, error) {
	return nil, &script.Error{Reason: f.Reason, Message: "no"}
}

// A failure of the program is permanent, and a failure of the machine is not.
func TestFailuresOfTransforms(t *testing.T) {
	for reason, isBusy := range map[script.Reason]bool{script.Broken: false, script.Failed: false, script.TooMuch: false, script.TimedOut: false, script.Lost: false,
		script.NotStarted: true, script.Starved: true} {
		_, err := transform.NewRunner(failing{reason}, 2, limiter(), time.Now).Transform(t.Context(), acme, identity, nil)
		if fault, ok := errors.AsType[*send.TransformError](err); !ok || fault.IsBusy != isBusy {
			t.Errorf("%c: got %v, want a failure with IsBusy %t", reason, err, isBusy)
		}
	}
}

// blocking is a script runner that takes a time.
type blocking struct{ took time.Duration }

func (b blocking) Run(context.Context, script.Program, []byte) (json.RawMessage, error) {
	time.Sleep(b.took)
	return json.RawMessage("1"), nil
}

var identity = &eventhook.Transform{Type: eventhook.TransformJMESPath, Expression: "@"}

// A tenant with many slow transforms delays the transforms of another tenant by none.
func TestATenantCannotUseAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := transform.NewRunner(blocking{script.TimeLimit}, 2, limiter(), time.Now)
		for range 50 {
			go func() { _, _ = r.Transform(t.Context(), acme, identity, nil) }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := r.Transform(t.Context(), umbrella, identity, nil); err != nil || time.Since(began) > script.TimeLimit {
			t.Errorf("got %v after %s, want a result at once", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// A tenant that has used up its share of time gets an error that says so, until the share is
// refilled.
func TestTransformsUseTheShareOfTheTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := transform.NewRunner(blocking{script.TimeLimit}, 2, limiter(), time.Now)
		var refused *send.TransformError
		runs := 0
		for ; refused == nil && runs < 1000; runs++ {
			_, err := r.Transform(t.Context(), acme, identity, nil)
			refused, _ = errors.AsType[*send.TransformError](err)
		}
		if refused == nil || !refused.IsBusy {
			t.Fatalf("%d runs: got %v, want a refusal", runs, refused)
		}
		time.Sleep(time.Second)
		if _, err := r.Transform(t.Context(), acme, identity, nil); err != nil {
			t.Errorf("after a second: got %v, want a result", err)
		}
	})
}
