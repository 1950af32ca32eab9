package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestEventWatch(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	clitest.ClearEnvironment(t)
	t.Setenv(input.ServerVariable, gateway.url)
	t.Setenv(input.KeyVariable, testAdminKey)
	watched := make(chan clitest.Output)
	go func() {
		watched <- runCommand("event", "watch", "--tenant", "acme", "--status", "delivered", "--count", "1", "-o", "json")
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case got := <-watched:
			var e struct{ Source, Status string }
			if err := json.Unmarshal([]byte(got.Stdout), &e); err != nil || got.Code != 0 || e.Source != "github" || e.Status != "delivered" {
				t.Errorf("got %+v, %v, want a delivered event of github", got, err)
			}
			return
		case <-tick.C: // repeated until an event follows the start of the stream
			if status, _, err := gateway.push(t.Context(), time.Now().String()); err != nil || status != http.StatusOK {
				t.Fatal(status, err)
			}
		}
	}
}
