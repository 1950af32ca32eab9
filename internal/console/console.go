// Package console serves the web console under /console: pages for the platform team and for the
// engineers of tenants.
//
// The console is a client of the HTTP API of its own instance. A page calls the API's handlers in
// this process with the session of the signed-in person, so that permissions, limits, validation
// and the audit log are the API's own; the package has no SQL and stores nothing. Pages are
// rendered by the server and work without the script, except for live values.
//
// A page consists of a handler, a template in pages/ and a line in one of the tables of pages; see
// page. Text of senders reaches templates as strings, which html/template escapes.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// Root is the path of the console.
const Root = "/console"

// maxQuery limits the query of a page, which its links repeat, in bytes. The rows of a page can be
// selected in it.
const maxQuery = 16 << 10

// Sessions keeps the sessions of browsers. *session.Sessions implements it.
type Sessions interface {
	// Start creates a session and sets its cookie.
	Start(ctx context.Context, w http.ResponseWriter, r *http.Request, s session.Session) (session.Session, error)
	// Read returns the session of a request and its token. The error is KindUnauthorized without one.
	Read(r *http.Request) (session.Session, string, error)
	// Peek is Read for a request that a page sends by itself, which does not extend the session.
	Peek(r *http.Request) (session.Session, string, error)
	// Watch returns a context that ends with the request and with the session of a token.
	Watch(r *http.Request, token string) (ctx context.Context, stop context.CancelFunc)
	// End deletes the session of a request, and its cookie.
	End(ctx context.Context, w http.ResponseWriter, r *http.Request) error
	CSRFToken(token string) string
	CheckCSRF(r *http.Request, token string) error
	// Redeem returns the session of a one-time link, once. The error is KindNotFound for a link that
	// was used or has expired.
	Redeem(r *http.Request, code string) (session.Session, error)
	// Refuse records that a known person or key was refused.
	Refuse(r *http.Request, s session.Session) error
}

var _ Sessions = (*session.Sessions)(nil)

// Config has the dependencies of a Console.
type Config struct {
	// API is the handler of the HTTP API of this instance.
	API      http.Handler
	Sessions Sessions
	// OpenID signs people in with OpenID Connect; nil if it is not configured.
	OpenID  OpenID
	Jar     session.Jar // for the cookies besides those of sessions
	Log     *slog.Logger
	Now     func() time.Time
	Version string
}

// Console serves the pages. Create it with New. It is safe for concurrent use.
type Console struct {
	Config
	assets    *web.Assets
	templates templates
	mux       *http.ServeMux
}

// New returns a console. It panics if a template is invalid, because templates are part of the
// program.
func New(c Config) *Console {
	console := &Console{Config: c, assets: web.NewAssets(Root+"/static/", nil), mux: http.NewServeMux()}
	console.templates = parseTemplates(console.assets, c.Now)
	console.mux.Handle("GET "+Root+"/static/", console.assets)
	console.registerSignIn()
	for _, p := range pages() {
		console.mux.Handle(p.pattern, console.handler(p))
	}
	console.mux.HandleFunc("GET "+Root+"/t/{tenant}/stream", console.serveStream)
	console.mux.HandleFunc("GET "+Root+"/{section...}", console.serveSection)
	return console
}

// ServeHTTP serves the paths under Root.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Protect(w.Header(), web.Policy(nil))
	if len(r.URL.RawQuery) > maxQuery {
		r.URL.RawQuery = "" // the page of the error has the address, too
		c.renderProblem(w, page{}, &request{Request: r}, problemPage{Title: "The address is too long",
			Status: http.StatusRequestURITooLong, Detail: "Use shorter filters, or select fewer rows."})
		return
	}
	c.mux.ServeHTTP(w, r)
}
