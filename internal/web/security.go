package web

import (
	"net/http"
	"strings"
)

// Policy is a Content-Security-Policy for pages that load scripts and styles of their own origin
// and nothing else. frameAncestors are the origins that may embed the page; none: no page may.
func Policy(frameAncestors []string) string {
	ancestors := "'none'"
	if len(frameAncestors) > 0 {
		ancestors = strings.Join(frameAncestors, " ")
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors " + ancestors
}

// Protect sets the security headers of a page and forbids caches to store it. policy is the
// Content-Security-Policy, see Policy.
func Protect(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
	if strings.Contains(policy, "frame-ancestors 'none'") {
		h.Set("X-Frame-Options", "DENY")
	}
}
