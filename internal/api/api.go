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
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
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
	PublicKeys verify.Keys // those that providers publish; may be nil
	PublicURL  string      // how the outside reaches us
	AdminKey   eventhook.Secret
	Worked     func(act string, executions int) // hears what workers did; for metrics
	Stopping   <-chan struct{}                  // closed: long polls answer at once
	Log        *slog.Logger
	Now        func() time.Time
	Version    string
}

type server struct {
	Deps
	keys *keyring
}

// base is T of the contract.
const base = "/api/tenants/{tenant}/eventhook"

// The framework's errors are ours. It is a global of the framework's, so that
// it is set once and not whenever an API is made.
func init() { huma.NewError = newProblem }

// Register adds the API to a router and returns its OpenAPI document's API.
func Register(e *echo.Echo, d Deps) huma.API {
	s := &server{Deps: d, keys: newKeyring(d.Keys, d.AdminKey, d.Now)}
	config := huma.DefaultConfig("Eventhook", d.Version)
	config.CreateHooks = nil                                             // no $schema members in answers
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", "" // ours are in docs.go
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer"}}
	api := humaecho.New(e, config)
	api.UseMiddleware(s.authorize(api))
	s.registerEvents(api)
	s.registerSources(api)
	s.registerExplain(api)
	s.registerProviders(api)
	s.registerWork(api)
	s.registerPromises(api)
	s.registerHandshake(api)
	s.registerAdmin(api)
	registerDocs(e, api.OpenAPI())
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
	method, path, summary string
	about                 string          // more than the summary says; may be ""
	scope                 eventhook.Scope // "" for the admin key only
	status                int             // of success; 0: 200
	tag                   string
	maxBody               int64 // bytes of a request; 0: maxBody
}

// register adds an operation whose handler knows who calls. Its errors are
// turned into problems here and nowhere else.
func register[I, O any](s *server, api huma.API, op operation, handle func(context.Context, caller, *I) (*O, error)) {
	failures := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity}
	if op.method == http.MethodPost {
		failures = append(failures, http.StatusConflict, http.StatusRequestEntityTooLarge)
	}
	huma.Register(api, huma.Operation{
		OperationID:     operationID(op.method, op.path),
		Method:          op.method,
		Path:            op.path,
		Summary:         op.summary,
		Description:     op.description(),
		Tags:            []string{op.tag},
		DefaultStatus:   op.status,
		Security:        []map[string][]string{{"key": {}}},
		Metadata:        map[string]any{scopeKey: op.scope},
		Errors:          failures,
		MaxBodyBytes:    cmp.Or(op.maxBody, maxBody) + 1, // the framework refuses what reaches its limit
		BodyReadTimeout: bodyTimeout,
	}, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, callerOf(ctx), in)
		if err != nil {
			return nil, s.problem(ctx, op, err)
		}
		return out, nil
	})
}

const (
	maxBody     = 1 << 20          // bytes of a request
	bodyTimeout = 30 * time.Second // for reading them
)

// description says what the operation is about and which key it takes.
func (o operation) description() string {
	needs := "Needs the admin key."
	if o.scope != "" {
		needs = "Needs the scope " + string(o.scope) + ", or the admin key."
	}
	return strings.TrimSpace(o.about + " " + needs)
}

// operationID is "get-events-id" for GET T/events/{id}.
func operationID(method, path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, base), "/api")
	return strings.ToLower(method) + strings.NewReplacer("/", "-", "{", "", "}", "", "_", "-").Replace(path)
}
