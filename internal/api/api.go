// Package api is the management API: events, work and promises for a tenant's
// engineers and workers, tenants and keys for the platform team, described by
// the OpenAPI document that it serves. It holds no state but a short cache of
// keys, and no SQL. Who may call what is decided in one place, before a
// request is looked into: 401, then 404 for another tenant, then 403.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/verify"
)

// Deps are what the API works with.
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
	EventTypes EventTypeStore

	Subscriptions SubscriptionStore
	Deliveries    DeliveryStore
	Publisher     Publisher
	Receivers     Receivers
	Quotas        Quotas // nil: what is published is not counted

	Usage      UsageStore  // nil: statistics are zero
	PublicKeys verify.Keys // those that providers publish; may be nil
	PublicURL  string      // how the outside reaches us
	CursorKey  []byte      // marks cursors; nobody can guess it from them
	AdminKey   eventhook.Secret
	Worked     func(act string, executions int) // hears what workers did; for metrics
	// ClientAddress tells who sent a request; nil: nobody knows, and wrong keys
	// are not limited.
	ClientAddress func(*http.Request) netip.Addr
	KeyUses       *KeyUses            // remembers when keys were used; nil: nobody does
	Refused       func(reason string) // hears why callers were refused, in one of a few words; may be nil
	Stopping      <-chan struct{}     // closed: long polls answer at once
	Log           *slog.Logger
	Now           func() time.Time
	Version       string
	Limits        Limits // the zero value is the default
}

type server struct {
	Deps
	keys    *keyring
	guesses *guesses
	schemas huma.Registry
	streams streams
	waits   *waits
	budget  *budget
	gates   gates
	bodies  map[reflect.Type]*huma.Schema // of bodies that the framework decodes, by bodyOf; Register fills it

	accounts *snapshot.Cache[string, *usage.Account] // by the tenant's slug
}

// base is T of the contract.
const base = "/api/tenants/{tenant}/eventhook"

// The framework's errors are ours, and members have one spelling. These are
// globals of the framework's, so that they are set once and not whenever an API
// is made.
func init() {
	huma.NewError, huma.ValidateStrictCasing, huma.DefaultArrayNullable = newProblem, true, false
}

// Register adds the API to a router and returns its OpenAPI document's API.
func Register(e *echo.Echo, d Deps) huma.API {
	s := &server{Deps: d, keys: newKeyring(d.Keys, d.AdminKey, d.Now), waits: newWaits(d.Stopping, d.Now),
		accounts: newAccounts(d.Keys, d.Quotas, d.Now), budget: newBudget(d.Limits.withDefaults()), bodies: map[reflect.Type]*huma.Schema{}}
	s.gates = newGates(s.budget.Limits)
	s.guesses = newGuesses(s.keys, d.ClientAddress != nil, d.Now)
	if s.KeyUses == nil {
		s.KeyUses = NewKeyUses()
	}
	config := huma.DefaultConfig("Eventhook", d.Version)
	config.CreateHooks = nil                                             // no $schema members in answers
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", "" // ours are in docs.go
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
	s.registerExplain(api)
	s.registerProviders(api)
	s.registerWork(api)
	s.registerPromises(api)
	s.registerHandshake(api)
	s.registerTenants(api)
	s.registerKeys(api)
	s.registerAudit(api)
	completeDocument(api.OpenAPI())
	registerDocs(e, api.OpenAPI(), d.PublicURL)
	return api
}

// HandleError answers what no handler answered: unknown paths and methods.
func HandleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	status := http.StatusInternalServerError
	if he, ok := err.(*echo.HTTPError); ok { //nolint:errorlint // echo returns it unwrapped
		status = he.Code
	}
	p := &problem{Title: http.StatusText(status), Status: status, Detail: map[int]string{
		http.StatusNotFound:         "There is nothing at this path.",
		http.StatusMethodNotAllowed: "This path does not take this method.",
	}[status]}
	c.Response().Header().Set(echo.HeaderContentType, problemType)
	_ = c.JSON(status, p) // the client may be gone
}

// operation describes one route of the API.
type operation struct {
	id                    string // by which clients know it, such as list-events
	method, path, summary string
	about                 string          // more than the summary says; may be ""
	scope                 eventhook.Scope // "" for the admin key only
	status                int             // of success; 0: 200
	tag                   string
	maxBody               int64                   // bytes of a request's body; 0: smallBody
	class                 class                   // "": by method and scope, see classOf
	skipsShape            bool                    // its body is a document, which the handler checks
	isFlat                bool                    // the document holds no list whose elements are checked, but for a few
	cost                  func(bytes int64) int64 // memory for a body; nil: see bodyCost
	// instead answers requests that were admitted. What it does not answer it
	// passes on to next, with the body unread; nil: everything.
	instead    func(ctx huma.Context, next func(huma.Context))
	alsoStatus int  // of another success, with the same answer
	isRaw      bool // it answers bytes of any type
}

// register adds an operation whose handler knows who calls. Its errors are
// turned into problems here and nowhere else.
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
		Metadata:         map[string]any{scopeKey: op.scope, costKey: op.bodyCost, classKey: op.classOf()},
		Errors:           op.failures(),
		MaxBodyBytes:     op.bodyLimit() + 1, // the framework refuses what reaches its limit
		BodyReadTimeout:  bodyGrace,          // body sets it later as bytes come
		SkipValidateBody: op.skipsShape,
	}, func(ctx context.Context, in *I) (*O, error) {
		out, err := run(ctx, callerOf(ctx), op.classOf(), in, handle)
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

// describeAnswers tells what the framework cannot see in Go types.
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
		of.Responses[strconv.Itoa(o.alsoStatus)] = of.Responses[success]
	}
	if o.isRaw {
		bytes := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		of.Responses[success].Content = map[string]*huma.MediaType{"*/*": bytes, "application/octet-stream": bytes}
		of.Responses[success].Description = "The exact bytes with their original content type; application/octet-stream if the request had none."
	}
	return of
}

// failures are the statuses that an operation may fail with, besides 500.
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
	return all
}

// description says what the operation is about and which key it takes.
func (o operation) description() string {
	needs := "Requires the admin key."
	if o.scope != "" {
		needs = "Requires a key with the scope " + string(o.scope) + ", or the admin key."
	}
	return strings.TrimSpace(o.about + " " + needs)
}

// scopes are what a key needs one of; the admin key has them all.
func (o operation) scopes() []string {
	if o.scope == "" {
		return []string{"admin"}
	}
	return []string{string(o.scope)}
}
