package web

import (
	"embed"
	"html/template"
	"time"
)

//go:embed templates/*.html
var componentFiles embed.FS

// Components returns a template set with the components that console and portal share, and the
// functions of Funcs. The caller adds its layout and its pages.
func Components(assets *Assets, now func() time.Time) *template.Template {
	return template.Must(template.New("components").Funcs(Funcs(assets, now)).ParseFS(componentFiles, "templates/*.html"))
}
