package web

import (
	"net/url"
	"path"
	"strings"
)

// PathBelow parses the path and query of a page at root or below it. ok is false for an address of
// another host, and for a path with elements such as .. and //, which would lead elsewhere.
func PathBelow(root, text string) (u *url.URL, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.Contains(u.Path, `\`) || !IsClean(u.Path) {
		return nil, false
	}
	return u, u.Path == root || strings.HasPrefix(u.Path, root+"/")
}

// IsClean reports whether a path begins with a slash and has no empty element, no . and no .. element.
// It may end with a slash.
func IsClean(p string) bool {
	return strings.HasPrefix(p, "/") && (path.Clean(p) == p || path.Clean(p)+"/" == p)
}
