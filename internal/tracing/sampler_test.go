package tracing

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
)

// The trace id of an event without a traceparent is its id, a UUID, of which a ratio samples a
// part like of random ids.
func TestARatioSamplesUUIDsAndRandomIDs(t *testing.T) {
	const n, part = 20_000, 0.1
	for claim, next := range map[string]func() trace.TraceID{
		"UUIDs":  func() trace.TraceID { return trace.TraceID(eventhook.NewID[eventhook.Event](time.Unix(1, 0))) },
		"random": newTrace,
	} {
		sampled := 0
		for range n {
			if ratio(part)(next(), "") {
				sampled++
			}
		}
		if got := float64(sampled) / n; math.Abs(got-part) > 0.02 {
			t.Errorf("%s: sampled %.3f of the traces, want about %.1f", claim, got, part)
		}
	}
}

func TestSamplersOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		name, arg                   string
		without, sampled, unsampled bool
	}{
		{"", "", true, true, false},
		{"parentbased_always_off", "", false, true, false},
		{"always_on", "", true, true, true},
		{"always_off", "", false, false, false},
		{"traceidratio", "0", false, false, false},
		{"parentbased_traceidratio", "0", false, true, false},
		{"parentbased_traceidratio", "2", true, true, false}, // is ignored
		{"unknown", "", true, true, false},                   // is ignored
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.name)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
		s, id := readSampler(slog.New(slog.DiscardHandler)), newTrace()
		if got := [3]bool{s(id, ""), s(id, "01"), s(id, "00")}; got != [3]bool{c.without, c.sampled, c.unsampled} {
			t.Errorf("%s %s: got %v for no flags, 01 and 00; want %v, %v, %v", c.name, c.arg, got, c.without, c.sampled, c.unsampled)
		}
	}
}
