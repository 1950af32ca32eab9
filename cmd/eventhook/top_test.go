package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestTopOfARealGateway(t *testing.T) {
	clitest.ClearEnvironment(t)
	gateway := startInstance(t, pgtest.New(t))
	for n := range 20 {
		if _, _, err := gateway.push(t.Context(), fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	got := runCommand("top", "-o", "json", "--interval", "1s", "--management", strings.TrimSuffix(gateway.metrics, "/metrics"),
		"--server", gateway.url, "--key", testAdminKey)
	var view struct {
		Instances int
		Ready     int
		Queues    []struct{ Queue string }
		Latencies []struct{ Name string }
		Database  struct {
			IsUp        bool `json:"is_up"`
			Bytes       float64
			Connections []struct {
				Pool string
				Max  float64
			}
		}
		Lists *struct{ Error string }
	}
	if err := json.Unmarshal([]byte(got.Stdout), &view); err != nil {
		t.Fatalf("top printed %s %s: %v", got.Stdout, got.Stderr, err)
	}
	if view.Ready != 1 || !view.Database.IsUp || view.Database.Bytes == 0 || view.Database.Connections[0].Max == 0 {
		t.Errorf("top printed %s, want a gateway that is ready and a database that is up", got.Stdout)
	}
	if view.Instances != 1 || len(view.Queues) != 3 || len(view.Latencies) != 4 ||
		len(view.Database.Connections) < 3 || view.Lists == nil || view.Lists.Error != "" {
		t.Errorf("top printed %s", got.Stdout)
	}
	got = runCommand("top", "--interval", "1s", "--management", strings.TrimSuffix(gateway.metrics, "/metrics"))
	if !strings.Contains(got.Stdout, "database  ") || !strings.Contains(got.Stdout, "deliveries") {
		t.Errorf("top printed %s %s", got.Stdout, got.Stderr)
	}
}
