package portalstories_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// The look of the scene's operator.
const (
	brand      = "Acme Billing"
	accent     = "#0f766e"
	accentDark = "#5eead4"
	logo       = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#0f766e"/>` +
		`<path d="M9 23 16 8l7 15" fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round" stroke-linejoin="round"/>` +
		`<circle cx="16" cy="20.5" r="2.4" fill="#fff"/></svg>`
)

// lookOf returns the variables for the look.
func lookOf(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "logo.svg")
	if err := os.WriteFile(file, []byte(logo), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"EVENTHOOK_PORTAL_NAME=" + brand, "EVENTHOOK_PORTAL_ACCENT_COLOR=" + accent,
		"EVENTHOOK_PORTAL_ACCENT_COLOR_DARK=" + accentDark, "EVENTHOOK_PORTAL_LOGO=" + file}
}

func TestScreenshotsOfEveryPage(t *testing.T) {
	t.Parallel()
	g, s := newGallery(t)
	p := browsertest.New(t)
	p.Open(s.PortalLink(globex, false))
	p.Allow("401 (Unauthorized)")
	p.Allow("404 (Not Found)")
	for _, page := range s.pages() {
		t.Run(page.name, func(t *testing.T) {
			open(t, p, g.URL+page.path)
			p.Screenshot(page.name)
		})
	}
	t.Run("white label", func(t *testing.T) { hasLook(t, p, g.URL) })
	t.Run("other states", func(t *testing.T) { s.showStates(t, p, g.URL) })
}

// hasLook checks that the pages have the name, the logo and the colors of the configuration, and no others.
func hasLook(t *testing.T, p *browsertest.Page, url string) {
	t.Helper()
	p.Open(url + "/portal")
	p.WaitText(".brand", brand)
	if title := browsertest.Eval[string](p, `document.title`); title != "Endpoints · "+brand {
		t.Errorf("the title is %q, want one with %s", title, brand)
	}
	if text := browsertest.Eval[string](p, `document.documentElement.outerHTML`); strings.Contains(text, "Eventhook") {
		t.Error("the page names Eventhook")
	}
	p.WaitFor(`document.querySelector(".brand img").naturalWidth > 0`)
	p.View(browsertest.Light)
	isColored(t, p, `document.querySelector(".button.primary"), null, "background-color"`, "rgb(15, 118, 110)") // accent
	p.View(browsertest.Dark)
	current := `document.querySelector(".portal-top .tabs [aria-current]"), null, "border-bottom-color"`
	isColored(t, p, current, "rgb(94, 234, 212)") // accentDark
}

// isColored checks the value of a computed style: the element, its pseudo-element and the property.
func isColored(t *testing.T, p *browsertest.Page, style, want string) {
	t.Helper()
	script := fmt.Sprintf(`((e, pseudo, property) => getComputedStyle(e, pseudo).getPropertyValue(property))(%s)`, style)
	if got := browsertest.Eval[string](p, script); got != want {
		t.Errorf("the color of %s is %s, want %s", style, got, want)
	}
}

// showStates shows what pages look like after an act, without endpoints, for reading, and after signing out.
func (s *gallery) showStates(t *testing.T, p *browsertest.Page, url string) {
	t.Helper()
	p.View(browsertest.Light)
	p.Open(url + "/portal/endpoints/" + s.healthy)
	p.ClickName("Pause")
	p.WaitText("#confirm[open]", "Pause this endpoint?")
	s.shows(t, p, "portal-confirm")
	p.Press("Escape")
	p.ClickName("Rotate secret")
	gatewaytest.Confirm(p, "Create a new signing secret?")
	p.WaitText("h1", "New signing secret")
	s.shows(t, p, "portal-secret")
	p.Open(url + "/portal/types")
	p.ClickName("Example")
	s.shows(t, p, "portal-types-example")
	p.Open(url + "/portal/endpoints/new?event_types=invoice.paid")
	p.Fill("#f-url", "https://hooks.globex.example/webhooks")
	p.Fill("#f-name", "Reporting")
	p.Click(`[value="invoice.paid"]`)
	p.ClickName("Add endpoint")
	p.Allow("422 (Unprocessable Entity)")
	p.WaitVisible(".fault")
	s.shows(t, p, "portal-endpoint-refused")
	p.ClickName("Sign out")
	p.WaitText("h1", "You are signed out")
	s.shows(t, p, "portal-signed-out")
	p.Open(s.PortalLink("initech", false))
	p.WaitText("main", "No endpoints yet")
	s.shows(t, p, "portal-empty")
	p.Open(s.PortalLink(globex, true))
	p.Open(url + "/portal/endpoints/" + s.failing)
	p.WaitText("header", "read only")
	s.shows(t, p, "portal-read-only")
}

// shows checks what a page shows and takes its screenshot.
func (*gallery) shows(t *testing.T, p *browsertest.Page, name string) {
	t.Helper()
	check(t, p)
	p.Screenshot(name)
	p.View(browsertest.Light)
}
