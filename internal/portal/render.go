package portal

import (
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
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
	shared := web.Components(assets, now).Funcs(template.FuncMap{"deliveryStatus": deliveryStatus, "cell": cellOf, "response": responseOf})
	shared = template.Must(shared.ParseFS(pageFiles, "pages/_*.html"))
	all := templates{}
	names, _ := fs.Glob(pageFiles, "pages/*.html") // the pattern is valid
	for _, name := range names {
		if base := strings.TrimSuffix(path.Base(name), ".html"); base[0] != '_' {
			all[base] = template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, name))
		}
	}
	return all
}

// shell is the data of the layout. Templates of pages read their own data as .Data.
type shell struct {
	Title, Name, Logo string
	Data              any
	Root, URL         string
	CSRF, Theme       string
	Notice            string
	Scope             string // "" without a session
	Section           string
	CanManage         bool
	ExpiresAt         time.Time // of the session
}

func (p *Portal) shell(r *request, v view) shell {
	s := shell{Title: v.Title, Name: p.Branding.Title(), Logo: p.Logo.Name, Data: v.Data, Root: Root,
		URL: r.URL.RequestURI(), CSRF: r.csrf, Theme: p.themeOf(r.Request), Notice: v.Notice, Section: "endpoints"}
	if strings.HasPrefix(r.URL.Path, Root+"/types") {
		s.Section = "types"
	}
	if r.csrf != "" {
		s.Scope, s.CanManage, s.ExpiresAt = r.session.Scope, !r.session.ReadOnly, r.session.ExpiresAt
	}
	return s
}

// render writes a page. The page is complete before the first byte is sent, so that a failing
// template becomes an error page.
func (p *Portal) render(w http.ResponseWriter, r *http.Request, name string, status int, data any) {
	html, err := web.Execute(p.templates[name], data)
	switch {
	case errors.Is(err, web.ErrPageTooLarge):
		p.Log.Warn("a page of the portal is too large", "page", name)
		http.Error(w, "This page would be too large for a browser. Go back, and send a shorter form.",
			http.StatusInternalServerError)
		return
	case err != nil:
		p.Log.Error("a page of the portal cannot be rendered", "page", name, "error", err)
		http.Error(w, "The page cannot be shown because of a defect.", http.StatusInternalServerError)
		return
	}
	web.WriteHTML(w, r, status, html)
}
