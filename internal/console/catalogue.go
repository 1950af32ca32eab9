package console

import (
	"io/fs"
	"path"
	"strings"
)

// Patterns returns the patterns of all pages and acts with the names of their templates, "" for an act
// that shows no page. Browser tests visit each page.
func Patterns() map[string]string {
	patterns := map[string]string{"GET " + Root + "/sign-in": "sign_in", "GET " + Root + "/link": "link"}
	for _, p := range pages() {
		patterns[p.pattern] = p.template
	}
	return patterns
}

// Templates returns the names of the templates of all pages.
func Templates() []string {
	var names []string
	files, _ := fs.Glob(pageFiles, "pages/*.html") // the pattern is valid
	for _, file := range files {
		if name := strings.TrimSuffix(path.Base(file), ".html"); name[0] != '_' {
			names = append(names, name)
		}
	}
	return names
}
