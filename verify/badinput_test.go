package verify

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The tests in this file have inputs that are too large for testdata, or apply to
// all schemes.

// examples are Configs of all schemes, with the secret "secret" or the keys of pairs().
func examples() []Config {
	return []Config{
		{Type: "api_key", Header: "X-Sig", Values: []string{"secret"}},
		{Type: "api_key", Path: "value.#.token", Values: []string{"secret"}},
		{Type: "api_key", Query: "token", Values: []string{"secret"}},
		{Type: "aws_sns", PublicKeys: []string{publicText(pairs().rsa)}},
		{Type: "basic_auth", Username: "user", Password: "secret"},
		{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"secret"}},
		{Type: "body_hmac", Path: "sig", Items: "items.#.item", Signed: "{field.a}", Secrets: []string{"secret"}},
		{Type: "hash", Header: "X-Sig", Secrets: []string{"secret"}},
		{Type: "hmac", Header: "X-Sig", Secrets: []string{"secret"}},
		{Type: "jwt", Header: "X-Sig", Algorithm: "HS256", Secrets: []string{"secret"}},
		{Type: "jwt", Header: "X-Sig", Algorithm: "RS256", PublicKeys: []string{publicText(pairs().rsa)}},
		{Type: "public_key", Header: "X-Sig", PublicKeys: []string{publicText(pairs().ed)}},
		{Type: "public_key", Header: "X-Sig", HeaderJSON: "signature", Encoding: "base64", Algorithm: "rsa_sha256", PublicKeys: []string{publicText(pairs().rsa)}},
		{Type: "standard_webhooks", Secrets: []string{"secret"}, SecretEncoding: "text"},
		{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"secret"}},
		{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"secret"}, Signed: "{body}", TimestampPath: "at"},
		{Type: "url_form_hmac", Header: "X-Sig", Secrets: []string{"secret"}},
	}
}

// headerOf returns the header in which a Config of examples expects a signature or token.
func headerOf(c Config) string {
	switch c.Type {
	case "basic_auth":
		return "Authorization"
	case "standard_webhooks":
		return "Webhook-Signature"
	}
	return "X-Sig"
}

// TestBadInputIsRefused changes a valid request of each scheme in ways that every
// scheme must refuse.
func TestBadInputIsRefused(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range examples() {
		seen[c.Type] = true
		v := mustNew(t, c)
		good := signedFor(t, c, "secret", 100)
		if err := v.Verify(t.Context(), good); err != nil {
			t.Fatalf("%+v: %v, want the unchanged request verified", c, err)
		}
		name := headerOf(c)
		value := good.Header.Get(name)
		inBody := c.Type == "aws_sns" || c.Path != "" || c.Query != ""
		header := func(values ...string) *Request {
			r := *good
			r.Header = good.Header.Clone()
			r.Header[name] = values
			return &r
		}
		body := func(body string) *Request {
			r := *good
			r.Body = []byte(body)
			return &r
		}
		for _, tt := range []struct {
			claim string
			r     *Request
			body  bool // applies to schemes that parse the body, otherwise to the other schemes
		}{
			{"no header and no body", &Request{}, inBody},
			{"an empty header", header(""), false},
			{"white space", header(" \t "), false},
			{"a comma", header(","), false},
			{"10 000 commas", header(strings.Repeat(",", 10_000)), false},
			{"an empty header 10 000 times", header(slices.Repeat([]string{""}, 10_000)...), false},
			{"not UTF-8", header("\xff\xfe" + value), false},
			{"a NUL at the end", header(value + "\x00"), false},
			{"a line break inside", header(value[:len(value)/2] + "\r\n" + value[len(value)/2:]), false},
			{"not ASCII", header(strings.Repeat("é", len(value)/2)), false},
			{"without the last character", header(value[:max(0, len(value)-1)]), false},
			{"one more character", header(value + "A"), false},
			{"a megabyte", header(strings.Repeat("a", 1<<20)), false},
			{"a megabyte of base64", header("Basic " + base64.StdEncoding.EncodeToString(make([]byte, 1<<20))), false},
			{"an empty body", body(""), true},
			{"a body that is not JSON", body("sig=x&at=1"), true},
			{"half the body", body(string(good.Body[:len(good.Body)/2])), true},
			{"null as the body", body("null"), true},
			{"a number as the body", body("1"), true},
			{"a body nested 100 000 deep", body(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), true},
			{"a valid body with a member nested 100 000 deep", body(strings.TrimSuffix(string(good.Body), "}") + `,"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"), true},
			{"a body nested 100 000 deep and not closed", body(strings.Repeat(`{"a":`, 100_000)), true},
			{"a body that is not UTF-8", body("\xff\xfe\x00"), true},
		} {
			if tt.body != inBody || c.Query != "" && tt.body && len(tt.r.Body) > 0 {
				continue
			}
			if tt.r.URL != "" && c.Query != "" {
				tt.r.URL = "https://hooks.example.com/"
			}
			if got := reasonOf(t, v.Verify(t.Context(), tt.r)); got == "" {
				t.Errorf("%s with %s: verified", c.Type, tt.claim)
			}
		}
	}
	for name := range schemes {
		if !seen[name] && name != "none" {
			t.Errorf("no example of %s", name)
		}
	}
}

// Each size has a request at its limit and one above it.
func TestSizesAreBounded(t *testing.T) {
	jwtOf := func(c Config, claims int) *Request {
		token := plainJWT(t, "HS256", map[string]any{"alg": "HS256"}, map[string]any{"exp": signedAt + 300, "x": strings.Repeat("x", claims)}, []byte("secret"))
		r := signedFor(t, c, "secret", 0)
		r.Header.Set("X-Sig", token)
		return r
	}
	jwt := Config{Type: "jwt", Header: "X-Sig", Algorithm: "HS256", Secrets: []string{"secret"}}
	listed := func(headers int) *Request {
		r := signedFor(t, Config{Type: "none"}, "", 100)
		names, message := []string{"x-list"}, ""
		for n := range headers - 1 {
			names = append(names, "x-"+strings.Repeat("a", n+1))
			r.Header.Set(names[n+1], "v")
		}
		r.Header.Set("X-List", strings.Join(names, ","))
		slices.Sort(names)
		for i, name := range names {
			if i > 0 {
				message += ";"
			}
			message += name + ":" + r.Header.Get(name)
		}
		r.Header.Set("X-Sig", hexMAC("secret", message+string(r.Body)))
		return r
	}
	list := Config{Type: "hmac", Header: "X-Sig", Signed: "{headers.X-List}{body}", Secrets: []string{"secret"}}
	repeated := func(before int) *Request {
		r := signedRequest("secret", "body")
		r.Header["X-Sig"] = append(slices.Repeat([]string{strings.Repeat("0", 64)}, before), r.Header["X-Sig"]...)
		return r
	}
	plain := Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"secret"}}
	key := Config{Type: "api_key", Header: "X-Sig", Values: []string{"secret"}}
	keys := func(before int) *Request {
		return &Request{Header: http.Header{"X-Sig": append(slices.Repeat([]string{"x"}, before), "secret")}}
	}
	for _, tt := range []struct {
		claim string
		c     Config
		r     *Request
		want  Reason
	}{
		{"a token of nearly 16 KB", jwt, jwtOf(jwt, 12_150), ""},
		{"a token of 20 KB", jwt, jwtOf(jwt, 15_000), ReasonEncoding},
		{"50 signed headers", list, listed(50), ""},
		{"51 signed headers", list, listed(51), ReasonMalformed},
		{"16 signatures", plain, repeated(15), ""},
		{"17 signatures", plain, repeated(16), ReasonMalformed},
		{"16 tokens", key, keys(15), ""},
		{"17 tokens", key, keys(16), ReasonCredentials},
	} {
		if got := reasonOf(t, mustNew(t, tt.c).Verify(t.Context(), tt.r)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.claim, got, tt.want)
		}
	}
}

func TestLargeBuffersAreNotReused(t *testing.T) {
	for size, reused := range map[int]bool{maxReusedBytes: true, maxReusedBytes + 1: false} {
		w := &workspace{before: make([]byte, 0, size)}
		w.reset(1, 32)
		if (w.before != nil) != reused {
			t.Errorf("%d bytes: reused %t, want %t", size, w.before != nil, reused)
		}
	}
}

// A form with too many fields is refused before its fields are
// allocated.
func TestFormsAreBounded(t *testing.T) {
	for fields, want := range map[int]Reason{10_000: ReasonMismatch, 10_001: ReasonMalformed} {
		r := &Request{Method: http.MethodPost, URL: "https://h.example/", Body: []byte(strings.Repeat("&", fields-1)), Header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "X-Sig": {strings.Repeat("0", 40)}}}
		v := mustNew(t, Config{Type: "url_form_hmac", Header: "X-Sig", Algorithm: "sha1", Secrets: []string{"secret"}})
		if got := reasonOf(t, v.Verify(t.Context(), r)); got != want {
			t.Errorf("%d fields: got %q, want %q", fields, got, want)
		}
	}
}

// Only schemes that parse the body before
// verification limit its depth.
func TestDepthIsBoundedWhenBodyIsParsed(t *testing.T) {
	body := `{"at":1800000000,"deep":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	r := signedRequest("secret", body)
	r.At = signedFor(t, Config{Type: "none"}, "", 0).At
	for _, tt := range []struct {
		c    Config
		want Reason
	}{
		{Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"secret"}}, ""},
		{Config{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"secret"}, Signed: "{body}", TimestampPath: "at"}, ""},
		{Config{Type: "body_hmac", Path: "sig", Signed: "{field.at}", Secrets: []string{"secret"}}, ReasonMalformed},
	} {
		if got := reasonOf(t, mustNew(t, tt.c).Verify(t.Context(), r)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.c.Type, got, tt.want)
		}
	}
}

func TestRequestsAreRefusedUntilSecretIsLearned(t *testing.T) {
	resolved, faults := Spec{Provider: "notion"}.Resolve()
	if len(faults) > 0 || !resolved.Waiting {
		t.Fatalf("faults %v, waiting %t; want none, and true", faults, resolved.Waiting)
	}
	v, err := resolved.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "secret"} {
		if got := reasonOf(t, v.Verify(t.Context(), signedFor(t, resolved.Config, key, 10))); got != ReasonKey {
			t.Errorf("signed with %q: got %q, want %q", key, got, ReasonKey)
		}
	}
	learned, faults := Spec{Provider: "notion"}.Resolve("secret")
	if len(faults) > 0 || learned.Waiting {
		t.Fatalf("faults %v, waiting %t; want none, and false", faults, learned.Waiting)
	}
	v, err = learned.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(t.Context(), signedFor(t, learned.Config, "secret", 10)); err != nil {
		t.Errorf("signed with the learned secret: %v, want it verified", err)
	}
}

// XML is not parsed for unauthenticated requests.
func TestXMLIsNotParsed(t *testing.T) {
	r := &Request{Header: http.Header{"Content-Type": {"text/xml"}}, Body: []byte("<key>secret</key>")}
	if view, err := viewOf(r); err != errNoView {
		t.Errorf("got %v, %v; want %v", view, err, errNoView)
	}
}
