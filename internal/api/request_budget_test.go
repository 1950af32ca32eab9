package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// budgetHarness is the API on a store whose calls block until the test releases
// them.
type budgetHarness struct {
	api.EventStore
	api.WorkStore
	api.KeyStore
	t      *testing.T
	router *echo.Echo
	keys   map[string]eventhook.Tenant // by hash of the key

	mu      sync.Mutex
	running []string // tenants of the blocked calls, in order
	unblock chan struct{}
	refused map[string]int
	size    int // bytes of the body of every event
	more    string
	reads   []int // most bytes that each read of a body asked for
}

func newBudgetHarness(t *testing.T, limits api.Limits, change ...func(*api.Deps)) *budgetHarness {
	s := &budgetHarness{t: t, router: echo.New(), keys: map[string]eventhook.Tenant{}, unblock: make(chan struct{}), refused: map[string]int{}}
	deps := api.Deps{
		Events: s, Work: s, Keys: s, Limits: limits, OnWorkerAct: func(string, int) {}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		OnRefusal: func(reason string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused[reason]++
		},
	}
	for _, f := range change {
		f(&deps)
	}
	api.Register(s.router, deps)
	return s
}

// key creates a key with the scopes read and work.
func (s *budgetHarness) key(tenant string) string {
	text := api.NewKey()
	hash := sha256.Sum256([]byte(text))
	id := sha256.Sum256([]byte(tenant))
	s.keys[string(hash[:])] = eventhook.Tenant{ID: eventhook.TenantID(id[:16]), Slug: tenant, Status: eventhook.TenantActive}
	return text
}

func (s *budgetHarness) KeyByHash(_ context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	t, ok := s.keys[string(hash)]
	if !ok {
		return eventhook.APIKey{}, t, &eventhook.Error{Kind: eventhook.KindUnauthorized}
	}
	return eventhook.APIKey{ID: eventhook.KeyID(hash[:16]), TenantID: t.ID, Scopes: []eventhook.Scope{eventhook.ScopeRead, eventhook.ScopeWork}}, t, nil
}

// call blocks a call of the store until the test releases it.
func (s *budgetHarness) call(ctx context.Context, tenant eventhook.TenantID) error {
	for _, t := range s.keys {
		if t.ID == tenant {
			s.mu.Lock()
			s.running = append(s.running, t.Slug)
			s.mu.Unlock()
			break
		}
	}
	select {
	case <-s.unblock:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *budgetHarness) Events(ctx context.Context, tenant eventhook.TenantID, _ eventhook.EventFilter) ([]eventhook.Event, error) {
	return nil, s.call(ctx, tenant)
}

func (s *budgetHarness) Event(_ context.Context, tenant eventhook.TenantID, id eventhook.EventID) (eventhook.Event, error) {
	return eventhook.Event{ID: id, TenantID: tenant, BodySize: s.size}, nil
}

func (s *budgetHarness) PayloadStart(ctx context.Context, _ eventhook.EventID, size int) (eventhook.Payload, error) {
	s.mu.Lock()
	s.reads = append(s.reads, size)
	s.mu.Unlock()
	return eventhook.Payload{Headers: []byte("A: b"), Body: []byte("{}" + s.more)}, s.call(ctx, eventhook.TenantID{})
}

func (s *budgetHarness) Complete(ctx context.Context, x eventhook.Execution) (eventhook.Execution, error) {
	return x, s.call(ctx, x.TenantID)
}

// calls returns the tenants whose requests have reached the store since the last
// call, in order.
func (s *budgetHarness) calls() (list []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	list, s.running = s.running, nil
	return list
}

// start sends n requests, one after the other, without waiting for the responses.
func (s *budgetHarness) start(n int, key, method, path string, body func() io.Reader) *answers {
	all := &answers{t: s.t}
	for range n {
		all.wait.Go(func() {
			var from io.Reader = http.NoBody
			if body != nil {
				from = body()
			}
			r := httptest.NewRequestWithContext(s.t.Context(), method, path, from)
			r.Header.Set("Authorization", "Bearer "+key)
			a := httptest.NewRecorder()
			s.router.ServeHTTP(a, r)
			all.mu.Lock()
			defer all.mu.Unlock()
			all.list = append(all.list, a)
		})
		synctest.Wait()
	}
	return all
}

// answers collects the responses of requests.
type answers struct {
	t    *testing.T
	wait sync.WaitGroup
	mu   sync.Mutex
	list []*httptest.ResponseRecorder
}

// statuses counts the responses by status. It checks that refusals have a
// Retry-After.
func (a *answers) statuses() map[int]int {
	a.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := map[int]int{}
	for _, response := range a.list {
		n[response.Code]++
		if response.Code == http.StatusTooManyRequests || response.Code == http.StatusServiceUnavailable {
			var p problem
			if err := json.Unmarshal(response.Body.Bytes(), &p); err != nil || p.Detail == "" || response.Header().Get("Retry-After") == "" {
				a.t.Errorf("answered %d %s with Retry-After %q, want a problem and a Retry-After", response.Code, response.Body, response.Header().Get("Retry-After"))
			}
		}
	}
	return n
}

func (a *answers) want(when string, want map[int]int) {
	a.t.Helper()
	got := a.statuses()
	if len(got) != len(want) {
		a.t.Errorf("%s: answered %v, want %v", when, got, want)
		return
	}
	for status, n := range want {
		if got[status] != n {
			a.t.Errorf("%s: answered %v, want %v", when, got, want)
		}
	}
}

func count(list []string, of string) (n int) {
	for _, one := range list {
		if one == of {
			n++
		}
	}
	return n
}

// TestSlowListsOfATenantLeaveSlotsFree: a tenant with many slow lists leaves slots
// for other tenants, which are served next.
func TestSlowListsOfATenantLeaveSlotsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{ListConns: 4})
		loud, quiet, third := s.key("loud"), s.key("quiet"), s.key("third")
		lists := s.start(50, loud, "GET", T("loud")+"/events?status=delivered", nil)
		if in := s.calls(); len(in) != 2 {
			t.Fatalf("%d lists of one tenant run, want half of the 4 connections", len(in))
		}
		lists.want("with 2 running and 32 waiting", map[int]int{429: 16})
		s.start(3, quiet, "GET", T("quiet")+"/events", nil)
		if in := s.calls(); !slices.Equal(in, []string{"quiet", "quiet"}) {
			t.Fatalf("another tenant's lists: %v run, want 2 at once", in)
		}
		s.start(1, third, "GET", T("third")+"/events", nil)
		for range 3 { // release three slots of any tenant
			s.unblock <- struct{}{}
		}
		if in := s.calls(); len(in) != 3 || count(in, "third") != 1 {
			t.Errorf("then %v run, want the third tenant among them", in)
		}
		time.Sleep(6 * time.Second) // the longest wait for a slot is 5 s
		synctest.Wait()
		if s.refused["no_slot_in_time"] == 0 || s.refused["queue_full"] != 16 {
			t.Errorf("refused %v, want 16 for a full queue and some for the timeout", s.refused)
		}
		time.Sleep(10 * time.Second) // no read takes longer than 10 s
		if n := lists.statuses(); n[200]+n[429]+n[503] != 50 {
			t.Errorf("answered %v, want all 50", n)
		}
	})
}

// TestLargeBodiesAreBounded sends many large bodies of one tenant.
func TestLargeBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{})
		loud, quiet := s.key("loud"), s.key("quiet")
		path := func(tenant string) string {
			return T(tenant) + "/work/" + eventhook.NewID[eventhook.Execution](noon).String() + "/complete"
		}
		text := `{"lease_token":1,"output":[` + strings.TrimSuffix(strings.Repeat("{},", 300_000), ",") + `]}`
		large := func() io.Reader { return strings.NewReader(text) }
		small := func() io.Reader { return strings.NewReader(`{"lease_token":1}`) }
		all := s.start(40, loud, "POST", path("loud"), large)
		if in := s.calls(); len(in) != 2 {
			t.Errorf("%d large bodies of one tenant are decoded at once, want 2", len(in))
		}
		all.want("with 2 being decoded and 32 waiting", map[int]int{429: 6})
		s.start(1, quiet, "POST", path("quiet"), small)
		s.start(1, quiet, "POST", path("quiet"), large)
		if in := s.calls(); !slices.Equal(in, []string{"quiet", "quiet"}) {
			t.Errorf("%v reached the store, want both requests of the other tenant", in)
		}
		s.start(1, loud, "POST", path("loud"), small)
		if in := s.calls(); len(in) != 1 {
			t.Errorf("a small request beside large ones: %v, want it served", in)
		}
		for s.release() > 0 {
			if in := s.calls(); len(in) > 2 {
				t.Errorf("%d large bodies were decoded at once, want at most 2", len(in))
			}
		}
		all.want("when all are processed", map[int]int{200: 34, 429: 6})
		again := s.start(1, loud, "POST", path("loud"), large)
		s.release()
		again.want("when the other requests have ended", map[int]int{200: 1})
	})
}

// release releases the blocked calls of the store and returns their number.
func (s *budgetHarness) release() (n int) {
	synctest.Wait()
	for {
		select {
		case s.unblock <- struct{}{}:
			n++
		default:
			synctest.Wait()
			return n
		}
	}
}

// TestAnnouncedBytesAreNotReserved announces large bodies and does not send them.
func TestAnnouncedBytesAreNotReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{})
		key := s.key("acme")
		path := T("acme") + "/work/" + eventhook.NewID[eventhook.Execution](noon).String() + "/complete"
		var bodies []*io.PipeWriter
		stalled := s.start(5, key, "POST", path, func() io.Reader {
			r, w := io.Pipe()
			bodies = append(bodies, w)
			return r
		})
		s.start(1, key, "POST", path, func() io.Reader { return strings.NewReader(`{"lease_token":1}`) })
		if in := s.calls(); len(in) != 1 {
			t.Errorf("beside stalled bodies: %v, want the request served", in)
		}
		for _, w := range bodies {
			w.CloseWithError(io.ErrUnexpectedEOF)
		}
		stalled.want("when the connections break", map[int]int{400: 5})
		s.release()
	})
}

func TestLimitsOfRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{TenantRequests: 6, KeyRequests: 4})
		one, two, other := s.key("acme"), s.key("acme"), s.key("umbrella")
		path := T("acme") + "/work/" + eventhook.NewID[eventhook.Execution](noon).String() + "/complete"
		small := func() io.Reader { return strings.NewReader(`{"lease_token":1}`) }
		s.start(6, one, "POST", path, small).want("of one key", map[int]int{429: 2})
		s.start(6, two, "POST", path, small).want("of another key of the tenant", map[int]int{429: 4})
		s.start(1, other, "POST", T("umbrella")+"/work/"+eventhook.NewID[eventhook.Execution](noon).String()+"/complete", small)
		if in := s.calls(); len(in) != 7 || in[6] != "umbrella" {
			t.Errorf("%v reached the store, want 6 of one tenant and then the other tenant", in)
		}
		if s.refused["key_requests"] != 2 || s.refused["tenant_requests"] != 4 {
			t.Errorf("refused %v, want 2 for the key and 4 for the tenant", s.refused)
		}
		s.release()
		s.start(4, one, "POST", path, small).want("when these requests have ended", map[int]int{})
		s.release()
	})
}

// TestStoredBodiesAreReturnedWithinTheBudget reads large events of one tenant.
func TestStoredBodiesAreReturnedWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{ListConns: 8})
		s.size = eventhook.LargestMaxBodyBytes
		loud, quiet := s.key("loud"), s.key("quiet")
		path := func(tenant string) string {
			return T(tenant) + "/events/" + eventhook.NewID[eventhook.Event](noon).String() + "/payload"
		}
		s.start(4, loud, "GET", path("loud"), nil).want("beside a request that reads", map[int]int{429: 3})
		read := s.start(1, quiet, "GET", path("quiet"), nil)
		read.want("while it reads", map[int]int{})
		s.release()
		read.want("in the end", map[int]int{200: 1})
	})
}

// TestPartsOfStoredBodiesCostTheirSize reads small parts of large events.
func TestPartsOfStoredBodiesCostTheirSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{ListConns: 16})
		s.size = eventhook.LargestMaxBodyBytes
		key := s.key("acme")
		path := T("acme") + "/events/" + eventhook.NewID[eventhook.Event](noon).String()
		s.start(4, key, "GET", path+"/payload?max_bytes=1000", nil).want("beginnings of payloads", map[int]int{})
		if want := []int{1000, 1000, 1000, 1000}; !slices.Equal(s.reads, want) {
			t.Errorf("bytes read, got %v, want %v", s.reads, want)
		}
		s.release()
	})
}

// TestMemoryOfAPageIsHeldUntilItIsWritten reads payloads for a page, which uses the answers.
func TestMemoryOfAPageIsHeldUntilItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{Bytes: 16 << 20, TenantBytes: 5 << 20, KeyBytes: 4 << 20, KeyRequests: 2})
		s.size = 1 << 20
		close(s.unblock) // calls of the store do not wait
		key := s.key("acme")
		path := T("acme") + "/events/" + eventhook.NewID[eventhook.Event](noon).String() + "/payload"
		read := func(memory *api.HeldMemory) int { return s.readAs(key, memory, path).Code }
		var page api.HeldMemory
		for i := range 3 { // 2 MiB each, beyond the limit of the key; but a page is one request
			if got := read(&page); got != http.StatusOK {
				t.Errorf("call %d of the page, answered %d, want 200", i+1, got)
			}
		}
		if got := read(nil); got != http.StatusTooManyRequests {
			t.Errorf("another request beside the page, answered %d, want 429", got)
		}
		page.Release()
		for i := range 3 {
			if got := read(&page); got != http.StatusOK {
				t.Errorf("request %d after the page, answered %d, want 200", i+1, got)
			}
			if got := read(nil); got != http.StatusOK {
				t.Errorf("request %d without a page, answered %d, want 200", i+1, got)
			}
		}
	})
}

// readAs sends a request of a session for a page.
func (s *budgetHarness) readAs(key string, memory *api.HeldMemory, path string) *httptest.ResponseRecorder {
	hash := sha256.Sum256([]byte(key))
	ctx := api.WithSession(s.t.Context(), api.Session{KeyHash: hash[:], Memory: memory})
	a := httptest.NewRecorder()
	s.router.ServeHTTP(a, httptest.NewRequestWithContext(ctx, "GET", path, nil))
	return a
}

// TestPagesHoldTheirAnswers reads answers that are larger than the memory reserved for them, such as
// lists, for many pages at once.
func TestPagesHoldTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{ListConns: 2, TenantBytes: 5 << 20, KeyBytes: 4 << 20})
		s.more = strings.Repeat("x", 2<<20)
		key := s.key("acme")
		path := T("acme") + "/events/" + eventhook.NewID[eventhook.Event](noon).String() + "/payload"
		pages, all := make([]api.HeldMemory, 4), answers{t: t}
		for i := range pages {
			all.wait.Go(func() {
				a := s.readAs(key, &pages[i], path)
				all.mu.Lock()
				defer all.mu.Unlock()
				all.list = append(all.list, a)
			})
		}
		synctest.Wait() // one reads, three wait for its slot
		s.unblock <- struct{}{}
		synctest.Wait() // a second one may have its slot before the first answer is counted
		close(s.unblock)
		if got := all.statuses(); got[http.StatusOK] > 2 || got[http.StatusOK]+got[http.StatusTooManyRequests] != len(pages) {
			t.Errorf("the first answer is too large for the others: answered %v, want at most two with 200, the others with 429", got)
		}
		for i := range pages {
			pages[i].Release()
		}
		var page api.HeldMemory
		if a := s.readAs(key, &page, path); a.Code != http.StatusOK {
			t.Errorf("after the pages, answered %d, want 200", a.Code)
		}
	})
}

// unread is a body that fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestBodiesOfRefusedRequestsAreNotRead covers refusals that do not depend on the
// body.
func TestBodiesOfRefusedRequestsAreNotRead(t *testing.T) {
	s := newBudgetHarness(t, api.Limits{})
	key := s.key("acme")
	for _, c := range []struct {
		claim, key, path string
		length           int64
		want             int
	}{
		{"without a key", "", T("acme") + "/work/claim", 10, http.StatusUnauthorized},
		{"with a wrong key", api.NewKey(), T("acme") + "/work/claim", 10, http.StatusUnauthorized},
		{"of another tenant", key, T("umbrella") + "/work/claim", 10, http.StatusNotFound},
		{"without the scope", key, T("acme") + "/events", 10, http.StatusForbidden},
		{"announced too large", key, T("acme") + "/work/claim", 64<<10 + 1, http.StatusRequestEntityTooLarge},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", c.path, unread{t})
		r.ContentLength = c.length
		r.Header.Set("Authorization", "Bearer "+c.key)
		a := httptest.NewRecorder()
		s.router.ServeHTTP(a, r)
		if a.Code != c.want {
			t.Errorf("%s: answered %d, want %d", c.claim, a.Code, c.want)
		}
	}
}

// TestBytesInFlightAreBounded reaches the limits of a key, of a tenant and of the
// instance with requests of 1.4 MB each, decoded.
func TestBytesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{Bytes: 8 << 20, TenantBytes: 3 << 20, KeyBytes: 2 << 20})
		body := func() io.Reader {
			return strings.NewReader(`{"lease_token":1,"output":"` + strings.Repeat("x", 10_000) + `"}`)
		}
		send := func(n int, tenant, key string) *answers {
			return s.start(n, key, "POST", T(tenant)+"/work/"+eventhook.NewID[eventhook.Execution](noon).String()+"/complete", body)
		}
		send(3, "acme", s.key("acme")).want("of one key", map[int]int{429: 2})
		send(1, "acme", s.key("acme")).want("of another key", map[int]int{})
		send(1, "acme", s.key("acme")).want("beyond the limit of the tenant", map[int]int{429: 1})
		last := s.key("last")
		for _, tenant := range []string{"b", "c"} {
			send(1, tenant, s.key(tenant)).want("of another tenant", map[int]int{})
		}
		send(1, "last", last).want("beyond the limit of the instance", map[int]int{503: 1})
		list := s.start(1, last, "GET", T("last")+"/events", nil)
		list.want("a small request", map[int]int{})
		if in := s.calls(); !slices.Equal(in, []string{"acme", "acme", "b", "c", "last"}) {
			t.Errorf("%v reached the store", in)
		}
		if s.refused["key_bytes"] != 2 || s.refused["tenant_bytes"] != 1 || s.refused["instance_bytes"] != 1 {
			t.Errorf("refused %v, want 2 for the key, 1 for the tenant and 1 for the instance", s.refused)
		}
		s.release()
		list.want("in the end", map[int]int{200: 1})
		send(1, "last", last).want("when the other requests have ended", map[int]int{})
		s.release()
	})
}
