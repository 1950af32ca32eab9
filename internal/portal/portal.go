// Package portal serves the customer portal under /portal: a customer of a tenant manages the
// endpoints of its scope, which are subscriptions in the API, and sees their deliveries.
//
// A signed link of the tenant (package portallink) starts a session. The portal calls the API's
// handlers in this process with a grant for this one tenant and this one customer, so that validation,
// limits, the audit log, and what a customer may see and change are the API's own. Besides, every page with
// an id in its path passes gate.go before its handler runs. The package has no SQL and stores nothing.
//
// A customer has few requests in flight: see limits.go.
//
// A session ends with its link, when the tenant is suspended or closed, and when the customer leaves.
// Pages work without the script and inside a frame of the origins that the operator configures.
package portal

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// Root is the path of the portal.
const Root = "/portal"

//go:embed static/portal.css
var styles []byte

// Sessions keeps the sessions of browsers. *session.Sessions implements it.
type Sessions interface {
	// Start creates a session and sets its cookie.
	Start(ctx context.Context, w http.ResponseWriter, r *http.Request, s session.Session) (session.Session, error)
	// Read returns the session of a request and its token. The error is KindUnauthorized without one.
	Read(r *http.Request) (session.Session, string, error)
	// End deletes the session of a request, and its cookie.
	End(ctx context.Context, w http.ResponseWriter, r *http.Request) error
	CSRFToken(token string) string
	CheckCSRF(r *http.Request, token string) error
}

var _ Sessions = (*session.Sessions)(nil)

// Tenants finds the tenants of links and sessions.
type Tenants interface {
	// TenantSlugs returns the slugs of tenants. Tenants that do not exist are missing.
	TenantSlugs(ctx context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error)
	// Tenant returns a tenant. The error is KindNotFound if there is none.
	Tenant(ctx context.Context, slug string) (eventhook.Tenant, error)
}

// Config has the dependencies of a Portal.
type Config struct {
	// API is the handler of the HTTP API of this instance.
	API      http.Handler
	Sessions Sessions
	Tenants  Tenants
	// LinkKey is the key that signs links; the API signs with the same.
	LinkKey  []byte
	Branding branding.Config // must be valid
	Logo     branding.Logo
	Jar      session.Jar // for the cookies besides those of sessions
	// Client returns the client address of a request.
	Client func(*http.Request) netip.Addr
	Log    *slog.Logger
	Now    func() time.Time
}

// Portal serves the pages. Create it with New. It is safe for concurrent use.
type Portal struct {
	Config
	assets    *web.Assets
	templates templates
	limits    limits
	mux       *http.ServeMux
	patterns  []string // of the mux
}

// New returns a portal. It panics if a template is invalid, because templates are part of the
// program.
func New(c Config) *Portal {
	files := map[string][]byte{"portal.css": slices.Concat(styles, c.Branding.CSS())}
	if c.Logo.Name != "" {
		files[c.Logo.Name] = c.Logo.Content
	}
	p := &Portal{Config: c, assets: web.NewAssets(Root+"/static/", files), limits: newLimits(), mux: http.NewServeMux()}
	p.templates = parseTemplates(p.assets, c.Now)
	p.handle("GET "+Root+"/static/", p.assets)
	p.handle("GET "+Root+"/enter", web.GetOnly(p.enter))
	p.handle("GET "+Root+"/entered", http.HandlerFunc(p.entered))
	for _, page := range pages() {
		p.handle(page.pattern, p.handler(page))
	}
	p.handle(Root+"/", p.handler(page{handle: (*Portal).nothing, isOwn: true}))
	return p
}

func (p *Portal) handle(pattern string, h http.Handler) {
	p.mux.Handle(pattern, h)
	p.patterns = append(p.patterns, pattern)
}

// Patterns returns the patterns of all routes, as http.ServeMux takes them. Tests check that each route
// keeps its promises.
func (p *Portal) Patterns() []string { return slices.Clone(p.patterns) }

// ServeHTTP serves the paths under Root.
func (p *Portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Protect(w.Header(), web.Policy(p.Branding.FrameAncestors))
	if len(p.Branding.FrameAncestors) > 0 {
		// A page that isolates itself can embed a document only with this header. Which pages may
		// embed the portal is decided by frame-ancestors.
		w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
		w.Header().Del("Cross-Origin-Opener-Policy")
	}
	p.mux.ServeHTTP(w, r)
}

// nothing responds to paths that no page has.
func (*Portal) nothing(*request) (view, error) { return view{}, errNotFound }
