package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/client"
)

// An agent that stops while the gateway restarts reports the results when the gateway is back.
func TestAStoppingAgentRetriesItsReports(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.handle = answering(200, time.Second)
		d := h.add("http://ci")
		h.start()
		synctest.Wait()
		back := time.Now().Add(6 * time.Second)
		h.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
			isDown := time.Now().Before(back)
			if isDown {
				problem(w, http.StatusServiceUnavailable)
			}
			return isDown
		})
		h.stopAndWait()
		if r := h.result(d); r == nil || d.leases != 1 || !strings.Contains(h.log.text(), "reported=1 unreported=0") {
			t.Errorf("got the result %v after %d leases, want it reported\n%s", r, d.leases, h.log.text())
		}
	})
}

// The key of the agent goes to the gateway that --server names, and to no other one.
func TestAnAgentFollowsNoRedirectOfItsGateway(t *testing.T) {
	other, _, reached := counting(t, func(http.ResponseWriter, *http.Request) {})
	gateway := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(gateway.Close)
	c := testConfig()
	c.Server = gateway.URL
	transport := &gatewayTransport{connections: 1, wait: time.Second}
	transport.use(material{})
	defer transport.current.Load().CloseIdleConnections()
	api, err := transport.newClient(c, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.ClaimDeliveries(t.Context(), "acme", client.AgentClaimRequest{}); err == nil || reached.Load() != 0 {
		t.Errorf("got %v and %d requests at the other server, want an error and none", err, reached.Load())
	}
}

func TestHealthIs503WithoutAGateway(t *testing.T) {
	a := newAgent(testConfig(), nil, nil, slog.New(slog.DiscardHandler))
	for path, want := range map[string]int{"/health": 503, "/health/ready": 503, "/health/live": 200, "/metrics": 200} {
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: got %d before the first claim, want %d", path, w.Code, want)
		}
	}
}

// The name of a destination that no entry allows is not even resolved.
func TestTheURLIsCheckedBeforeItsName(t *testing.T) {
	r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the agent asks a name server")
		return nil, errors.New("no name server")
	}}
	for _, entry := range []string{"http://ci.internal/hooks", "https://10.0.0.0/8", "http://10.0.0.0/8:8080"} {
		if _, _, err := newDestinations(t, r, material{}, entry).post(t, "http://ci.internal/admin"); classOf(err) != "blocked" {
			t.Errorf("--allow %s: got %v, want it blocked", entry, err)
		}
	}
}
