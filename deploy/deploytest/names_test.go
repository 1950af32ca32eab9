package deploytest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/telemetry"
)

var metricName = regexp.MustCompile(`\beventhook_[a-z0-9_]+`)

// recordedName matches the names of recording rules, which contain metrics' names.
var recordedName = regexp.MustCompile(`\bjob:eventhook_\w+:\w+`)

// metricNames returns the names of the series of all metrics of the gateway.
func metricNames() map[string]bool {
	names := map[string]bool{}
	for _, f := range telemetry.NewMetrics().Families() {
		names[f.FullName()] = true
		if f.Type == telemetry.Histogram || f.Type == telemetry.Latency {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				names[f.FullName()+suffix] = true
			}
		}
	}
	return names
}

// unknownNames returns the metrics and recording rules that an expression names and that do not
// exist.
func unknownNames(expr string, metrics, records map[string]bool) (unknown []string) {
	for _, name := range recordedName.FindAllString(expr, -1) {
		if !records[name] {
			unknown = append(unknown, name)
		}
	}
	for _, name := range metricName.FindAllString(recordedName.ReplaceAllString(expr, ""), -1) {
		if !metrics[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func recordNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, r := range readRules(t) {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	return names
}

func TestRulesAndTestsNameExistingMetrics(t *testing.T) {
	t.Parallel()
	metrics, records := metricNames(), recordNames(t)
	for _, r := range readRules(t) {
		for _, name := range unknownNames(r.Expr, metrics, records) {
			t.Errorf("%s%s names %s, which does not exist", r.Record, r.Alert, name)
		}
	}
	for _, file := range []string{"rules_test.yaml", "rules_slow_test.yaml"} {
		for line := range strings.Lines(readText(t, filepath.Join(prometheusDir, file))) {
			if !strings.Contains(line, "- {series:") {
				continue
			}
			for _, name := range unknownNames(line, metrics, records) {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// The page may name metrics without a prefix; this test checks the names that have one.
func TestTheRunbookNamesExistingMetrics(t *testing.T) {
	t.Parallel()
	_, alerts, _ := strings.Cut(readText(t, runbookFile), "\n## Alerts\n")
	for _, name := range unknownNames(alerts, metricNames(), recordNames(t)) {
		t.Errorf("%s names %s, which does not exist", runbookFile, name)
	}
}

func TestUnknownNamesAreFound(t *testing.T) {
	t.Parallel()
	got := unknownNames(`job:eventhook_a:rate1h / job:eventhook_b:rate1h + rate(eventhook_c_total[5m]) - eventhook_d`,
		map[string]bool{"eventhook_c_total": true}, map[string]bool{"job:eventhook_a:rate1h": true})
	if strings.Join(got, " ") != "job:eventhook_b:rate1h eventhook_d" {
		t.Errorf("got %q", got)
	}
}
