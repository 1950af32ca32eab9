package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	neturl "net/url"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The tests in this file reuse valid signatures of other requests.

// verifierOf returns the verifier of a valid Spec.
func verifierOf(t *testing.T, s Spec) Verifier {
	t.Helper()
	resolved, faults := s.Resolve()
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	v, err := resolved.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantReason(t *testing.T, claim string, v Verifier, r *Request, want Reason) {
	t.Helper()
	if got := reasonOf(t, v.Verify(t.Context(), r)); got != want {
		t.Errorf("%s: got %q, want %q", claim, got, want)
	}
}

// The handshakes of X and Braintree sign a caller's challenge with the secret of the webhooks.
func TestHandshakeChallengesAreNotWebhooks(t *testing.T) {
	x := verifierOf(t, Spec{Provider: "x-twitter", Secrets: []string{"secret"}})
	for body, want := range map[string]Reason{"12345": ReasonMalformed, "true": ReasonMalformed, "a=": ReasonMalformed, `{"a":1}`: ""} {
		sig := "sha256=" + base64.StdEncoding.EncodeToString(macOf("sha256", []byte("secret"), body))
		wantReason(t, "x: "+body, x, &Request{Header: http.Header{"X-Twitter-Webhooks-Signature": {sig}}, Body: []byte(body)}, want)
	}
	spelled := verifierOf(t, Spec{Provider: "x-twitter", Verifier: &Config{Type: "hmac", Header: "X-Twitter-Webhooks-Signature", Encoding: "base64", Prefix: "sha256=", Secrets: []string{"secret"}}})
	sig := "sha256=" + base64.StdEncoding.EncodeToString(macOf("sha256", []byte("secret"), "12345"))
	wantReason(t, "x, with its own verifier", spelled, &Request{Header: http.Header{"X-Twitter-Webhooks-Signature": {sig}}, Body: []byte("12345")}, ReasonMalformed)
	braintree := verifierOf(t, Spec{Provider: "braintree", Secrets: []string{"secret"}, Options: map[string]string{"public_key_id": "us"}})
	for payload, want := range map[string]Reason{strings.Repeat("a", 20): ReasonMalformed, strings.Repeat("a", 32): ReasonMalformed, strings.Repeat("QUJD", 30): ""} {
		key := plainHash("sha1")()
		key.Write([]byte("secret"))
		form := neturl.Values{"bt_payload": {payload}, "bt_signature": {"us|" + hex.EncodeToString(macOf("sha1", key.Sum(nil), payload))}}
		wantReason(t, "braintree: "+payload, braintree, &Request{Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte(form.Encode())}, want)
	}
}

// The id header of the other family is not signed, and idempotency key paths could read it first.
func TestUnsignedIDMustEqualSignedID(t *testing.T) {
	v := verifierOf(t, Spec{Provider: "svix", Secrets: []string{"whsec_c2VjcmV0"}})
	sig := "v1," + base64.StdEncoding.EncodeToString(macOf("sha256", []byte("secret"), "msg_1.1800000000.{}"))
	for id, want := range map[string]Reason{"": "", "msg_1": "", "msg_2": ReasonMalformed} {
		r := &Request{At: time.Unix(1_800_000_000, 0), Body: []byte("{}"), Header: http.Header{
			"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {"1800000000"}, "Webhook-Signature": {sig}}}
		if id != "" {
			r.Header.Set("svix-id", id)
		}
		wantReason(t, "svix-id "+id, v, r, want)
	}
}

// An attacker cannot move bytes between adjacent parts of the signed text.
func TestBytesCannotMoveBetweenParts(t *testing.T) {
	twitch := verifierOf(t, Spec{Provider: "twitch", Secrets: []string{"secret"}})
	const id, stamp, later = "id-1", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"
	body := `{"locks_at":"` + later + `","x":1}`
	before, after, _ := strings.Cut(body, later)
	moved := func(id, stamp, body string, at string) *Request {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return &Request{At: moment, Body: []byte(body), Header: http.Header{"Twitch-Eventsub-Message-Id": {id}, "Twitch-Eventsub-Message-Timestamp": {stamp},
			"Twitch-Eventsub-Message-Signature": {"sha256=" + hexMAC("secret", id+stamp+body)}}}
	}
	wantReason(t, "twitch, as it was sent", twitch, moved(id, stamp, body, stamp), "")
	wantReason(t, "twitch, two hours later", twitch, moved(id+stamp+before, later, after, later), ReasonMalformed)

	stamped := mustNew(t, Config{Type: "timestamped_hmac", Header: "X-Sig", TimestampHeader: "X-At", Signed: "{timestamp}{body}", ToleranceSeconds: new(0), Secrets: []string{"secret"}})
	for stamp, body := range map[string]string{"1800000000": "{}", "180000000": "0{}"} {
		want := Reason("")
		if body != "{}" {
			want = ReasonMalformed
		}
		wantReason(t, "timestamp and body", stamped, &Request{Body: []byte(body), Header: http.Header{"X-At": {stamp}, "X-Sig": {hexMAC("secret", stamp+body)}}}, want)
	}

	square := verifierOf(t, Spec{Provider: "square", Secrets: []string{"secret"}})
	const message = `https://h.example/in{"event_id":"1","a":2}`
	for _, cut := range []string{`{"event_id"`, `"1"`, `/in`, `}`} {
		at := strings.Index(message, cut)
		want := ReasonMalformed
		if cut == `{"event_id"` {
			want = ""
		}
		wantReason(t, "square, cut at "+cut, square, &Request{URL: message[:at], Body: []byte(message[at:]),
			Header: http.Header{"X-Square-Hmacsha256-Signature": {base64.StdEncoding.EncodeToString(macOf("sha256", []byte("secret"), message))}}}, want)
	}
}

// An attacker cannot move a bracket of the body into the URL's query.
func TestBracketCannotMoveIntoQuery(t *testing.T) {
	square := verifierOf(t, Spec{Provider: "square", Secrets: []string{"secret"}})
	const message = `https://h.example/in?a=[{"event_id":"1"}]`
	for _, cut := range []string{`[{"event_id"`, `{"event_id"`} {
		at, want := strings.Index(message, cut), ReasonMalformed
		if cut[0] == '[' {
			want = ""
		}
		wantReason(t, "cut at "+cut, square, &Request{URL: message[:at], Body: []byte(message[at:]),
			Header: http.Header{"X-Square-Hmacsha256-Signature": {base64.StdEncoding.EncodeToString(macOf("sha256", []byte("secret"), message))}}}, want)
	}
}

// The author of a Twilio message controls a part of a form, and could learn the form's signature.
func TestFormCannotMoveIntoURL(t *testing.T) {
	v := verifierOf(t, Spec{Provider: "twilio", Secrets: []string{"secret"}})
	forged := `{"forged":true}`
	sum := sha256.Sum256([]byte(forged))
	chosen := "x&bodySHA256=" + hex.EncodeToString(sum[:]) + "&z="
	const base = "https://h.example/in?x=1"
	sig := base64.StdEncoding.EncodeToString(macOf("sha1", []byte("secret"), base+"Body"+chosen+"From1"))
	genuine := neturl.Values{"Body": {chosen}, "From": {"1"}}.Encode()
	header := func(contentType string) http.Header {
		return http.Header{"Content-Type": {contentType}, "X-Twilio-Signature": {sig}}
	}
	wantReason(t, "the form", v, &Request{Method: "POST", URL: base, Body: []byte(genuine), Header: header("application/x-www-form-urlencoded")}, "")
	wantReason(t, "another body", v, &Request{Method: "POST", URL: base + "Body" + chosen + "From1", Body: []byte(forged), Header: header("application/json")}, ReasonMissingField)
	wantReason(t, "no body", v, &Request{Method: "POST", URL: base + "Body" + chosen + "From1", Header: header("application/json")}, ReasonMissingField)
}

// The signature of a form covers its fields, not its bytes, even if the URL has a hash of the
// body.
func TestFormWithBodyHashIsVerifiedAsForm(t *testing.T) {
	v := verifierOf(t, Spec{Provider: "twilio", Secrets: []string{"secret"}})
	const body = "From=1"
	sum := sha256.Sum256([]byte(body))
	at := "https://h.example/in?bodySHA256=" + hex.EncodeToString(sum[:])
	for signed, want := range map[string]Reason{at + "From1": "", at: ReasonMismatch} {
		sig := base64.StdEncoding.EncodeToString(macOf("sha1", []byte("secret"), signed))
		wantReason(t, "signed "+signed, v, &Request{Method: "POST", URL: at, Body: []byte(body), Header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "X-Twilio-Signature": {sig}}}, want)
	}
}

// A line break in an id could imitate the field Subject.
func TestSNSFieldsCannotContainLineBreaks(t *testing.T) {
	v := mustNew(t, Config{Type: "aws_sns", PublicKeys: []string{publicText(pairs().rsa)}})
	message := "Message\nhello\nMessageId\n1\nSubject\nurgent\nTimestamp\nnow\nTopicArn\narn\nType\nNotification\n"
	sig := base64.StdEncoding.EncodeToString(privateSignature(t, "rsa_sha256", message))
	for id, want := range map[string]Reason{`1","Subject":"urgent`: "", `1\nSubject\nurgent`: ReasonMalformed} {
		body := `{"Message":"hello","MessageId":"` + id + `","Timestamp":"now","TopicArn":"arn","Type":"Notification","SignatureVersion":"2",` +
			`"SigningCertURL":"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0a.pem","Signature":"` + sig + `"}`
		wantReason(t, id, v, &Request{Header: http.Header{}, Body: []byte(body)}, want)
	}
}

// A request without a time of receipt is refused, even with AllowFuture.
func TestZeroReceiptTimeIsRefused(t *testing.T) {
	stripe := verifierOf(t, Spec{Provider: "stripe", Secrets: []string{"secret"}})
	sig := "t=1000,v1=" + hexMAC("secret", "1000.{}")
	wantReason(t, "stripe", stripe, &Request{Header: http.Header{"Stripe-Signature": {sig}}, Body: []byte("{}")}, ReasonTimestamp)
	token := mustNew(t, Config{Type: "jwt", Algorithm: "HS256", Secrets: []string{"secret"}})
	bearer := "Bearer " + plainJWT(t, "HS256", map[string]any{"alg": "HS256"}, map[string]any{"exp": 1000}, []byte("secret"))
	wantReason(t, "jwt", token, &Request{Header: http.Header{"Authorization": {bearer}}}, ReasonTimestamp)
}

// A body with too many elements is refused without collecting them.
func TestManyElementsNeedNoMemory(t *testing.T) {
	for _, tt := range []struct {
		claim string
		spec  Spec
		body  string
		want  Reason
	}{
		{"a token in each", Spec{Provider: "microsoft-graph", Secrets: []string{"s"}}, `{"value":[` + strings.Repeat("0,", 1<<19) + `0]}`, ReasonCredentials},
		{"a signature in each", Spec{Provider: "adyen", Secrets: []string{"00"}}, `{"notificationItems":[` + strings.Repeat("0,", 1<<19) + `0]}`, ReasonMissingField},
		{"too many valid elements", Spec{Provider: "microsoft-graph", Secrets: []string{"s"}}, `{"value":[` + strings.Repeat(`{"clientState":"s"},`, maxItems) + `{"clientState":"s"}]}`, ReasonMalformed},
	} {
		v, r := verifierOf(t, tt.spec), &Request{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(tt.body)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		wantReason(t, tt.claim, v, r, tt.want)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 4*uint64(len(tt.body)) {
			t.Errorf("%s: %d bytes for a body of %d", tt.claim, used, len(tt.body))
		}
	}
}
