package tracing

import (
	"encoding/binary"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// sampler decides whether a trace is exported. flags are those of the sender's traceparent, or ""
// without one. All instances with the same settings decide alike.
type sampler func(id trace.TraceID, flags string) bool

func always(trace.TraceID, string) bool { return true }

func never(trace.TraceID, string) bool { return false }

// parentBased follows the sender's decision, and decides itself about a trace without one.
func parentBased(root sampler) sampler {
	return func(id trace.TraceID, flags string) bool {
		if len(flags) != len("01") {
			return root(id, "")
		}
		return strings.IndexByte("13579bdf", flags[1]) >= 0
	}
}

// ratio samples a part of the traces by the last 56 bits of their ids, which are random according
// to W3C Trace Context Level 2. It does not use the bits before them: the trace id of an event
// without a traceparent is a UUID, in which some of these are the same in each.
func ratio(part float64) sampler {
	const bits = 56
	threshold := uint64((1 - part) * (1 << bits))
	return func(id trace.TraceID, _ string) bool {
		return binary.BigEndian.Uint64(id[8:])&(1<<bits-1) >= threshold
	}
}

// readSampler returns the sampler of OTEL_TRACES_SAMPLER.
func readSampler(log *slog.Logger) sampler {
	const name = "OTEL_TRACES_SAMPLER"
	switch oneOf(log, name, "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off", "traceidratio") {
	case "parentbased_always_off":
		return parentBased(never)
	case "parentbased_traceidratio":
		return parentBased(readRatio(log))
	case "always_on":
		return always
	case "always_off":
		return never
	case "traceidratio":
		return readRatio(log)
	}
	return parentBased(always)
}

// readRatio returns the sampler of OTEL_TRACES_SAMPLER_ARG.
func readRatio(log *slog.Logger) sampler {
	const name = "OTEL_TRACES_SAMPLER_ARG"
	text := strings.TrimSpace(os.Getenv(name))
	if text == "" {
		return always
	}
	part, err := strconv.ParseFloat(text, 64)
	if err != nil || !(part >= 0 && part <= 1) { // NaN, too
		ignored(log, name, text, "a number from 0 to 1")
		return always
	}
	return ratio(part)
}
