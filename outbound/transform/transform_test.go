package transform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	pool := script.NewPool(1, time.Minute) // longer than any machine needs
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

// A tenant with many slow transforms does not delay the transforms of another tenant.
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

// counted is a script runner that counts its runs.
type counted struct {
	transform.Scripts
	runs int
}

func (c *counted) Run(ctx context.Context, p script.Program, input []byte) (json.RawMessage, error) {
	c.runs++
	return c.Scripts.Run(ctx, p, input)
}

// An expression whose cost can be counted runs in a process once, and other programs always. The
// results are the same.
func TestExpressionsRunInThisProcess(t *testing.T) {
	pool := script.NewPromptPool(1, 100*script.TimeLimit)
	defer pool.Close()
	for _, c := range []struct {
		kind, source string
		runs         int
	}{
		{"jmespath", "{id: event_id, n: data.list[?@ == `7`]}", 1},
		{"jmespath", "sort(data.list)", 3},
		{"jmespath", "length(event_id) + length(data.n)", 3},
		{"jmespath", "data.list[*].[$.data.list[*].[$.data.list]] | [0][0]", 3},
		{"javascript", "const transform = e => e.data", 3},
	} {
		scripts := &counted{Scripts: pool}
		r := transform.NewRunner(scripts, 2, limiter(), time.Now)
		event := []byte(`{"event_id":"e1","timestamp":"2026-11-22T02:44:25.123Z","data":{"n":7,"list":[` + strings.Repeat("7,", 200) + `8]}}`)
		var results [3]string
		for i := range results {
			got, err := r.Transform(t.Context(), acme, &eventhook.Transform{Type: c.kind, Expression: c.source}, event)
			results[i] = fmt.Sprintf("%s, %v", got, err)
		}
		if scripts.runs != c.runs || results[0] != results[1] || results[1] != results[2] {
			t.Errorf("%s: got %d runs and %v; want %d runs and the same results", c.source, scripts.runs, results, c.runs)
		}
	}
}

// Evaluations in this process take from the tenant's share, and end with the context.
func TestEvaluationsUseTheShareOfTheTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := cpushare.New(cpushare.Config{Processors: 0.5, Burst: 200 * time.Millisecond, Tenants: 10}, nil, time.Now)
		r := transform.NewRunner(blocking{0}, 2, share, time.Now)
		event := []byte(`{"data":[` + strings.Repeat("7,", 1000) + `8]}`)
		run := func(ctx context.Context, tenant eventhook.TenantID) error {
			_, err := r.Transform(ctx, tenant, identity, event)
			return err
		}
		if err := run(t.Context(), acme); err != nil { // in a process
			t.Fatal(err)
		}
		n := 0
		var err error
		for ; err == nil && n < 10_000; n++ {
			err = run(t.Context(), acme)
		}
		if refused, ok := errors.AsType[*send.TransformError](err); !ok || !refused.IsBusy {
			t.Errorf("after %d evaluations: got %v, want a refusal", n, err)
		}
		if err := run(t.Context(), umbrella); err != nil {
			t.Errorf("another tenant: got %v, want a result", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := run(ended, umbrella); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: got %v", err)
		}
	})
}

// quick is a script runner whose runs take no time.
type quick struct{}

func (quick) Run(context.Context, script.Program, []byte) (json.RawMessage, error) {
	return json.RawMessage("1"), nil
}

// Parsing an expression in the process of the caller is charged to the tenant's share.
func TestParsingIsCharged(t *testing.T) {
	now := time.Now()
	l := cpushare.New(cpushare.DefaultConfig(), nil, func() time.Time { return now })
	r := transform.NewRunner(quick{}, 2, l, time.Now)
	long := &eventhook.Transform{Type: eventhook.TransformJMESPath, Expression: strings.Repeat("(", 8000) + "@" + strings.Repeat(")", 8000)}
	before := stepsOf(l.Bucket(acme))
	if _, err := r.Transform(t.Context(), acme, long, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if used := before - stepsOf(l.Bucket(acme)); used < 50_000 {
		t.Errorf("parsing took %d steps of the share, want more than 50000", used)
	}
}

// stepsOf returns the steps that a bucket has, in thousands.
func stepsOf(b *cpushare.Bucket) (n int) {
	const some = 1000
	for b.Take(some) {
		n += some
	}
	b.Return(n)
	return n
}
