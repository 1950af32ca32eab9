package main

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/pgtest"
)

// scrape returns the metrics in a format.
func (i *instance) scrape(accept string) (text, contentType string) {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.metrics, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(body), answer.Header.Get("Content-Type")
}

// awaitSeries waits until a scrape has each of the lines.
func (i *instance) awaitSeries(claim string, lines ...string) {
	i.t.Helper()
	var missing string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		text, _ := i.scrape("text/plain")
		missing = ""
		for _, line := range lines {
			if !strings.Contains("\n"+text, "\n"+line) {
				missing = line
			}
		}
		if missing == "" {
			return
		}
	}
	i.t.Fatalf("%s: no scrape has %q", claim, missing)
}

func TestMetricsOfARealGateway(t *testing.T) {
	t.Parallel()
	i := startDelivering(t, pgtest.New(t), "EVENTHOOK_METRICS_TENANT_LABEL=true")
	i.awaitSeries("at the start", `eventhook_ready 1`, `eventhook_db_up 1`, `eventhook_role{role="route"} 1`, `eventhook_build_info{`,
		`eventhook_db_connections{pool="work",state="max"} 16`, `eventhook_partition_next_exists{table="event"} 1`, `eventhook_dead_letters_total{kind="event"} 0`)

	alive, dead := newSubscriber(t), newSubscriber(t)
	dead.setHandler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	i.subscribe(alive.url, "alive", "")
	gone, _ := i.subscribe(dead.url, "dead", "")
	if status, _, err := i.push(t.Context(), "1"); status != http.StatusOK || err != nil {
		t.Fatalf("push: got %d, %v", status, err)
	}
	i.publishData("alive", "{}")
	for range 20 {
		i.publishData("dead", "{}")
	}
	i.awaitSeries("after a webhook and a delivery", `eventhook_ingest_requests_total{outcome="accepted"} 1`, `eventhook_received_to_committed_seconds_count 1`,
		`eventhook_received_to_settled_seconds_count 1`, `eventhook_received_to_delivered_seconds_count 1`, `eventhook_deliveries_settled_total{status="success"} 1`,
		`eventhook_tenant_events_total{tenant="acme"} 1`)
	i.awaitSeries("with a dead receiver", `eventhook_breakers_open 1`, `eventhook_breakers 2`, `eventhook_parked{queue="deliveries",reason="breaker"} 20`,
		`eventhook_queue_age_seconds{queue="deliveries"} 0`, `eventhook_queue_depth{queue="deliveries"} 0`)
	i.act(gone, "disable")
	i.awaitSeries("with a disabled subscription", `eventhook_subscriptions_disabled_total{reason="person"} 1`, `eventhook_parked{queue="deliveries",reason="held"} 20`,
		`eventhook_parked{queue="deliveries",reason="breaker"} 0`)

	if _, contentType := i.scrape("application/openmetrics-text; version=1.0.0"); !strings.HasPrefix(contentType, "application/openmetrics-text") {
		t.Errorf("a client that accepts OpenMetrics got %s", contentType)
	}
	promtool := serverProgram(t, "promtool")
	text, _ := i.scrape("text/plain")
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	var out bytes.Buffer
	check.Stdout, check.Stderr = &out, &out
	if err := check.Run(); err != nil || strings.Contains(out.String(), "eventhook_") {
		t.Errorf("promtool check metrics: %v\n%s", err, out.String())
	}
}
