package verify

import (
	"encoding/json"
	neturl "net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestErrorTexts fixes the texts, because operators search for them.
func TestErrorTexts(t *testing.T) {
	github := Spec{Provider: "github", Secrets: []string{"secret-a", "secret-b"}}
	stripe := Spec{Provider: "stripe", Secrets: []string{"secret-a", "secret-b"}}
	slack := Spec{Provider: "slack", Secrets: []string{"secret-a"}}
	stamped := "t=1800000000,v1=" + hexMAC("secret-a", "1800000000.body")
	inSlack := map[string]string{"X-Slack-Signature": "v0=" + hexMAC("secret-a", "v0:1800000000:body"), "X-Slack-Request-Timestamp": "1800000000"}
	spelledOut := func(c Config) Spec { return Spec{Verifier: &c} }
	claims := func(claims map[string]any) map[string]string {
		return map[string]string{"X-Token": plainJWT(t, "HS256", map[string]any{"alg": "HS256"}, claims, []byte("secret-a"))}
	}
	jwt := spelledOut(Config{Type: "jwt", Header: "X-Token", Algorithm: "HS256", Secrets: []string{"secret-a"}, Issuers: []string{"us"}, Claims: map[string]string{"email": "a"}})
	dated := spelledOut(Config{Type: "jwt", Header: "X-Token", Algorithm: "HS256", Secrets: []string{"secret-a"}, ToleranceSeconds: new(300)})
	for _, tt := range []struct {
		claim   string
		spec    Spec
		headers map[string]string
		body    string
		after   time.Duration
		want    string
	}{
		{"a missing header", github, nil, "body", 0, "missing_header: no X-Hub-Signature-256"},
		{"the second of two headers is missing", slack, map[string]string{"X-Slack-Signature": inSlack["X-Slack-Signature"]}, "body", 0, "missing_header: no X-Slack-Request-Timestamp"},
		{"a missing field", Spec{Provider: "mailgun", Secrets: []string{"k"}}, nil, `{}`, 0, "missing_field: no signature.signature|signature in the body"},
		{"a missing parameter", Spec{Provider: "azure-event-grid", Secrets: []string{"k"}}, nil, "", 0, "missing_field: no parameter token in the URL"},
		{"another prefix", github, map[string]string{"X-Hub-Signature-256": "sha1=00"}, "body", 0, "prefix: no signature in X-Hub-Signature-256 has the prefix sha256="},
		{"another name", stripe, map[string]string{"Stripe-Signature": "t=1800000000,v0=00"}, "body", 0, "prefix: no signature in Stripe-Signature has the prefix v1="},
		{"another authentication scheme", Spec{Provider: "google-pubsub", Options: map[string]string{"email": "a@b"}}, map[string]string{"Authorization": "Basic eA=="}, "", 0, "prefix: Authorization does not begin with Bearer"},
		{"another encoding", github, map[string]string{"X-Hub-Signature-256": "sha256=zz"}, "body", 0, "encoding: no signature in X-Hub-Signature-256 has the expected encoding (hex) and length"},
		{"an empty header", Spec{Provider: "gitea", Secrets: []string{"k"}}, map[string]string{"X-Gitea-Signature": ""}, "body", 0, "encoding: X-Gitea-Signature is empty"},
		{"too many signatures", github, map[string]string{"X-Hub-Signature-256": strings.Repeat(",", 16)}, "body", 0, "malformed: X-Hub-Signature-256 holds more than 16 signatures"},
		{"no timestamp", stripe, map[string]string{"Stripe-Signature": "v1=00"}, "body", 0, "malformed: Stripe-Signature does not contain exactly one t in Unix seconds"},
		{"another unit", Spec{Provider: "zendesk", Secrets: []string{"k"}}, map[string]string{"X-Zendesk-Webhook-Signature": "x", "X-Zendesk-Webhook-Signature-Timestamp": "1800000000"}, "body", 0,
			"malformed: X-Zendesk-Webhook-Signature-Timestamp does not contain exactly one timestamp in RFC 3339"},
		{"a body that is not JSON", Spec{Provider: "mailgun", Secrets: []string{"k"}}, nil, "body", 0, "malformed: the body cannot be read as JSON or as a form"},
		{"an old timestamp", stripe, map[string]string{"Stripe-Signature": stamped}, "body", 301 * time.Second, "timestamp: signed 301 s before receipt, tolerance 300 s"},
		{"a timestamp in the future", slack, inSlack, "body", -400 * time.Second, "timestamp: signed 400 s after receipt, tolerance 300 s"},
		{"an old token", dated, claims(map[string]any{"iat": signedAt - 301}), "", 0, "timestamp: issued 301 s before receipt, tolerance 300 s"},
		{"a token from the future", jwt, claims(map[string]any{"exp": signedAt, "iat": signedAt + 90}), "", 0, "timestamp: issued 90 s after receipt"},
		{"no secret matches", github, map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)}, "body", 0, "mismatch: no secret matched (of 2)"},
		{"no public key matches", Spec{Provider: "discord", PublicKeys: []string{publicText(pairs().ed)}},
			map[string]string{"X-Signature-Ed25519": strings.Repeat("0", 128), "X-Signature-Timestamp": "1800000000"}, "body", 0, "mismatch: no public key matched (of 1)"},
		{"no token matches", Spec{Provider: "gitlab", Secrets: []string{"a", "b"}}, map[string]string{"X-Gitlab-Token": "x"}, "", 0, "credentials: X-Gitlab-Token does not match a configured value (of 2)"},
		{"wrong password", Spec{Provider: "postmark", Secrets: []string{"a:b"}}, map[string]string{"Authorization": "Basic eA=="}, "", 0, "credentials: wrong username or password"},
		{"a key that cannot be fetched", Spec{Provider: "paypal", Options: map[string]string{"webhook_id": "1"}}, map[string]string{"Paypal-Transmission-Sig": strings.Repeat("A", 340) + "AA==", "Paypal-Transmission-Id": "1", "Paypal-Transmission-Time": "1",
			"Paypal-Auth-Algo": "SHA256withRSA", "Paypal-Cert-Url": "https://api.paypal.com/v1/notifications/certs/1"}, "", 0, "key_not_found: published keys are not fetched here"},
		{"a certificate of an untrusted host", Spec{Provider: "paypal", Options: map[string]string{"webhook_id": "1"}}, map[string]string{"Paypal-Transmission-Sig": strings.Repeat("A", 340) + "AA==", "Paypal-Transmission-Id": "1", "Paypal-Transmission-Time": "1",
			"Paypal-Auth-Algo": "SHA256withRSA", "Paypal-Cert-Url": "https://evil.example/1"}, "", 0, "key_not_found: the certificate's URL is not a URL of the provider"},
		{"no secret yet", Spec{Provider: "notion"}, nil, "", 0, "key_not_found: there is no secret yet: the provider has not sent its handshake"},
		{"an expired token", jwt, claims(map[string]any{"exp": signedAt - 90}), "", 0, "token: the token expired 90 s before receipt"},
		{"a token that is not valid yet", jwt, claims(map[string]any{"exp": signedAt, "nbf": signedAt + 90}), "", 0, "token: the token becomes valid 90 s after receipt"},
		{"a token without an expiry", jwt, claims(map[string]any{}), "", 0, "token: the token has no expiry (exp)"},
		{"a token of another issuer", jwt, claims(map[string]any{"exp": signedAt}), "", 0, "token: the token is from another issuer"},
		{"another value of a claim", jwt, claims(map[string]any{"exp": signedAt, "iss": "us", "email": "b"}), "", 0, "token: the token's email does not have the configured value"},
	} {
		resolved, faults := tt.spec.Resolve()
		if len(faults) > 0 {
			t.Fatalf("%s: %v", tt.claim, faults)
		}
		v, err := resolved.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := Vector{Headers: tt.headers, Body: tt.body, URL: "https://h.example/", Now: new(int64(signedAt))}.Request()
		r.At = r.At.Add(tt.after)
		err = v.Verify(t.Context(), r)
		if err == nil || !strings.HasPrefix(err.Error(), ErrSignature.Error()+": "+tt.want) || !strings.HasPrefix(RefusalText(err), tt.want) {
			t.Errorf("%s: got %v, want …%s", tt.claim, err, tt.want)
		}
	}
}

// A request without a time of receipt is refused and causes no panic.
func TestZeroTimeOfReceipt(t *testing.T) {
	c := Config{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"secret"}}
	r := signedFor(t, c, "secret", 10)
	r.At = time.Time{}
	if got := reasonOf(t, mustNew(t, c).Verify(t.Context(), r)); got != ReasonTimestamp {
		t.Errorf("got %q, want %q", got, ReasonTimestamp)
	}
}

// couldBeSignature matches texts that are long enough for a signature of at least
// 16 bytes.
var couldBeSignature = regexp.MustCompile(`[0-9A-Fa-f]{16,}|[0-9A-Za-z+/=]{24,}`)

// TestErrorsRevealNoSecrets checks the errors of all vectors: they contain no
// secret, no possible signature, and no part of the request.
func TestErrorsRevealNoSecrets(t *testing.T) {
	checked, texts := 0, map[string]bool{}
	check := func(claim string, err error, c Config, r *Request) {
		if err == nil {
			return
		}
		checked++
		texts[regexp.MustCompile(`\d+`).ReplaceAllString(err.Error(), "#")] = true
		text := withoutNames(err.Error(), c)
		if got := couldBeSignature.FindString(text); got != "" {
			t.Errorf("%s: %v contains %q", claim, err, got)
		}
		for _, s := range secretsOf(c) {
			if len(s) > 2 && strings.Contains(text, s) {
				t.Errorf("%s: %v contains the secret %q", claim, err, s)
			}
		}
		for _, sent := range sentTexts(r) {
			if piece := commonPiece(sent, text); piece != "" {
				t.Errorf("%s: %v contains %q of the request", claim, err, piece)
			}
		}
	}
	for scheme := range schemes {
		for _, v := range loadFolder[vector](t, filepath.Join("testdata", scheme)) {
			c := v.Config
			check(scheme+": "+v.Claim, mustNew(t, c).Verify(t.Context(), v.request()), c, v.request())
		}
	}
	ours := loadFolder[Vector](t, "testdata/presets")
	checkAll := func(all []Vector) {
		for _, v := range all {
			check(v.Provider+": "+v.Name, v.Verify(t.Context(), nil), resolve(t, v).Config, v.Request())
		}
	}
	checkAll(ours)
	t.Run("shared", func(t *testing.T) { checkAll(loadShared(t)) })
	if checked < 500 {
		t.Errorf("checked %d errors, want more", checked)
	}
	t.Logf("%d errors, %d texts", checked, len(texts))
}

// secretsOf returns all secrets of c, including passwords without their user.
func secretsOf(c Config) []string {
	secrets := slices.Concat(c.Secrets, c.Values, []string{c.Password})
	for _, s := range c.Values {
		if _, password, ok := strings.Cut(s, ":"); ok {
			secrets = append(secrets, password)
		}
	}
	return secrets
}

// withoutNames removes the parts of an error's text that are not secret: the names
// in c, and words of this package that requests also contain.
func withoutNames(text string, c Config) string {
	c.Secrets, c.Values, c.Password, c.PublicKeys = nil, nil, "", nil
	data, _ := json.Marshal(c)
	var members any
	_ = json.Unmarshal(data, &members)
	for _, name := range leaves(members) {
		text = strings.ReplaceAll(text, name, "")
	}
	return strings.NewReplacer("no secret matched", "", "signature", "", "timestamp", "", "certificate", "").Replace(text)
}

// sentTexts returns the values in a request, without their names.
func sentTexts(r *Request) []string {
	var texts []string
	for _, values := range r.Header {
		texts = append(texts, values...)
	}
	var body any
	switch form, err := neturl.ParseQuery(string(r.Body)); {
	case json.Unmarshal(r.Body, &body) == nil:
		texts = append(texts, leaves(body)...)
	case err == nil && strings.Contains(string(r.Body), "="):
		for _, values := range form {
			texts = append(texts, values...)
		}
	default:
		texts = append(texts, string(r.Body))
	}
	return texts
}

func leaves(v any) (texts []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			texts = append(texts, leaves(one)...)
		}
	case map[string]any:
		for _, one := range v {
			texts = append(texts, leaves(one)...)
		}
	}
	return texts
}

// commonPiece returns a part of a that b contains and that is too long to be a
// coincidence.
func commonPiece(a, b string) string {
	const length = 9
	for i := 0; i+length <= len(a); i++ {
		if strings.Contains(b, a[i:i+length]) {
			return a[i : i+length]
		}
	}
	return ""
}
