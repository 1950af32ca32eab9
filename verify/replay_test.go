package verify_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// A preset whose captured requests can become new events has a reason why it does
// not protect against this by default.
func TestEveryPresetClassifiesCapturedRequests(t *testing.T) {
	kinds := map[verify.Captured]int{}
	for _, p := range verify.Presets() {
		kind, text := p.Captured()
		kinds[kind]++
		if (kind == verify.CapturedNewEvent) != (p.Repeats != "") {
			t.Errorf("%s/%s: Captured is %s, but Repeats is %q", p.ID, p.Scheme, kind, p.Repeats)
		}
		if !strings.HasSuffix(text, ".") || strings.Contains(text, ": .") {
			t.Errorf("%s/%s: got %q, want a sentence", p.ID, p.Scheme, text)
		}
		if p.ReplayProtection != "" && (p.ReplayProtection != eventhook.ReplayBody || !p.CoversBody()) {
			t.Errorf("%s/%s: replay protection %q of requests whose body is covered: %t", p.ID, p.Scheme, p.ReplayProtection, p.CoversBody())
		}
	}
	for _, kind := range []verify.Captured{verify.CapturedDuplicate, verify.CapturedNewEvent, verify.CapturedAnyBody} {
		if kinds[kind] == 0 {
			t.Errorf("no preset is of the kind %q", kind)
		}
	}
}

func TestCaptured(t *testing.T) {
	for _, c := range []struct {
		provider, scheme string
		want             verify.Captured
		says             string
	}{
		{"razorpay", "", verify.CapturedDuplicate, "the same signed bytes are accepted once"},
		{"github", "", verify.CapturedNewEvent, "at any time, because its id is not signed"},
		{"stripe", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"asana", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"svix", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"twitch", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"mailgun", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"adyen", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"paypal", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"aws-sns", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"netlify", "", verify.CapturedDuplicate, "the signature covers the id"},
		{"shopify", "", verify.CapturedNewEvent, "with equal bytes: several topics"},
		{"contentful", "", verify.CapturedNewEvent, "within 30 s"},
		{"zendesk", "", verify.CapturedNewEvent, "at any time"},
		{"plaid", "", verify.CapturedNewEvent, "within 300 s, because the request has no id"},
		{"dropbox", "", verify.CapturedNewEvent, "the request has no id"},
		{"gitlab", "", verify.CapturedAnyBody, "any body"},
		{"google-pubsub", "", verify.CapturedAnyBody, "until the token expires"},
	} {
		p, _ := verify.FindPreset(c.provider, c.scheme)
		if kind, text := p.Captured(); kind != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: got %q, %q; want %q, …%s…", c.provider, kind, text, c.want, c.says)
		}
	}
}

func TestDefaultReplayProtection(t *testing.T) {
	for _, c := range []struct {
		spec verify.Spec
		want string
	}{
		{verify.Spec{Provider: "razorpay"}, "body"},
		{verify.Spec{Provider: "github"}, "off"},
		{verify.Spec{Provider: "shopify"}, "off"},
		{verify.Spec{Provider: "stripe"}, "off"},
		{verify.Spec{Provider: "github", Verifier: &verify.Config{Type: "hmac"}}, "off"},
		{verify.Spec{Verifier: &verify.Config{Type: "hmac"}}, "off"},
		{verify.Spec{Provider: "unknown"}, "off"},
	} {
		if got := c.spec.ReplayProtection(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.spec, got, c.want)
		}
	}
}

// signedHashOf returns the SignedHash of a request.
func signedHashOf(t *testing.T, c verify.Config, r verify.Request) string {
	t.Helper()
	v, err := verify.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := verify.SignedHash(v, &r)
	return hex.EncodeToString(sum[:])
}

func TestSignedHashIsOfTheSignedBytes(t *testing.T) {
	at := time.Unix(1700000000, 0)
	const form = "application/x-www-form-urlencoded"
	secrets := []string{"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	for _, c := range []struct {
		claim  string
		config verify.Config
		header http.Header
		body   string
		signed string
	}{
		{"a body", verify.Config{Type: "hmac", Header: "X-Sig", Secrets: secrets}, http.Header{"X-Sig": {"00"}, "Content-Type": {form}}, `a=1`, `a=1`},
		{"a timestamp in the list", verify.Config{Type: "timestamped_hmac", Header: "X-Sig", Secrets: secrets},
			http.Header{"X-Sig": {"t=17,v1=00,v0=11"}}, `{}`, `17.{}`},
		{"a timestamp in a header", verify.Config{Type: "timestamped_hmac", Header: "X-Sig", TimestampHeader: "X-At", Signed: "v0:{timestamp}:{body}", Secrets: secrets},
			http.Header{"X-Sig": {"00"}, "X-At": {"17"}}, `{}`, `v0:17:{}`},
		{"a URL", verify.Config{Type: "hmac", Header: "X-Sig", Signed: "{body}{url}", Secrets: secrets}, http.Header{"X-Sig": {"00"}}, `{}`, `{}https://h.example/in?q=1`},
		{"Standard Webhooks", verify.Config{Type: "standard_webhooks", Secrets: secrets},
			http.Header{"Webhook-Signature": {"v1,AA=="}, "Webhook-Id": {"m"}, "Webhook-Timestamp": {"17"}}, `{}`, `m.17.{}`},
		{"a form whose fields are signed", verify.Config{Type: "url_form_hmac", Header: "X-Sig", Secrets: secrets},
			http.Header{"X-Sig": {"00"}, "Content-Type": {form}}, `b=2&a=1&a=1`, `https://h.example/in?q=1a1b2`},
		{"fields of a body", verify.Config{Type: "body_hmac", Path: "sig", Signed: "{field.id}|{field.at}", Secrets: secrets},
			http.Header{"Content-Type": {"application/json"}}, `{"sig":"00","id":"m","at":17,"more":1}`, `m|17`},
		{"a token, which signs nothing", verify.Config{Type: "api_key", Header: "X-Key", Values: secrets}, http.Header{"X-Key": {"k"}}, `{}`, `{}`},
	} {
		sum := sha256.Sum256([]byte(c.signed))
		r := verify.Request{Method: "POST", URL: "https://h.example/in?q=1", Header: c.header, Body: []byte(c.body), At: at}
		if got, want := signedHashOf(t, c.config, r), hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: the hash is not that of %q", c.claim, c.signed)
		}
	}
}
