package ingest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/internal/payload"
)

// pathSuffix returns the escaped path of a request below the URL of its source: "" or a path that
// begins with a slash.
func pathSuffix(u *url.URL, at address) string {
	const slashes = 7 // before the suffix, with its own
	if len(u.Path) <= len(tenantsPath)+len(at.tenant)+len(inPath)+len(at.source) {
		return ""
	}
	parts := strings.SplitN(u.EscapedPath(), "/", slashes+1)
	if len(parts) <= slashes {
		return ""
	}
	return "/" + parts[slashes]
}

// hasDotSegments reports whether an escaped path has segments . or .., which proxies and programs
// resolve in different ways. It decodes the path, in which a backslash also ends a segment.
func hasDotSegments(path string) bool {
	if !strings.ContainsAny(path, ".%") {
		return false
	}
	plain, err := url.PathUnescape(path)
	isDots := func(segment string) bool { return segment == "." || segment == ".." }
	return err != nil || slices.ContainsFunc(strings.FieldsFunc(plain, func(c rune) bool { return c == '/' || c == '\\' }), isDots)
}

// appendRequestLine appends the method, the path suffix and the query of a request as the
// pseudo-header fields of a header block, with redacted credentials. It appends nothing for a POST
// to the URL of the source itself.
func appendRequestLine(b []byte, r *http.Request, src *source, suffix string) []byte {
	if r.Method != http.MethodPost {
		b = appendLine(b, payload.MethodField, r.Method)
	}
	if suffix == "" && r.URL.RawQuery == "" {
		return b
	}
	if r.URL.RawQuery != "" {
		suffix += "?" + redactQuery(r.URL.RawQuery, src.redactParameters)
	}
	return appendLine(b, payload.PathField, suffix)
}

// usualParameters are names of URL parameters with credentials. The first is that of RFC 6750,
// section 2.3.
var usualParameters = []string{"access_token", "api_key", "apikey", "auth_token", "client_secret", "password", "secret", "token"}

// redactQuery replaces the values of the parameters with the given names, in any case. Other
// parameters are unchanged bytes.
func redactQuery(query string, names []string) string {
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		name, _, _ := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, plain) }) {
			parameters[i] = name + "=" + redactedValue
		}
	}
	return strings.Join(parameters, "&")
}
