package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// fakeMetrics serves metrics whose counters grow with each request: 100 accepted webhooks, 4
// refused ones, and a hundred events that are settled in 10 to 20 ms.
func fakeMetrics(t *testing.T) *httptest.Server {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `# TYPE eventhook_build_info gauge
eventhook_build_info{version="test"} 1
# TYPE eventhook_ready gauge
eventhook_ready 1
# TYPE eventhook_ingest_requests_total counter
eventhook_ingest_requests_total{outcome="accepted"} %d
eventhook_ingest_requests_total{outcome="unverified"} %d
eventhook_ingest_requests_total{outcome="shed"} 0
# TYPE eventhook_received_to_settled_seconds histogram
eventhook_received_to_settled_seconds_bucket{le="0.01"} 7
eventhook_received_to_settled_seconds_bucket{le="0.02"} %d
eventhook_received_to_settled_seconds_bucket{le="+Inf"} %d
eventhook_received_to_settled_seconds_sum 1
eventhook_received_to_settled_seconds_count %d
# TYPE eventhook_queue_age_seconds gauge
eventhook_queue_age_seconds{queue="deliveries"} 90
# TYPE eventhook_queue_depth gauge
eventhook_queue_depth{queue="deliveries"} 12345
# TYPE eventhook_parked gauge
eventhook_parked{queue="deliveries",reason="breaker"} 17
# TYPE eventhook_db_up gauge
eventhook_db_up 0
# TYPE eventhook_db_connections gauge
eventhook_db_connections{pool="work",state="used"} 3
eventhook_db_connections{pool="work",state="max"} 16
`, 100*n, 4*n, 7+100*n, 7+100*n, 7+100*n)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestTopShowsRatesAndQueues(t *testing.T) {
	clitest.ClearEnvironment(t)
	server := fakeMetrics(t)
	got := runCommand("top", "--management", server.URL, "--interval", "1s", "--once")
	for _, part := range []string{"1 of 1 instances ready", "accepted", "unverified ", "settle 15.0ms (p99 19.9ms)", "12.3k  1m30s", "deliveries breaker 17", "database  DOWN", "work 3/16"} {
		if !strings.Contains(got.Stdout, part) {
			t.Errorf("top printed\n%s%s, want %q in it", got.Stdout, got.Stderr, part)
		}
	}
	var view struct {
		Accepted, Seconds float64
		Refused           map[string]float64
		Instances         int
		Unreachable       []string
	}
	got = runCommand("top", "--management", server.URL, "--management", "http://127.0.0.1:1", "--interval", "1s", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &view); err != nil || view.Accepted*view.Seconds < 99 || view.Accepted*view.Seconds > 101 ||
		len(view.Refused) != 1 || view.Instances != 1 || len(view.Unreachable) != 1 {
		t.Errorf("top printed %s %s (%v), want 100 accepted webhooks and one reason of refusals", got.Stdout, got.Stderr, err)
	}
}

func TestTopOfAWrongAddress(t *testing.T) {
	clitest.ClearEnvironment(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer page.Close()
	for _, c := range []struct {
		claim, want string
		args        []string
		code        int
	}{
		{"nothing listens", "--management", []string{"--management", "http://127.0.0.1:1"}, 1},
		{"another server", "is not a gateway's management listener", []string{"--management", page.URL}, 1},
		{"no URL", "is not a URL", []string{"--management", "localhost:9980"}, 2},
		{"a short interval", "want 1s", []string{"--interval", "1ms"}, 2},
		{"an unknown format", "want table or json", []string{"-o", "yaml"}, 2},
	} {
		if got := runCommand(append([]string{"top", "--once"}, c.args...)...); got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", c.claim, got.Code, got.Stderr, c.code, c.want)
		}
	}
}
