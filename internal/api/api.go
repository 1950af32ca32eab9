// Package api is the management API. A tenant's engineers and workers use it for
// sources, routes, events, subscriptions, work and promises; the platform team uses
// it for tenants and keys. The package also serves the API's OpenAPI document and a
// page made of it.
//
// It stores nothing but short-lived caches of keys and tenants, and contains no SQL.
// Authorization is decided in one place before the rest of a request is read: 401
// without a valid key, then 404 for another tenant, then 403 for a missing scope.
// Every error is a problem document (RFC 9457); internal errors are logged and their
// cause is not revealed.
//
// The memory and the number of concurrent requests are limited per key, per tenant
// and per instance: see Limits. A request beyond a limit gets 429 or 503 with
// Retry-After.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/verify"
)

// Deps are the dependencies of the API.
type Deps struct {
	Events     EventStore
	Work       WorkStore
	Promises   PromiseStore
	Admin      AdminStore
	Keys       KeyStore
	Handshakes HandshakeStore
	Rejections RejectionStore
	Explain    ExplainStore
	Routes     RouteExplainer
	Sources    SourceStore
	RouteStore RouteStore
	// CheckEngine returns why this program cannot send to the engine of a target; nil: it can send to
	// every engine.
	CheckEngine func(eventhook.Target) error
	EventTypes  EventTypeStore
	Agents      AgentStore
	Heartbeats  *AgentHeartbeats // of agents

	AgentDeliveries AgentDeliveries

	Configuration Configuration

	Lookups     LookupStore
	DeadGroups  DeadGroupStore
	Sender      EventSender
	PortalLinks PortalLinkStore
	PortalKey   []byte // signs links to the portal; the same on all instances

	Subscriptions SubscriptionStore
	Deliveries    DeliveryStore
	Replays       ReplayStore
	Publisher     Publisher
	Receivers     Receivers
	Quotas        Quotas // nil: published events do not count towards quotas

	Usage      UsageStore // nil: statistics are zero
	Overviews  OverviewStore
	System     SystemStatus       // of this instance
	PublicKeys verify.Keys        // public keys of providers; may be nil
	PublicURL  string             // the gateway as clients reach it
	CursorKey  []byte             // key of the MAC in cursors; the same on all instances
	AdminKeys  []eventhook.Secret // several during a rotation, the newest first
	// AdminReadKeys may call every operation that changes nothing.
	AdminReadKeys []eventhook.Secret
	OnWorkerAct   func(act string, executions int) // called for each act of a worker; for metrics
	// ClientAddress returns the address of a client; nil: unknown, so that wrong keys
	// are not limited.
	ClientAddress func(*http.Request) netip.Addr
	KeyUses       *KeyUses            // records the last use of keys; nil: a new one
	OnRefusal     func(reason string) // called with the reason of a refusal, one of a fixed set; may be nil
	Stopping      <-chan struct{}     // closed at shutdown: long polls return at once
	Log           *slog.Logger
	Now           func() time.Time
	Version       string
	Limits        Limits // the zero value is the default
}

type server struct {
	Deps
	keys       *keyring
	wrongKeys  *wrongKeyLimiter
	schemas    huma.Registry
	streams    streamLimiter
	waitQueues *waitQueues
	budget     *budget
	slots      classSlots
	bodies     map[reflect.Type]*huma.Schema // schemas of bodies that the framework decodes, by bodyOf; filled by Register

	failureLines *rate.Limiter // limits log lines about requests that failed because a part was not available

	accounts *snapshot.Cache[string, *usage.Account] // by tenant slug
}

// base is the path of a tenant's API, T in the contract.
const base = "/api/tenants/{tenant}/eventhook"

// The framework's error constructor and validation settings are globals. They are set
// once and not in Register, which may run concurrently.
func init() {
	huma.NewError, huma.ValidateStrictCasing, huma.DefaultArrayNullable = newProblem, true, false
}

// Register adds the API to a router and returns it with its OpenAPI document.
func Register(e *echo.Echo, d Deps) huma.API {
	s := &server{Deps: d, keys: newKeyring(d), waitQueues: newWaitQueues(d.Stopping, d.Now),
		accounts: newAccounts(d.Keys, d.Quotas, d.Now), budget: newBudget(d.Limits.withDefaults()), bodies: map[reflect.Type]*huma.Schema{}}
	s.slots = newClassSlots(s.budget.Limits)
	const logLinesPerSecond, logLinesBurst = 5, 20
	s.failureLines = rate.NewLimiter(logLinesPerSecond, logLinesBurst)
	s.wrongKeys = newWrongKeyLimiter(s.keys, d.ClientAddress != nil, d.Now)
	if s.KeyUses == nil {
		s.KeyUses = NewKeyUses()
	}
	config := huma.DefaultConfig("Eventhook", d.Version)
	config.CreateHooks = nil                                             // no $schema members in answers
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", "" // see docs.go
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "An API key, ehk_…. The roles that an operation lists are the scopes of a tenant's key, one of which is required; admin is the admin key."}}
	config.Formats = s.boundedJSON(config.Formats)
	api := humaecho.New(e, config)
	s.schemas = api.OpenAPI().Components.Schemas
	api.UseMiddleware(s.authorize(api))
	s.registerEvents(api)
	s.registerPublish(api)
	s.registerSources(api)
	s.registerRoutes(api)
	s.registerRejections(api)
	s.registerEventTypes(api)
	s.registerSubscriptions(api)
	s.registerDeliveries(api)
	s.registerAgents(api)
	s.registerAgentDeliveries(api)
	s.registerExplain(api)
	s.registerProviders(api)
	s.registerWork(api)
	s.registerPromises(api)
	s.registerHandshake(api)
	s.registerOverview(api)
	s.registerSystem(api)
	s.registerTenants(api)
	s.registerConfiguration(api)
	s.registerKeys(api)
	s.registerLookup(api)
	s.registerPortalLinks(api)
	s.registerAudit(api)
	s.registerAdminLists(api)
	s.registerIdentity(api)
	completeDocument(api.OpenAPI())
	registerDocs(e, api.OpenAPI(), d.PublicURL)
	return api
}

// HandleError responds to requests for unknown paths and methods, and to requests that panicked.
// The response to a panic has the request id that was set in its header.
func HandleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	status := http.StatusInternalServerError
	if he, ok := err.(*echo.HTTPError); ok { //nolint:errorlint // echo returns it unwrapped
		status = he.Code
	}
	p := &problem{Title: http.StatusText(status), Status: status}
	switch status {
	case http.StatusInternalServerError:
		p.Detail, p.RequestID = internalError, c.Response().Header().Get(ingest.RequestIDHeader)
	case http.StatusNotFound:
		p.Detail = "No operation has this path."
	case http.StatusMethodNotAllowed:
		p.Detail = "Method not allowed: use " + allowedMethods(c.Response().Header().Get(echo.HeaderAllow)) + "."
	}
	c.Response().Header().Set(echo.HeaderContentType, problemType)
	_ = c.JSON(status, p) // the client may have disconnected
}

// allowedMethods returns the methods of an Allow header, without OPTIONS, as text.
func allowedMethods(allow string) string {
	methods := slices.DeleteFunc(strings.Split(allow, ", "), func(m string) bool { return m == http.MethodOptions })
	return cmp.Or(strings.Join(methods, " or "), "another method")
}

// operation describes an operation of the API.
type operation struct {
	id                    string // operationId, such as list-events; names the method of the Go client
	method, path, summary string
	about                 string          // the description, without the required key; may be ""
	scope                 eventhook.Scope // "" for the admin key only
	status                int             // on success; 0: 200
	tag                   string
	maxBody               int64                   // limit of a request's body in bytes; 0: smallBody
	class                 class                   // "": derived from method and scope, see classOf
	skipsShape            bool                    // the body is a document, whose shape the handler checks
	isFlat                bool                    // the document has no lists with checked elements, except for very short ones
	cost                  func(bytes int64) int64 // memory for a body of that size; nil: see bodyCost
	// instead handles authorized requests in place of the framework. It calls next, with
	// the body unread, for requests that the framework should handle; nil: all of them.
	instead    func(ctx huma.Context, next func(huma.Context))
	alsoStatus int  // status of another success with the same response
	alsoFails  int  // status of an error that other operations do not return
	isRaw      bool // the response is bytes of any content type
	isOfAgent  bool // only the key of an agent may call it
	isOwn      bool // tells the caller about itself: every valid key may call it
	isAccept   bool // creates work, so a tenant that is not active is refused as for publishing
}

// register adds an operation, whose handler receives the caller. Errors of handlers
// become problems here.
func register[I, O any](s *server, api huma.API, op operation, handle func(context.Context, caller, *I) (*O, error)) {
	var instead huma.Middlewares
	if op.instead != nil {
		instead = huma.Middlewares{op.instead}
	}
	huma.Register(api, huma.Operation{
		Middlewares:      instead,
		OperationID:      op.id,
		Method:           op.method,
		Path:             op.path,
		Summary:          op.summary,
		Description:      op.description(),
		Tags:             []string{op.tag},
		DefaultStatus:    op.status,
		Security:         []map[string][]string{{"key": op.scopes()}},
		Metadata:         map[string]any{scopeKey: op.scope, costKey: op.bodyCost, classKey: op.classOf(), acceptKey: op.isAccept, ownKey: op.isOwn},
		Errors:           op.failures(),
		MaxBodyBytes:     op.bodyLimit() + 1, // the framework refuses bodies that reach the limit
		BodyReadTimeout:  bodyGrace,          // extended by body while bytes arrive
		SkipValidateBody: op.skipsShape,
	}, func(ctx context.Context, in *I) (*O, error) {
		out, err := runInClass(ctx, callerOf(ctx), op.classOf(), in, handle)
		if err != nil {
			return nil, s.problem(ctx, op, err)
		}
		return out, nil
	})
	described := op.describeAnswers(api.OpenAPI())
	if described.RequestBody != nil && !op.skipsShape {
		s.bodies[bodyOf(reflect.TypeFor[I]())] = described.RequestBody.Content["application/json"].Schema
	}
}

// describeAnswers adds to the responses what the framework cannot derive from Go types.
func (o operation) describeAnswers(doc *huma.OpenAPI) *huma.Operation {
	item := doc.Paths[o.path]
	of := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch,
		http.MethodDelete: item.Delete}[o.method]
	retryAfter(of.Responses)
	if of.RequestBody == nil {
		delete(of.Responses, strconv.Itoa(http.StatusRequestTimeout))
	}
	success := strconv.Itoa(cmp.Or(o.status, http.StatusOK))
	if o.alsoStatus != 0 {
		also := *of.Responses[success]
		also.Description = http.StatusText(o.alsoStatus)
		of.Responses[strconv.Itoa(o.alsoStatus)] = &also
	}
	if o.isRaw {
		bytes := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		of.Responses[success].Content = map[string]*huma.MediaType{"*/*": bytes, "application/octet-stream": bytes}
		of.Responses[success].Description = "The exact bytes with their original content type; application/octet-stream if the request had none."
	}
	return of
}

// failures returns the statuses of errors that an operation may return, besides 500.
func (o operation) failures() []int {
	all := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	switch o.method {
	case http.MethodPost:
		all = append(all, http.StatusRequestTimeout, http.StatusConflict, http.StatusUnsupportedMediaType)
	case http.MethodPut, http.MethodPatch:
		all = append(all, http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnsupportedMediaType)
	case http.MethodDelete:
		all = append(all, http.StatusConflict, http.StatusPreconditionFailed)
	}
	if o.alsoFails != 0 {
		all = append(all, o.alsoFails)
	}
	return all
}

// description returns the operation's description with the key that it requires.
func (o operation) description() string {
	needs := "Requires the admin key."
	if o.isOwn {
		needs = "Requires a key, with any scope."
	} else if o.isOfAgent {
		needs = "Requires the key of an agent, which has the scope " + string(o.scope) + "."
	} else if o.scope != "" {
		needs = "Requires a key with the scope " + string(o.scope) + ", or the admin key."
	}
	return strings.TrimSpace(o.about + " " + needs)
}

// scopes returns the scopes one of which a tenant's key must have; an empty list permits
// every key. The admin key has all.
func (o operation) scopes() []string {
	if o.isOwn {
		return []string{}
	}
	if o.scope == "" {
		return []string{"admin"}
	}
	return []string{string(o.scope)}
}
