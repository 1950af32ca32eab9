package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// The commands of the runbook's first section, run by a Prometheus whose intervals are a second.
func TestFromNothingToAFiringTestAlert(t *testing.T) {
	t.Parallel()
	serverProgram(t, "prometheus")
	serverProgram(t, "promtool")
	dsn := pgtest.New(t)
	gateway := startInstance(t, dsn)
	env := append(runbookVariables(gateway, dsn), "PROMETHEUS=http://"+clitest.FreeAddress(t), "DEPLOY="+hastyDeploy(t))
	raw, err := os.ReadFile("../../" + runbook)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, b := range runbookBlocks(string(raw)) {
		if b.runBy == t.Name() {
			commands = append(commands, b.commands)
		}
	}
	got := gateway.shell(t, commands[0]+"\ntrap 'kill $!; wait' EXIT\n"+strings.Join(commands[1:], "\n"), env...)
	if !strings.Contains(got, `alertname="EventhookTestAlert"`) {
		t.Errorf("the commands printed %s, want the test alert", got)
	}
}

// hastyDeploy is a folder deploy whose Prometheus scrapes and evaluates every second.
func hastyDeploy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"prometheus/prometheus.yml", "prometheus/rules.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(string(raw), ": 15s", ": 1s")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
