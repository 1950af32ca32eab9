package tracing

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Without an endpoint, or if a variable says so, nothing is traced. A value that is not supported
// is logged with the ones that are.
func TestSettingsOfTheEnvironment(t *testing.T) {
	const general, specific = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	const collector = "http://collector:4318"
	on := settings{protocol: httpProtocol, queue: 2048, batch: 512, delay: 5 * time.Second, timeout: 30 * time.Second}
	with := func(change func(*settings)) *settings {
		s := on
		change(&s)
		return &s
	}
	overGRPC := with(func(s *settings) { s.protocol = grpcProtocol })
	for claim, c := range map[string]struct {
		env   map[string]string
		want  *settings
		fault string // of the error
		line  string // of the log
	}{
		"no endpoint":                    {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, nil, "", ""},
		"an endpoint":                    {map[string]string{general: collector}, &on, "", ""},
		"an endpoint of traces":          {map[string]string{specific: "https://collector/v1/traces"}, &on, "", ""},
		"no exporter":                    {map[string]string{general: collector, "OTEL_TRACES_EXPORTER": "none"}, nil, "", ""},
		"a disabled SDK":                 {map[string]string{general: collector, "OTEL_SDK_DISABLED": "TRUE"}, nil, "", ""},
		"an SDK that is not disabled":    {map[string]string{general: collector, "OTEL_SDK_DISABLED": "no"}, &on, "", ""},
		"a disabled SDK and no endpoint": {map[string]string{general: "collector", "OTEL_SDK_DISABLED": "true"}, nil, "", ""},
		"no URL":                         {map[string]string{general: "collector:4317"}, nil, general + " is not a URL", ""},
		"no URL of traces":               {map[string]string{general: collector, specific: "grpc://t0p@collector"}, nil, specific, ""},
		"gRPC":                           {map[string]string{general: collector, "OTEL_EXPORTER_OTLP_PROTOCOL": "GRPC"}, overGRPC, "", ""},
		"a protocol of traces": {map[string]string{general: collector, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, overGRPC, "", ""},
		"another protocol": {map[string]string{general: collector, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, &on, "", "http/protobuf or grpc"},
		"another exporter": {map[string]string{general: collector, "OTEL_TRACES_EXPORTER": "zipkin"}, &on, "", "otlp or none"},
		"a queue and waits": {map[string]string{general: collector, "OTEL_BSP_MAX_QUEUE_SIZE": "7", "OTEL_BSP_SCHEDULE_DELAY": "20",
			"OTEL_BSP_EXPORT_TIMEOUT": "30"}, with(func(s *settings) {
			s.queue, s.batch, s.delay, s.timeout = 7, 7, 20*time.Millisecond, 30*time.Millisecond
		}), "", ""},
		"a batch":                             {map[string]string{general: collector, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "9"}, with(func(s *settings) { s.batch = 9 }), "", ""},
		"a queue that does not fit in memory": {map[string]string{general: collector, "OTEL_BSP_MAX_QUEUE_SIZE": "1000000000"}, &on, "", "OTEL_BSP_MAX_QUEUE_SIZE"},
		"a queue below zero":                  {map[string]string{general: collector, "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, &on, "", "OTEL_BSP_MAX_QUEUE_SIZE"},
		"a batch below zero":                  {map[string]string{general: collector, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "-1"}, &on, "", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"},
		"no delay":                            {map[string]string{general: collector, "OTEL_BSP_SCHEDULE_DELAY": "0"}, &on, "", "OTEL_BSP_SCHEDULE_DELAY"},
		"a timeout that is no number":         {map[string]string{general: collector, "OTEL_BSP_EXPORT_TIMEOUT": "1s"}, &on, "", "OTEL_BSP_EXPORT_TIMEOUT"},
	} {
		t.Run(claim, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			var log strings.Builder
			got, err := readSettings(slog.New(slog.NewTextHandler(&log, nil)))
			if (err != nil) != (c.fault != "") || err != nil && (!strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "t0p")) {
				t.Errorf("got the error %v, want %q", err, c.fault)
			}
			if got != nil {
				got.sampler = nil // functions are not comparable; see TestSamplersOfTheEnvironment
			}
			if (got == nil) != (c.want == nil) || got != nil && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if tracer, err := Open(t.Context(), "test", slog.New(slog.DiscardHandler), time.Now); err != nil != (c.fault != "") {
				t.Errorf("Open returns %v", err)
			} else if tracer != nil {
				_ = tracer.Close(t.Context()) // there is no collector, and no span
			}
			if (log.Len() > 0) != (c.line != "") || !strings.Contains(log.String(), c.line) {
				t.Errorf("logged %q, want %q", log.String(), c.line)
			}
		})
	}
}
