package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// stubStores decode requests fully and store nothing.
type stubStores struct {
	WorkStore
	PromiseStore
	SourceStore
	ExplainStore
}

func (stubStores) Complete(context.Context, eventhook.Execution) (eventhook.Execution, error) {
	return eventhook.Execution{}, eventhook.ErrLeaseLost
}

func (stubStores) CompleteAll(_ context.Context, _ eventhook.TenantID, list []eventhook.Execution) ([]error, error) {
	return make([]error, len(list)), nil
}

func (stubStores) FindSource(context.Context, string, string) (eventhook.Source, error) {
	return eventhook.Source{}, eventhook.NotFound("source")
}

func (stubStores) Source(context.Context, eventhook.TenantID, string) (eventhook.Source, error) {
	return eventhook.Source{}, nil
}

type oneTenant struct{ KeyStore }

func (oneTenant) Tenant(_ context.Context, slug string) (eventhook.Tenant, error) {
	return eventhook.Tenant{ID: eventhook.TenantID{1}, Slug: slug, Status: eventhook.TenantActive}, nil
}

type stubPublisher struct{}

func (stubPublisher) Publish(_ context.Context, _ eventhook.TenantID, events []*eventhook.Event) []PublishResult {
	outcomes := make([]PublishResult, len(events))
	for i, e := range events {
		outcomes[i].EventID = e.ID
	}
	return outcomes
}

// TestMemoryOfBodies compares the allocated bytes of a request, including garbage,
// with the memory that is reserved for it.
func TestMemoryOfBodies(t *testing.T) {
	e := echo.New()
	api := Register(e, Deps{Keys: oneTenant{}, Routes: checkedRoutes{}, Sources: stubStores{}, Work: stubStores{}, Explain: stubStores{}, Publisher: stubPublisher{}, AdminKeys: []eventhook.Secret{eventhook.NewSecret("the admin's")},
		OnWorkerAct: func(string, int) {}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	base := "/api/tenants/acme/eventhook"
	id := eventhook.NewID[eventhook.Execution](time.Now()).String()
	for _, c := range []struct {
		claim, path string
		fill        string // prefix | repeated unit | suffix
		size        int
	}{
		{"claim, objects", "/work/claim", `{"kinds":[|{},|]}`, smallBody},
		{"claim, texts", "/work/claim", `{"kinds":[|"",|]}`, smallBody},
		{"claim, numbers", "/work/claim", `{"kinds":[|1,|]}`, smallBody},
		{"claim, maximum of numbers", "/work/claim", `{"kinds":[|1,|]}`, 2 * maxFrameworkValues},
		{"claim, unknown members", "/work/claim", `{|"":{},|"x":0}`, smallBody},
		{"source, objects", "/sources", `{"secrets":[|{},|]}`, configBody},
		{"source, numbers", "/sources", `{"secrets":[|1,|]}`, configBody},
		{"source, maximum of numbers", "/sources", `{"secrets":[|1,|]}`, 2 * maxValues},
		{"source, few numbers", "/sources", `{"secrets":[|1,|]}`, 1000},
		{"source, maximum of objects", "/sources", `{"secrets":[|{},|]}`, 3 * maxValues / 2},
		{"source, members", "/sources", `{|"":{},|"x":0}`, configBody},
		{"source, maximum of members", "/sources", `{|"":1,|"x":0}`, 5 * maxValues},
		{"backtest, objects", "/routes/backtest", `{"source":"a","route":{"name":"a","targets":[|{},|]}}`, configBody},
		{"backtest, maximum of objects", "/routes/backtest", `{"source":"a","route":{"name":"a","targets":[|{},|]}}`, 3 * maxValues / 2},
		{"complete, objects", "/work/" + id + "/complete", `{"lease_token":1,"output":[|{},|]}`, resultBody},
		{"complete, text", "/work/" + id + "/complete", `{"lease_token":1,"output":"|x|"}`, resultBody},
		{"complete, members", "/work/" + id + "/complete", `{|"":1,|"output":1}`, smallBody},
		{"complete many, outputs", "/work/complete", `{"items":[{"id":"` + id + `","lease_token":1,"output":[|{},|]}]}`, resultBody},
		{"complete many, maximum of objects", "/work/complete", `{"items":[|{},|]}`, 3 * maxValues / 2},
		{"publish, objects", "/events", `{"event_type":"a","data":[|{},|]}`, MaxData},
		{"publish, text", "/events", `{"event_type":"a","data":"|x|"}`, MaxData},
		{"publish, scope", "/events", `{"event_type":"a","data":1,"scope":[|1,|]}`, maxEnvelopeMember},
		{"publish, beside the data", "/events", `{"event_type":"a","data":1,"x":[|{},|]}`, 3 * maxValues / 2},
		{"publish, too much beside the data", "/events", `{"event_type":"a","data":1,"x":[|{},|]}`, MaxData},
		{"test, text", "/sources/a/test", `{"body":"|x|"}`, 4 << 20},
		{"test, headers", "/sources/a/test", `{"headers":{|"":[],|"a":[]}}`, configBody},
		{"test, lists", "/sources/a/test", `{"headers":{"a":[|1,|1]}}`, 2 * maxValues},
	} {
		part := strings.Split(c.fill, "|")
		units := strings.Repeat(part[1], (c.size-len(part[0])-len(part[2]))/len(part[1]))
		if part[2][0] == ']' || part[2][0] == '}' { // no trailing comma
			units = strings.TrimSuffix(units, ",")
		}
		body := part[0] + units + part[2]
		item := api.OpenAPI().Paths[strings.NewReplacer("/a/", "/{slug}/", id, "{id}").Replace(strings.Replace(base, "acme", "{tenant}", 1)+c.path)]
		cost := item.Post.Metadata[costKey].(func(int64) int64)
		send := func() *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), "POST", base+c.path, io.NopCloser(strings.NewReader(body)))
			r.ContentLength = int64(len(body))
			r.Header.Set("Authorization", "Bearer the admin's")
			a := httptest.NewRecorder()
			e.ServeHTTP(a, r)
			return a
		}
		send()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		a := send()
		runtime.ReadMemStats(&after)
		allocated, limit := int64(after.TotalAlloc-before.TotalAlloc), requestMemory+cost(int64(len(body)))
		t.Logf("%-40s %d: %8d bytes allocated %9d, %5.1f per byte, %5.1f allowed", c.claim, a.Code, len(body), allocated, float64(allocated)/float64(len(body)), float64(limit)/float64(len(body)))
		if allocated > limit*raceMemoryFactor {
			t.Errorf("%s: %d bytes allocated %d bytes, want at most %d", c.claim, len(body), allocated, limit)
		}
		if a.Code == http.StatusServiceUnavailable || a.Code == http.StatusTooManyRequests {
			t.Errorf("%s: answered %d: %s", c.claim, a.Code, a.Body)
		}
	}
}

// checkedRoutes checks routes like the real implementation.
type checkedRoutes struct{ RouteExplainer }

func (checkedRoutes) CheckRoute(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (eventhook.Faults, error) {
	return route.Check(ctx, tenant, r)
}
