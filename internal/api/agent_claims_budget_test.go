package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// agentHarness is a budgetHarness whose keys belong to agents. Each claim returns one request.
type agentHarness struct {
	*agentDeliveries
	*budgetHarness
}

func (s agentHarness) KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	k, t, err := s.budgetHarness.KeyByHash(ctx, hash)
	k.Scopes, k.AgentID = []eventhook.Scope{eventhook.ScopeDeliver}, eventhook.AgentID(k.ID)
	return k, t, err
}

func (agentHarness) SeenAgents(context.Context, []eventhook.AgentSighting) error { return nil }

func (s agentHarness) Claim(ctx context.Context, a eventhook.Agent, _ eventhook.AgentClaim) ([]eventhook.AgentRequest, time.Time, error) {
	return []eventhook.AgentRequest{aRequest(strings.Repeat("x", s.size))}, time.Time{}, s.call(ctx, a.TenantID)
}

// runAgentHarness runs f with the API on an agentHarness.
func runAgentHarness(t *testing.T, limits api.Limits, f func(s agentHarness, claim func(n int, key, tenant string) *answers)) {
	synctest.Test(t, func(t *testing.T) {
		s := agentHarness{newAgentDeliveries(), nil}
		heartbeats := api.NewAgentHeartbeats(s, time.Now)
		s.budgetHarness = newBudgetHarness(t, limits, func(d *api.Deps) { d.Keys, d.AgentDeliveries, d.Heartbeats = &s, &s, heartbeats })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = heartbeats.Run(ctx) }()
		f(s, func(n int, key, tenant string) *answers {
			return s.start(n, key, "POST", T(tenant)+"/agents/claim", func() io.Reader { return strings.NewReader("{}") })
		})
	})
}

func TestClaimsOfAnAgentsTenantLeaveSlotsFree(t *testing.T) {
	runAgentHarness(t, api.Limits{}, func(s agentHarness, claim func(n int, key, tenant string) *answers) {
		loud, quiet := s.key("loud"), s.key("quiet")
		all := claim(20, loud, "loud")
		one := claim(1, quiet, "quiet")
		if in := s.calls(); count(in, "loud") != 8 || count(in, "quiet") != 1 {
			t.Errorf("%v claim at once, want 8 of the one tenant and 1 of the other", in)
		}
		for s.release() > 0 {
		}
		all.want("in the end", map[int]int{200: 20})
		one.want("in the end", map[int]int{200: 1})
	})
}

// stalledWriter is a response whose body nobody reads until the test says so.
type stalledWriter struct {
	*httptest.ResponseRecorder
	unblock chan struct{}
}

func (w stalledWriter) Write(b []byte) (int, error) {
	<-w.unblock
	return w.ResponseRecorder.Write(b)
}

func TestClaimsAreRefusedBeyondTheMemoryOfATenant(t *testing.T) {
	runAgentHarness(t, api.Limits{TenantBytes: 1 << 20}, func(s agentHarness, claim func(n int, key, tenant string) *answers) {
		s.size = 1 << 18 // several times as much in memory
		key := s.key("acme")
		slow := stalledWriter{httptest.NewRecorder(), make(chan struct{})}
		var writing sync.WaitGroup
		writing.Go(func() {
			r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, T("acme")+"/agents/claim", strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer "+key)
			s.router.ServeHTTP(slow, r)
		})
		synctest.Wait()
		beside := claim(8, key, "acme") // seven of them have a slot
		s.unblock <- struct{}{}         // for the first claim
		beside.want("while the first answer is written", map[int]int{429: 1})
		close(slow.unblock)
		writing.Wait()
		s.release()
		beside.want("in the end", map[int]int{200: 7, 429: 1})
	})
}
