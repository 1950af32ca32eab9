package portalstories_test

import (
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// newSite starts a site over HTTPS whose pages show the address of their query in a frame. Its host is
// localhost, which is another site than that of a gateway, 127.0.0.1. It returns its origin.
func newSite(t *testing.T) (origin string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!DOCTYPE html><link rel="icon" href="data:,"><title>An application</title>
<iframe src="%s" title="Webhooks" width="1200" height="760"></iframe>`, html.EscapeString(r.URL.Query().Get("frame")))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the browser tells of the certificate before it accepts it
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}

// newEmbedder returns a page in a browser that blocks the cookies of other sites.
func newEmbedder(t *testing.T) *browsertest.Page {
	t.Helper()
	p := browsertest.New(t)
	p.TrustCertificates()
	p.BlockForeignCookies()
	return p
}

// frames is a gateway that one site may show in a frame, and a customer with an endpoint.
type frames struct {
	g             *gatewaytest.Gateway
	n             *gatewaytest.Tenant
	app, evil     string // origins: the site that may, and one that may not
	endpoint      string
	link, console string // addresses of the gateway
}

func newFrames(t *testing.T) *frames {
	t.Helper()
	f := &frames{app: newSite(t), evil: newSite(t)}
	f.g = gatewaytest.StartTLS(t, "EVENTHOOK_PORTAL_FRAME_ANCESTORS="+f.app)
	f.n = f.g.Tenant(t, "framed")
	f.endpoint = gatewaytest.Must(f.n.Client.CreateSubscription(t.Context(), f.n.Slug, client.SubscriptionCreate{
		Name: "Production", URL: gatewaytest.NewReceiver(t).URL, EventTypes: []string{"invoice.paid"},
		ScopeFilter: []string{globex}})).ID
	f.link, f.console = f.n.PortalLink(globex, false), f.g.URL+"/console"
	return f
}

// TestFrame shows the portal, the console and forged frames on other sites.
func TestFrame(t *testing.T) {
	t.Parallel()
	f := newFrames(t)
	t.Run("a customer signs in and acts within a frame", f.isUsable)
	t.Run("another site cannot show the portal", func(t *testing.T) { f.isBlocked(t, f.evil, f.link) })
	t.Run("no site can show the console", func(t *testing.T) { f.isBlocked(t, f.app, f.console) })
	t.Run("a form of another site does nothing", f.isForged)
}

func (f *frames) isUsable(t *testing.T) {
	p := newEmbedder(t)
	p.Open(f.app + "/?frame=" + url.QueryEscape(f.link))
	frame := p.Frame(f.g.URL)
	frame.WaitText("h1", "Endpoints")
	frame.ClickName("Production")
	frame.WaitText("#state", "active")
	frame.ClickName("Pause")
	gatewaytest.Confirm(frame, "Pause this endpoint?")
	frame.WaitText(".notice.ok", "The endpoint is paused.") // which a cookie brings, too
	s := gatewaytest.Must(f.n.Client.GetSubscription(t.Context(), f.n.Slug, f.endpoint))
	if s.Status != client.SubscriptionStatusPaused {
		t.Errorf("the endpoint is %s, want paused", s.Status)
	}
	frame.ClickName("Dark")
	frame.WaitFor(`document.documentElement?.dataset.theme === "dark"`)
	f.hasPartitionedCookies(t, frame)
}

// hasPartitionedCookies checks the attributes of the portal's cookies.
func (f *frames) hasPartitionedCookies(t *testing.T, p *browsertest.Page) {
	t.Helper()
	found := map[string]bool{}
	for _, c := range p.Cookies() {
		found[c.Name] = true
		if !c.Secure || !c.HTTPOnly || c.SameSite != "None" || c.Path != "/portal" || c.PartitionKey == nil ||
			c.PartitionKey.TopLevelSite != "https://localhost" || !c.PartitionKey.HasCrossSiteAncestor {
			t.Errorf("the cookie %s is %+v in the partition %+v; want Secure, HttpOnly, SameSite=None, Path=/portal, "+
				"partitioned by https://localhost", c.Name, c, c.PartitionKey)
		}
	}
	if !found["__Secure-eventhook_portal"] || !found["__Secure-eventhook_portal_theme"] {
		t.Errorf("the browser has the cookies %v, want those of the session and the theme", found)
	}
}

// isBlocked checks that the browser refuses to show an address on a site.
func (f *frames) isBlocked(t *testing.T, site, address string) {
	t.Helper()
	p := newEmbedder(t)
	p.Allow("csp: frame-ancestors violated by " + f.g.URL)
	p.Allow("foreign request: " + f.g.URL)
	p.Open(site + "/?frame=" + url.QueryEscape(address))
}

// isForged checks that a page of another site cannot act with the customer's session.
func (f *frames) isForged(t *testing.T) {
	p := newEmbedder(t)
	p.Open(f.link)
	p.WaitText("h1", "Endpoints")
	before := stateOf(t, f.n)
	p.Open(f.app + "/")
	p.Allow("a status of 403")
	browsertest.Eval[bool](p, fmt.Sprintf(`(form => {
		form.method = "post";
		form.action = %q;
		document.body.append(form);
		form.submit();
		return true;
	})(document.createElement("form"))`, f.g.URL+"/portal/endpoints/"+f.endpoint+"/delete"))
	p.WaitURL("/delete")
	p.WaitVisible("h1")
	isUnchanged(t, f.n, before)
}
