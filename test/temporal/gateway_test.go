package temporal_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const adminKey = "ehk_an-admin-key-for-tests"

// gateway is the program, in a process of its own with a private PostgreSQL.
type gateway struct {
	*testing.T
	url string
}

// build compiles the program with the client of Temporal.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "eventhook")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "temporal", "-o", program, "./cmd/eventhook")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// startGateway starts the program with a configuration for the tenant acme, and stops it at the end of
// the test.
func startGateway(t *testing.T, sources []any) *gateway {
	t.Helper()
	folder, err := os.MkdirTemp("", "eventhook-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	must(t, os.Chmod(folder, 0o755)) // PostgreSQL's user enters it
	raw, err := json.Marshal(map[string]any{"tenants": []any{map[string]any{"slug": "acme", "name": "Acme", "sources": sources}}})
	must(t, err)
	file := filepath.Join(folder, "acme.yaml")
	must(t, os.WriteFile(file, bytes.ReplaceAll(raw, []byte("$"), []byte("$$")), 0o600))

	cmd := exec.Command(build(t), "serve", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--apply", file)
	cmd.Env = append(os.Environ(), "EVENTHOOK_DATA_DIR="+filepath.Join(folder, "data"), "EVENTHOOK_ADMIN_KEY="+adminKey,
		"EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8", "EVENTHOOK_ENCRYPTION_KEYS=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	g := &gateway{T: t}
	lines := bufio.NewScanner(out)
	for g.url == "" && lines.Scan() {
		_, g.url, _ = strings.Cut(lines.Text(), "webhooks and API  ")
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, out) })
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		reading.Wait()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the gateway ended: %v; its log:\n%s", err, log.String())
		}
	})
	if g.url == "" {
		t.Fatal("the gateway did not start")
	}
	return g
}

// call calls the API and decodes the answer.
func (g *gateway) call(method, path string, body any) (answer map[string]any) {
	g.Helper()
	raw, err := json.Marshal(body)
	must(g.T, err)
	q, err := http.NewRequestWithContext(g.Context(), method, g.url+"/api/tenants/acme/eventhook"+path, bytes.NewReader(raw))
	must(g.T, err)
	q.Header.Set("Authorization", "Bearer "+adminKey)
	q.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(q)
	must(g.T, err)
	defer response.Body.Close()
	raw, err = io.ReadAll(response.Body)
	must(g.T, err)
	if response.StatusCode >= 300 || json.Unmarshal(raw, &answer) != nil {
		g.Fatalf("%s %s: %s: %s", method, path, response.Status, raw)
	}
	return answer
}

// webhook sends a webhook to a source and returns the id of its event.
func (g *gateway) webhook(source, body string) string {
	g.Helper()
	answer := g.call(http.MethodPost, "/in/"+source, json.RawMessage(body))
	return fmt.Sprint(answer["event_id"])
}

// settled waits until an event has a status, and returns its only action.
func (g *gateway) settled(event, status string) (action map[string]any) {
	g.Helper()
	until(g.T, "the event is "+status, func() bool {
		e := g.call(http.MethodGet, "/events/"+event, nil)
		if e["status"] != status {
			return false
		}
		action = e["actions"].([]any)[0].(map[string]any)
		return true
	})
	return action
}

// delivery returns the only delivery of an event, with its attempts. It waits until there is one.
func (g *gateway) delivery(event string) (delivery map[string]any) {
	g.Helper()
	until(g.T, "the event has a delivery", func() bool {
		list := g.call(http.MethodGet, "/deliveries?event_id="+event, nil)["items"].([]any)
		if len(list) == 0 {
			return false
		}
		delivery = g.call(http.MethodGet, "/deliveries/"+list[0].(map[string]any)["id"].(string), nil)
		return true
	})
	return delivery
}

// attempts returns the attempts of the only delivery of an event.
func (g *gateway) attempts(event string) (list []map[string]any) {
	g.Helper()
	for _, a := range g.delivery(event)["attempts"].([]any) {
		list = append(list, a.(map[string]any))
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until a condition holds. It asks other processes, which tell no one.
func until(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", claim)
		}
	}
}
