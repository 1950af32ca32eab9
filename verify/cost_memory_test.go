package verify

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// Verification of a large body, valid or not, allocates at most MemoryCost.
func TestMemoryCostBoundsVerification(t *testing.T) {
	const size = 4 << 20
	long := strings.Repeat("x", size)
	hex := strings.Repeat("0", 64)
	type claim struct {
		config            Config
		contentType, body string
		header            string
	}
	for name, c := range map[string]claim{
		"a MAC of the body": {Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"s"}}, "application/json", long, hex},
		"a reserved pattern": {Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"s"}, Signed: "{header.x-id}.{body}", Reserved: "^ping"},
			"application/json", long, hex},
		"a field": {Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"s"}}, "application/json",
			`{"sig":"` + hex + `","a":"` + long + `"}`, ""},
		"an escaped field": {Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"s"}}, "application/json",
			`{"sig":"` + hex + `","a":"` + strings.Repeat(`\u0041`, size/6) + `"}`, ""},
		"an absent field": {Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"s"}}, "application/json", `["` + long + `"]`, ""},
		"a field of a form": {Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"s"}}, "application/x-www-form-urlencoded",
			"sig=" + hex + "&a=" + strings.Repeat("%01", size/3), ""},
		"a token":      {Config{Type: "api_key", Path: "token", Values: []string{"s"}}, "application/json", `{"token":"` + long + `"}`, ""},
		"a public key": {Config{Type: "public_key", Header: "X-Sig", PublicKeys: []string{publicText(pairs().ed)}}, "application/json", long, strings.Repeat("0", 128)},
		"a form": {Config{Type: "url_form_hmac", Header: "X-Sig", Encoding: "hex", Algorithm: "sha256", Secrets: []string{"s"}},
			"application/x-www-form-urlencoded", strings.Repeat("a=%41b&", 9999) + long, hex},
		"SNS": {Config{Type: "aws_sns"}, "text/plain", `{"Type":"Notification","SignatureVersion":"2","Message":"` + strings.Repeat(`\u0041`, size/6) +
			`","MessageId":"1","Timestamp":"2026","TopicArn":"arn"}`, ""},
	} {
		v, err := New(c.config, &fakeKeys{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := &Request{Method: http.MethodPost, URL: "https://hooks.example/in", Body: []byte(c.body),
			Header: http.Header{"Content-Type": {c.contentType}, "X-Sig": {c.header}, "X-Id": {"1"}}}
		cost := 0
		if of := c.config.MemoryCost(); of != nil {
			cost = of(c.contentType, r.Body)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = v.Verify(context.Background(), r)
		runtime.ReadMemStats(&after)
		if used := int(after.TotalAlloc - before.TotalAlloc); used > cost+16<<10 {
			t.Errorf("%s: verification of %d bytes allocates %d, and its cost is %d (%v)", name, len(c.body), used, cost, err)
		} else {
			t.Logf("%s: %d bytes, allocated %d, cost %d (%v)", name, len(c.body), used, cost, err)
		}
	}
}

// Bodies with a content encoding are not decoded for unauthenticated requests.
func TestFieldsOfEncodedBodyAreNotRead(t *testing.T) {
	v, err := New(Config{Type: "api_key", Path: "token", Values: []string{"s"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for encoding, want := range map[string]error{"": nil, "identity": nil, "gzip": errEncoded, "deflate": errEncoded, "br": errEncoded} {
		r := &Request{Body: []byte(`{"token":"s"}`), Header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {encoding}}}
		if got := v.Verify(context.Background(), r); !errors.Is(got, want) && got != want {
			t.Errorf("Content-Encoding %q: got %v, want %v", encoding, got, want)
		}
	}
}
