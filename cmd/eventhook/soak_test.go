package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/bench/soak"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// A short soak has each fault once: gateways, workers and PostgreSQL are stopped and killed, subscribers
// fail, and days pass.
func TestASoakLosesNoEvent(t *testing.T) {
	t.Parallel()
	var log clitest.Buffer
	report := t.TempDir()
	s, err := soak.Run(t.Context(), soak.Options{
		Gateway: []string{os.Args[0]}, Env: []string{"EVENTHOOK_TEST_AS_MAIN=1"},
		For: 10 * time.Second, Rate: 20, Patience: 2 * time.Minute, Report: report, Log: &log,
	})
	if err != nil {
		raw, _ := os.ReadFile(filepath.Join(report, "gateways.log"))
		t.Fatalf("%v\n%s\nthe gateways logged\n%s", err, &log, raw[max(0, len(raw)-4000):])
	}
	if len(s.Problems) > 0 || s.Lost > 0 || s.Settled != s.Sent || s.Sent == 0 || s.Aged == 0 {
		t.Errorf("got\n%s\nwant no problem, and events that retention dropped", s.Markdown())
	}
	svg, err := os.ReadFile(filepath.Join(report, "soak.svg"))
	if err != nil || !strings.Contains(string(svg), "PostgreSQL kill -9") {
		t.Errorf("the figure: %v, want the faults as marks", err)
	}
}
