package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/outbound/replay"
	"github.com/eventhook/eventhook/verify"
)

var (
	_ api.EventStore     = (*pg.DB)(nil)
	_ api.WorkStore      = (*pg.DB)(nil)
	_ api.PromiseStore   = (*pg.DB)(nil)
	_ api.AdminStore     = (*pg.DB)(nil)
	_ api.KeyStore       = (*pg.DB)(nil)
	_ api.RejectionStore = (*pg.DB)(nil)
	_ api.ExplainStore   = (*pg.DB)(nil)
	_ api.SourceStore    = (*pg.DB)(nil)
	_ api.RouteStore     = (*pg.DB)(nil)
	_ api.EventTypeStore = (*pg.DB)(nil)
	_ api.AgentStore     = (*pg.DB)(nil)

	_ api.AgentSightingStore = (*pg.DB)(nil)

	_ api.UsageStore = (*pg.DB)(nil)
)

// TestMain sets a time zone far from UTC, which responses must not show.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("far away", 5*60*60)
	pgtest.Main(m)
}

// operator is the actor of the configuration in tests.
var operator = eventhook.Actor{Type: eventhook.ActorOperator, Name: "test"}

// noon is the time at which every test starts.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("elsewhere", -3*60*60))

const (
	adminKey    = "ehk_the-admin-key-of-these-tests"
	testTimeout = time.Minute // for events that happen at once unless the code is broken
)

// T is the path of a tenant's API.
func T(tenant string) string { return "/api/tenants/" + tenant + "/eventhook" }

// plainSealer is a Sealer that does not encrypt.
type plainSealer struct{}

func (plainSealer) Seal(s, _ string) (string, error) { return "enc2:" + s, nil }
func (plainSealer) Open(s, _ string) (string, error) {
	if strings.Contains(s, lostKeyMarker) {
		return "", errors.New("sealed with a key that is not configured")
	}
	return strings.TrimPrefix(s, "enc2:"), nil
}

const portalKey = "the key of links to the portal"

// lostKeyMarker is contained in sealed texts that cannot be decrypted.
const lostKeyMarker = "the-key-is-lost"

// fixture is the API on a database with the tenants acme and umbrella. Acme has the
// sources crm and shop; crm has a route.
type fixture struct {
	*testing.T
	clock         *clocktest.Clock
	db            *pg.DB
	router        *echo.Echo
	openAPI       *huma.OpenAPI
	stopping      chan struct{}
	worked        map[string]int
	routes        *routes
	configuration *configuration
	replays       replays
	*subscribers
	acme  eventhook.TenantID
	crm   eventhook.SourceID
	shop  eventhook.SourceID
	route eventhook.Route
}

func setUp(t *testing.T, change ...func(*api.Deps)) *fixture {
	t.Helper()
	t.Parallel()
	r := &fixture{T: t, clock: clocktest.New(noon), stopping: make(chan struct{}), worked: map[string]int{}, routes: &routes{}, configuration: &configuration{}}
	dsn := pgtest.New(t)
	db, err := pg.Open(t.Context(), dsn, pg.Options{AcceptConns: 2, WorkConns: 4, KeyTTL: 24 * time.Hour, Sealer: plainSealer{}, Describe: verify.Describe,
		Log: slog.New(slog.DiscardHandler), Now: r.clock.Now})
	r.must(err)
	t.Cleanup(db.Close)
	r.db = db
	conn, err := pgx.Connect(t.Context(), dsn)
	r.must(err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	r.subscribers = &subscribers{DB: db, t: t, clock: r.clock, conn: conn, first: map[string]*eventhook.Event{}}
	r.configure()
	r.deleteSystemEvents()
	var mu sync.Mutex
	r.replays = replays{db, &replay.Worker{Store: db, Retention: 14 * 24 * time.Hour, Log: slog.New(slog.DiscardHandler), Now: r.clock.Now}}
	deps := api.Deps{
		Events: db, Rejections: db, Work: db, Promises: db, Admin: db, Keys: db, Handshakes: db, AdminKeys: []eventhook.Secret{eventhook.NewSecret(adminKey)},
		Sources: db, RouteStore: db, EventTypes: db, Usage: db, Agents: db, Heartbeats: r.heartbeats(),
		Subscriptions: r.subscribers, Deliveries: r.subscribers, Replays: r.replays, Publisher: r.subscribers, Receivers: r.receivers(t),
		Lookups: db, DeadGroups: db, Sender: replay.Sender{Store: db}, PortalLinks: db, PortalKey: []byte(portalKey),
		Configuration: r.configuration, Explain: db, Routes: r.routes, PublicURL: "https://hooks.example/",
		OnWorkerAct: func(act string, n int) {
			mu.Lock()
			defer mu.Unlock()
			r.worked[act] += n
		},
		Stopping: r.stopping, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: r.clock.Now, Version: "test",
	}
	for _, c := range change {
		c(&deps)
	}
	r.router = echo.New()
	r.router.HTTPErrorHandler = api.HandleError
	r.router.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: func(_ echo.Context, err error, stack []byte) error {
		t.Errorf("a request panicked: %v\n%s", err, stack)
		return err
	}}))
	r.openAPI = api.Register(r.router, deps).OpenAPI()
	return r
}

// heartbeats returns the running heartbeats of agents.
func (r *fixture) heartbeats() *api.AgentHeartbeats {
	h := api.NewAgentHeartbeats(r.db, r.clock.Now)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	r.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return h
}

// subtest returns the fixture for a subtest.
func (r *fixture) subtest(t *testing.T) *fixture {
	part := *r
	part.T = t
	return &part
}

func (r *fixture) configure() {
	r.Helper()
	source := func(slug string) eventhook.Source {
		return eventhook.Source{Slug: slug, Name: slug, Verifier: eventhook.NewSecret(`{"verifier":{"type":"none"}}`), IsEnabled: true}
	}
	for _, c := range []eventhook.TenantConfig{
		{Tenant: eventhook.Tenant{Slug: "umbrella", Name: "Umbrella"}},
		{Tenant: eventhook.Tenant{Slug: "acme", Name: "Acme"}, Sources: []eventhook.SourceConfig{
			{Source: source("crm"), Routes: []eventhook.Route{{Name: "all", IsEnabled: true,
				Targets: []eventhook.Target{{Type: eventhook.TargetTask, Settings: []byte(`{"task_kind":"build"}`)}}}}},
			{Source: source("shop")},
		}},
	} {
		_, err := r.db.ApplyTenant(r.Context(), operator, c, pg.ApplyOptions{})
		r.must(err)
	}
	crm, err := r.db.FindSource(r.Context(), "acme", "crm")
	r.must(err)
	shop, err := r.db.FindSource(r.Context(), "acme", "shop")
	r.must(err)
	r.acme, r.crm, r.shop = crm.TenantID, crm.ID, shop.ID
	routed, err := r.db.SourceRouting(r.Context(), r.acme, r.crm)
	r.must(err)
	r.route = routed.Routes[0]
}

// deleteSystemEvents deletes the system events that were published during the setup.
// They are in the default partition.
func (r *fixture) deleteSystemEvents() {
	r.Helper()
	_, err := r.conn.Exec(r.Context(), `TRUNCATE eventhook.event_default, eventhook.event_payload_default`)
	r.must(err)
}

// withoutSystemEvents returns the events of a page except for system events.
func (p page) withoutSystemEvents() (list []map[string]any) {
	for _, e := range p.Items {
		if e["origin"] != "system" {
			list = append(list, e)
		}
	}
	return list
}

func (r *fixture) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// key creates a key of a tenant.
func (r *fixture) key(tenant string, scopes ...eventhook.Scope) (string, eventhook.APIKey) {
	r.Helper()
	return r.keyExpiringAt(tenant, nil, scopes...)
}

func (r *fixture) keyExpiringAt(tenant string, expires *time.Time, scopes ...eventhook.Scope) (string, eventhook.APIKey) {
	r.Helper()
	t, err := r.db.Tenant(r.Context(), tenant)
	r.must(err)
	text := api.NewKey()
	hash := sha256.Sum256([]byte(text))
	k, err := r.db.CreateKey(r.Context(), operator, eventhook.APIKey{TenantID: t.ID, Name: "test", Prefix: text[:8], Scopes: scopes, ExpiresAt: expires}, hash[:])
	r.must(err)
	return text, k
}

// answer is a response.
type answer struct {
	*httptest.ResponseRecorder
	t *testing.T
}

// call sends a request with a JSON body, a raw body (string) or no body (nil).
func (r *fixture) call(key, method, path string, body any) *answer {
	r.Helper()
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		raw, err = json.Marshal(b)
		r.must(err)
	}
	return r.send(r.Context(), key, method, path, raw)
}

func (r *fixture) send(ctx context.Context, key, method, path string, body []byte) *answer {
	r.Helper()
	req := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return r.do(req)
}

func (r *fixture) do(req *http.Request) *answer {
	r.Helper()
	a := &answer{httptest.NewRecorder(), r.T}
	r.router.ServeHTTP(a, req)
	a.checkTimes(req.Method + " " + req.URL.Path)
	return a
}

// admin sends a request with the admin key.
func (r *fixture) admin(method, path string, body any) *answer {
	r.Helper()
	return r.call(adminKey, method, path, body)
}

var timeInJSON = regexp.MustCompile(`"\w+_(at|until)":"[^"]*"`)

// checkTimes checks that all times in a response are RFC 3339 in UTC.
func (a *answer) checkTimes(what string) {
	a.t.Helper()
	for _, at := range timeInJSON.FindAllString(a.Body.String(), -1) {
		if !strings.HasSuffix(at, `Z"`) {
			a.t.Errorf("%s: got the time %s, want UTC", what, at)
		}
	}
}

// want checks the status, and that a failure is a complete problem.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.Code != status {
		a.t.Fatalf("answered %d %s, want %d", a.Code, a.Body, status)
	}
	if status >= 400 {
		a.problem()
	}
	return a
}

type problem struct {
	Title, Detail string
	Status        int
	Errors        []struct{ Location, Message string }
}

// problem decodes and checks a problem.
func (a *answer) problem() (p problem) {
	a.t.Helper()
	if got := a.Header().Get("Content-Type"); got != "application/problem+json" {
		a.t.Errorf("answered %d as %q, want application/problem+json", a.Code, got)
	}
	a.into(&p)
	if p.Status != a.Code || p.Title != http.StatusText(a.Code) || p.Detail == "" {
		a.t.Errorf("got the problem %+v, want the status %d, the title %s and a detail", p, a.Code, http.StatusText(a.Code))
	}
	if (a.Code == http.StatusUnauthorized) != (a.Header().Get("WWW-Authenticate") == "Bearer") {
		a.t.Errorf("answered %d with WWW-Authenticate %q", a.Code, a.Header().Get("WWW-Authenticate"))
	}
	return p
}

// locations returns the locations of a problem's faults.
func (p problem) locations() []string {
	var all []string
	for _, f := range p.Errors {
		all = append(all, f.Location)
	}
	return all
}

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body.Bytes(), v); err != nil {
		a.t.Fatalf("answered %s: %v", a.Body, err)
	}
}

// object decodes a JSON object.
func (a *answer) object() map[string]any {
	a.t.Helper()
	var o map[string]any
	a.into(&o)
	return o
}

// event stores an event of crm. It advances the clock by a millisecond, so that ids are
// ordered.
func (r *fixture) event(change ...func(*eventhook.Event)) *eventhook.Event {
	r.Helper()
	r.clock.Advance(time.Millisecond)
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](r.clock.Now()), TenantID: r.acme, SourceID: r.crm, Origin: eventhook.OriginSource,
		EventType: "push", ContentType: "application/json", Lease: eventhook.Lease{Until: r.clock.Now().Add(time.Minute)},
		Payload: eventhook.Payload{Headers: []byte("Content-Type: application/json\r\n"), Body: []byte(`{"n":1}`)},
	}
	for _, c := range change {
		c(e)
	}
	e.BodySize = len(e.Body)
	r.must(r.db.Accept(r.Context(), arrivals(e)))
	return e
}

// arrivals returns events without plans.
func arrivals(events ...*eventhook.Event) []*effects.Arrival {
	list := make([]*effects.Arrival, len(events))
	for i, e := range events {
		list[i] = &effects.Arrival{Event: e}
	}
	return list
}

// settle completes an event with actions.
func (r *fixture) settle(e *eventhook.Event, actions ...effects.PlannedAction) {
	r.Helper()
	for i := range actions {
		a := &actions[i]
		a.ID, a.EventID, a.RouteID, a.RouteName, a.TargetIndex = eventhook.NewID[eventhook.Action](r.clock.Now()), e.ID, r.route.ID, r.route.Name, i
		if x := a.Effect.Execution; x != nil {
			x.EventID, x.TenantID = e.ID, e.TenantID
		}
	}
	generation, _, err := r.db.TenantSubscriptions(r.Context(), e.TenantID)
	r.must(err)
	lost, err := r.db.SettleEvents(r.Context(), []*effects.Settlement{
		{Event: e, Actions: actions, Matched: len(actions), Retry: eventhook.EventRetry, Generation: generation},
	})
	r.must(err)
	if len(lost) > 0 {
		r.Fatal("the event's lease was lost")
	}
}

// plannedExecution returns an action that creates an execution.
func (r *fixture) plannedExecution(typ eventhook.ExecutionType, kind string, change ...func(*eventhook.Execution)) effects.PlannedAction {
	x := &eventhook.Execution{ID: eventhook.NewID[eventhook.Execution](r.clock.Now()), Type: typ, Kind: kind, Queue: "default", MaxAttempts: 3}
	for _, c := range change {
		c(x)
	}
	return effects.PlannedAction{Action: eventhook.Action{TargetType: string(typ)}, Effect: effects.Effect{Execution: x}}
}

// plannedPromise returns an action that settles a promise.
func plannedPromise(o effects.PromiseOutcome) effects.PlannedAction {
	return effects.PlannedAction{Action: eventhook.Action{TargetType: eventhook.TargetPromise}, Effect: effects.Effect{Promise: &o}}
}

// execution creates an execution through an event and returns its id.
func (r *fixture) execution(typ eventhook.ExecutionType, kind string, change ...func(*eventhook.Execution)) string {
	r.Helper()
	a := r.plannedExecution(typ, kind, change...)
	r.settle(r.event(), a)
	return a.Effect.Execution.ID.String()
}

// item is a claimed execution.
type item struct {
	ID, Type, Kind, Queue string
	Input, State          json.RawMessage
	Attempt               int
	LeaseToken            int64     `json:"lease_token"`
	LeaseUntil            time.Time `json:"lease_until"`
	EventID               string    `json:"event_id"`
	Promises              []promiseJSON
}

type promiseJSON struct {
	ID                  string
	IdempotencyKey      string `json:"idempotency_key"`
	Status              string
	Value               json.RawMessage
	Error               *string
	WorkflowExecutionID *string    `json:"workflow_execution_id"`
	ExpiresAt           *time.Time `json:"expires_at"`
	CreatedAt           time.Time  `json:"created_at"`
	SettledAt           *time.Time `json:"settled_at"`
}

func (r *fixture) claim(body any) []item {
	r.Helper()
	var got struct{ Items []item }
	a := r.admin("POST", T("acme")+"/work/claim", body).want(http.StatusOK)
	a.into(&got)
	if got.Items == nil {
		r.Errorf("claim answered %s, want a list of items", a.Body)
	}
	return got.Items
}

// claimOne claims the only due execution.
func (r *fixture) claimOne() item {
	r.Helper()
	items := r.claim(map[string]any{})
	if len(items) != 1 {
		r.Fatalf("claimed %d, want one", len(items))
	}
	return items[0]
}

// page is one page of a list.
type page struct {
	Items      []map[string]any
	NextCursor *string `json:"next_cursor"`
}

func (r *fixture) list(path string) page {
	r.Helper()
	var p page
	r.admin("GET", path, nil).want(http.StatusOK).into(&p)
	return p
}

// ids returns the ids of a page in order.
func (p page) ids() []string {
	ids := []string{}
	for _, i := range p.Items {
		ids = append(ids, fmt.Sprint(i["id"]))
	}
	return ids
}

// sendAsync sends a request in a goroutine and returns a channel for the response.
func (r *fixture) sendAsync(key, method, path string, body string) <-chan *answer {
	done := make(chan *answer, 1)
	go func() { done <- r.send(context.WithoutCancel(r.Context()), key, method, path, []byte(body)) }()
	return done
}

// receive returns the next value of a channel. It fails the test after testTimeout.
func receive[V any](t *testing.T, what string, c <-chan V) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testTimeout):
		t.Fatalf("timed out: %s", what)
	}
	return v
}

// brokenKeys is a KeyStore whose database does not respond.
type brokenKeys struct{}

func (brokenKeys) KeyByHash(context.Context, []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	return eventhook.APIKey{}, eventhook.Tenant{}, errBroken
}

func (brokenKeys) Tenant(context.Context, string) (eventhook.Tenant, error) {
	return eventhook.Tenant{}, errBroken
}

// brokenEvents is an EventStore whose database does not respond.
type brokenEvents struct {
	api.EventStore
	err *error // of Events; nil: errBroken
}

func (b brokenEvents) Events(context.Context, eventhook.TenantID, eventhook.EventFilter) ([]eventhook.Event, error) {
	if b.err != nil {
		return nil, *b.err
	}
	return nil, errBroken
}

var errBroken = errors.New("the database is gone")
