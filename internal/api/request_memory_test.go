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

// noWork refuses all that workers send, once it is decoded.
type noWork struct {
	WorkStore
	PromiseStore
	SourceStore
	ExplainStore
}

func (noWork) Complete(context.Context, eventhook.Execution) (eventhook.Execution, error) {
	return eventhook.Execution{}, eventhook.ErrLeaseLost
}

func (noWork) CompleteAll(_ context.Context, _ eventhook.TenantID, list []eventhook.Execution) ([]error, error) {
	return make([]error, len(list)), nil
}

func (noWork) FindSource(context.Context, string, string) (eventhook.Source, error) {
	return eventhook.Source{}, eventhook.NotFound("source")
}

func (noWork) Source(context.Context, eventhook.TenantID, string) (eventhook.Source, error) {
	return eventhook.Source{}, nil
}

type oneTenant struct{ KeyStore }

func (oneTenant) Tenant(_ context.Context, slug string) (eventhook.Tenant, error) {
	return eventhook.Tenant{ID: eventhook.TenantID{1}, Slug: slug, Status: eventhook.TenantActive}, nil
}

type noPublisher struct{}

func (noPublisher) Publish(_ context.Context, _ eventhook.TenantID, events []*eventhook.Event) []PublishResult {
	outcomes := make([]PublishResult, len(events))
	for i, e := range events {
		outcomes[i].EventID = e.ID
	}
	return outcomes
}

// TestBodiesWeighWhatTheyAreSaidTo counts all bytes that are allocated for a
// request, whether or not a collection could free some of them meanwhile.
func TestBodiesWeighWhatTheyAreSaidTo(t *testing.T) {
	e := echo.New()
	api := Register(e, Deps{Keys: oneTenant{}, Routes: noRoutes{}, Sources: noWork{}, Work: noWork{}, Explain: noWork{}, Publisher: noPublisher{}, AdminKey: eventhook.NewSecret("the admin's"),
		OnWorkerAct: func(string, int) {}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	base := "/api/tenants/acme/eventhook"
	id := eventhook.NewID[eventhook.Execution](time.Now()).String()
	for _, c := range []struct {
		claim, path string
		fill        string // before the units | a unit | after them
		size        int
	}{
		{"claim, objects", "/work/claim", `{"kinds":[|{},|]}`, smallBody},
		{"claim, texts", "/work/claim", `{"kinds":[|"",|]}`, smallBody},
		{"claim, numbers", "/work/claim", `{"kinds":[|1,|]}`, smallBody},
		{"claim, as many numbers as may be", "/work/claim", `{"kinds":[|1,|]}`, 2 * maxFrameworkValues},
		{"claim, unknown members", "/work/claim", `{|"":{},|"x":0}`, smallBody},
		{"source, objects", "/sources", `{"secrets":[|{},|]}`, configBody},
		{"source, numbers", "/sources", `{"secrets":[|1,|]}`, configBody},
		{"source, as many numbers as may be", "/sources", `{"secrets":[|1,|]}`, 2 * maxValues},
		{"source, few numbers", "/sources", `{"secrets":[|1,|]}`, 1000},
		{"source, as many objects as may be", "/sources", `{"secrets":[|{},|]}`, 3 * maxValues / 2},
		{"source, members", "/sources", `{|"":{},|"x":0}`, configBody},
		{"source, as many members as may be", "/sources", `{|"":1,|"x":0}`, 5 * maxValues},
		{"backtest, objects", "/routes/backtest", `{"source":"a","route":{"name":"a","targets":[|{},|]}}`, configBody},
		{"backtest, as many objects as may be", "/routes/backtest", `{"source":"a","route":{"name":"a","targets":[|{},|]}}`, 3 * maxValues / 2},
		{"complete, objects", "/work/" + id + "/complete", `{"lease_token":1,"output":[|{},|]}`, resultBody},
		{"complete, text", "/work/" + id + "/complete", `{"lease_token":1,"output":"|x|"}`, resultBody},
		{"complete, members", "/work/" + id + "/complete", `{|"":1,|"output":1}`, smallBody},
		{"complete many, outputs", "/work/complete", `{"items":[{"id":"` + id + `","lease_token":1,"output":[|{},|]}]}`, resultBody},
		{"complete many, as many objects as may be", "/work/complete", `{"items":[|{},|]}`, 3 * maxValues / 2},
		{"publish, objects", "/events", `{"event_type":"a","data":[|{},|]}`, MaxData},
		{"publish, text", "/events", `{"event_type":"a","data":"|x|"}`, MaxData},
		{"publish, scope", "/events", `{"event_type":"a","data":1,"scope":[|1,|]}`, maxEnvelopeMember},
		{"publish, around", "/events", `{"event_type":"a","data":1,"x":[|{},|]}`, 3 * maxValues / 2},
		{"publish, too much around", "/events", `{"event_type":"a","data":1,"x":[|{},|]}`, MaxData},
		{"test, text", "/sources/a/test", `{"body":"|x|"}`, 4 << 20},
		{"test, headers", "/sources/a/test", `{"headers":{|"":[],|"a":[]}}`, configBody},
		{"test, lists", "/sources/a/test", `{"headers":{"a":[|1,|1]}}`, 2 * maxValues},
	} {
		part := strings.Split(c.fill, "|")
		units := strings.Repeat(part[1], (c.size-len(part[0])-len(part[2]))/len(part[1]))
		if part[2][0] == ']' || part[2][0] == '}' { // no comma before it
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
		took, most := int64(after.TotalAlloc-before.TotalAlloc), requestMemory+cost(int64(len(body)))
		t.Logf("%-40s %d: %8d bytes take %9d, %5.1f each, %5.1f allowed", c.claim, a.Code, len(body), took, float64(took)/float64(len(body)), float64(most)/float64(len(body)))
		if took > most*raceMemoryFactor {
			t.Errorf("%s: %d bytes take %d of memory, want at most %d", c.claim, len(body), took, most)
		}
		if a.Code == http.StatusServiceUnavailable || a.Code == http.StatusTooManyRequests {
			t.Errorf("%s: answered %d: %s", c.claim, a.Code, a.Body)
		}
	}
}

// noRoutes checks routes as they are.
type noRoutes struct{ RouteExplainer }

func (noRoutes) CheckRoute(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (eventhook.Faults, error) {
	return route.Check(ctx, tenant, r)
}
