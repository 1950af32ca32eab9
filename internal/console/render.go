package console

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/internal/web"
)

//go:embed pages/*.html
var pageFiles embed.FS

// templates are the pages by name. Each contains the layout and the components.
type templates map[string]*template.Template

// parseTemplates parses every page together with the layout and the components. Files whose names
// begin with an underscore are parts that all pages can use.
func parseTemplates(assets *web.Assets, now func() time.Time) templates {
	shared := template.Must(web.Components(assets, now).ParseFS(pageFiles, "pages/_*.html"))
	all := templates{}
	for _, name := range Templates() {
		all[name] = template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, "pages/"+name+".html"))
	}
	return all
}

// shell is the data of the layout. Templates of pages read their own data as .Data.
type shell struct {
	Title, Version string
	Data           any
	Root, Base     string // paths of the console and of the tenant's pages
	Tenant         string
	URL            string // path and query of the page
	CSRF, Theme    string
	Live           string // path of the stream; "" for pages that are not live
	Section        string
	Navigation     []group
	Notice         string
	Name           string // of the signed-in person or key
	IsAdmin        bool
	CanManage      bool
	CanPublish     bool
	CanWork        bool
	CanDeliver     bool
	CanAdminister  bool // may change tenants and their keys
}

func (c *Console) shell(p page, r *request, v view) shell {
	s := shell{Title: v.Title, Version: c.Version, Data: v.Data, Root: Root, Tenant: r.tenant, URL: r.URL.RequestURI(), CSRF: r.csrf,
		Theme: themeOf(r.Request), Notice: v.Notice, Name: r.identity.Name, IsAdmin: r.isAdmin(), Section: sectionOf(p),
		CanManage: r.can("manage"), CanPublish: r.can("publish"), CanWork: r.can("work"), CanDeliver: r.can("deliver"), CanAdminister: r.can(needsAdmin)}
	s.Navigation = navigation(r, s.Section)
	if r.tenant != "" {
		s.Base = r.base()
	}
	if p.isLive && !v.IsStill {
		s.Live = s.Base + "/stream"
	}
	return s
}

// themeOf returns the theme that the person chose: light, dark, or "" for the system's.
func themeOf(r *http.Request) string {
	if cookie, err := r.Cookie("eventhook_theme"); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		return cookie.Value
	}
	return ""
}

// render writes a page. The page is complete before the first byte is sent, so that a failing
// template becomes an error page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, name string, status int, data any) {
	html, err := web.Execute(c.templates[name], data)
	switch {
	case errors.Is(err, web.ErrPageTooLarge):
		c.Log.Warn("a page of the console is too large", "page", name)
		http.Error(w, "This page would be too large for a browser. The API returns everything that it shows; or go back, "+
			"and send a shorter form.", http.StatusInternalServerError)
		return
	case err != nil:
		c.Log.Error("a page of the console cannot be rendered", "page", name, "error", err)
		http.Error(w, "The page cannot be shown because of a defect. The log of the gateway has the cause.", http.StatusInternalServerError)
		return
	}
	web.WriteHTML(w, r, status, html)
}
