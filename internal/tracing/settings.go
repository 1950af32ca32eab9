package tracing

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are the OTEL_* variables that the SDK does not read itself, and those with which it
// panics or loops if their values are out of bounds.
type settings struct {
	protocol string // grpc or http/protobuf
	sampler  sampler
	queue    int           // spans
	batch    int           // spans of one export, at most queue
	delay    time.Duration // between two exports
	timeout  time.Duration // of an export
}

// readSettings reads the OTEL_* variables. It returns nil if they switch tracing off, which they
// do unless they name an endpoint. As the specification demands, a value that is not supported is
// logged and ignored. An endpoint has no default that makes sense, so a wrong one is an error.
func readSettings(log *slog.Logger) (*settings, error) {
	if isDisabled(log) {
		return nil, nil //nolint:nilnil // off
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if err := checkEndpoint(name, os.Getenv(name)); err != nil {
			return nil, err
		}
	}
	s := settings{sampler: readSampler(log)}
	s.protocol = oneOf(log, firstSet("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"), httpProtocol, grpcProtocol)
	s.queue = number(log, "OTEL_BSP_MAX_QUEUE_SIZE", bounds{defaultQueue, maxQueue})
	s.batch = min(number(log, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", bounds{defaultBatch, maxQueue}), s.queue)
	s.delay = time.Duration(number(log, "OTEL_BSP_SCHEDULE_DELAY", bounds{defaultDelay, maxWait})) * time.Millisecond
	s.timeout = time.Duration(number(log, "OTEL_BSP_EXPORT_TIMEOUT", bounds{defaultTimeout, maxWait})) * time.Millisecond
	return &s, nil
}

const (
	httpProtocol = "http/protobuf"
	grpcProtocol = "grpc"
)

// The defaults of the specification, and the bounds of the gateway. Waits are in milliseconds.
const (
	defaultQueue   = 2048
	maxQueue       = 1_000_000
	defaultBatch   = 512
	defaultDelay   = 5000
	defaultTimeout = 30_000
	maxWait        = 3_600_000
)

// bounds are the default and the maximum of a number.
type bounds struct{ preset, most int }

// number returns the value of a variable, or the default if it is not a number from 1 to the
// maximum.
func number(log *slog.Logger, name string, b bounds) int {
	text := strings.TrimSpace(os.Getenv(name))
	if text == "" {
		return b.preset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > b.most {
		ignored(log, name, text, fmt.Sprintf("a number from 1 to %d", b.most))
		return b.preset
	}
	return n
}

func isDisabled(log *slog.Logger) bool {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return true
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return true
	}
	return oneOf(log, "OTEL_TRACES_EXPORTER", "otlp", "none") == "none"
}

// firstSet returns the first of two variables that is set, or the second.
func firstSet(specific, general string) string {
	if os.Getenv(specific) != "" {
		return specific
	}
	return general
}

// oneOf returns the value of a variable, or the first of the supported values if it has another.
func oneOf(log *slog.Logger, name string, supported ...string) string {
	value := strings.ToLower(strings.TrimSpace(os.Getenv(name)))
	if value == "" {
		return supported[0]
	}
	if !slices.Contains(supported, value) {
		ignored(log, name, value, strings.Join(supported, " or "))
		return supported[0]
	}
	return value
}

func ignored(log *slog.Logger, name, value, want string) {
	const maxQuoted = 100
	log.Warn("a variable has a value that is not supported and is ignored", "variable", name, "value", value[:min(len(value), maxQuoted)], "want", want)
}

// checkEndpoint returns an error unless the value is an http or https URL, or empty. The error
// does not repeat the value, which may contain a password.
func checkEndpoint(name, value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s is not a URL of a collector; write http:// or https://, a host and a port, such as http://localhost:4318", name)
	}
	return nil
}
