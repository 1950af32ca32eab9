package auth_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/auth"
)

// The key of the examples in the documentation of AWS.
const (
	awsID  = "AKIDEXAMPLE"
	awsKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// awsSignature computes the signature of a received request, written from the documentation
// alone: "Create a signed AWS API request" in the IAM User Guide.
func awsSignature(r *http.Request, body []byte, scope string, signed []string) string {
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, awsPath(r.URL.EscapedPath(), scope), awsQuery(r.URL.Query()))
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", strings.Join(signed, ";"), hexSHA256(body))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, hexSHA256([]byte(canonical.String()))}, "\n")
	key := []byte("AWS4" + awsKey)
	for step := range strings.SplitSeq(scope, "/") {
		key = hmacSHA256(key, step)
	}
	return hex.EncodeToString(hmacSHA256(key, text))
}

// awsPath escapes the path once more, except for S3.
func awsPath(escaped, scope string) string {
	if escaped == "" {
		escaped = "/"
	}
	if strings.Contains(scope, "/s3/") {
		return escaped
	}
	return strings.ReplaceAll(awsEscape(escaped), "%2F", "/")
}

func awsEscape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func awsQuery(values url.Values) string {
	var pairs []string
	for name, all := range values {
		for _, value := range all {
			pairs = append(pairs, awsEscape(name)+"="+awsEscape(value))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// The vectors get-vanilla, post-vanilla and get-vanilla-query-order-key-case of the test suite
// of AWS check the verifier above.
func TestTheVerifierKnowsTheVectorsOfAWS(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"GET", "/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
	} {
		r := httptest.NewRequest(c.method, "https://example.amazonaws.com"+c.path, http.NoBody)
		r.Header.Set("X-Amz-Date", "20150830T123600Z")
		if got := awsSignature(r, nil, "20150830/us-east-1/service/aws4_request", []string{"host", "x-amz-date"}); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.method, c.path, got, c.want)
		}
	}
}

// newAWSServer starts a server that accepts a request as AWS does: if the signature covers
// what arrived. Proxies may add and change other headers.
func newAWSServer(t *testing.T, scope string) *httptest.Server {
	t.Helper()
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		prefix := "AWS4-HMAC-SHA256 Credential=" + awsID + "/" + scope + ", SignedHeaders="
		rest, isOurs := strings.CutPrefix(r.Header.Get("Authorization"), prefix)
		names, signature, _ := strings.Cut(rest, ", Signature=")
		signed := strings.Split(names, ";")
		for _, name := range []string{"host", "x-amz-date", "content-type", "x-amz-content-sha256", "x-amz-target"} {
			if !slices.Contains(signed, name) {
				t.Errorf("%s is not signed: %s", name, names)
			}
		}
		if strings.Contains(r.URL.RawQuery, "+") {
			t.Errorf("the query %q has a plus, which AWS does not take for a space", r.URL.RawQuery)
		}
		r.Header.Set("Webhook-Signature", "changed by a proxy")
		if !isOurs || r.Header.Get("X-Amz-Content-Sha256") != hexSHA256(body) || signature != awsSignature(r, body, scope, signed) {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, "got "+r.Header.Get("Authorization"))
	})
}

func TestAWSSignatures(t *testing.T) {
	at := newClock()
	for _, c := range []struct{ claim, service, path string }{
		{"a function", "lambda", "/"},
		{"no path", "lambda", ""},
		{"an API", "execute-api", "/prod/hook"},
		{"a query", "execute-api", "/prod/hook?b=2&a=1&a=0&c=%2F+x&d"},
		{"a path with escapes", "execute-api", "/prod/a%20b/%C3%A9%2Fc/~x'(y)"},
		{"an object", "s3", "/bucket/a%20b/%C3%A9"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			server := newAWSServer(t, "20260310/eu-west-1/"+c.service+"/aws4_request")
			all := clients(private(), at.now)
			a := eventhook.Auth{Type: eventhook.AuthAWS, AccessKeyID: awsID, SecretAccessKey: awsKey, Region: "eu-west-1", Service: c.service}
			status, answer := postAWS(t, all, a, server.URL+c.path)
			if status != 200 || strings.Contains(answer, "Signature=") {
				t.Errorf("got %d, %q; want 200 and a masked signature", status, answer)
			}
			a.SecretAccessKey = strings.ToLower(awsKey)
			if status, _ := postAWS(t, all, a, server.URL+c.path); status != http.StatusForbidden {
				t.Errorf("with another key: got %d, want 403", status)
			}
		})
	}
}

func postAWS(t *testing.T, all *auth.Clients, a eventhook.Auth, to string) (status int, answer string) {
	t.Helper()
	c := clientFor(t, all, a)
	r := newRequest(t, to)
	r.Header.Set("X-Amz-Target", "Events.Put")
	r.Header.Set("X-Amz-Content-Sha256", "not the hash")
	status, _, beginning, err := c.Exchange(t.Context(), r, 100)
	if err != nil || !bytes.HasPrefix(beginning, []byte("got ")) {
		t.Errorf("got %q, %v", beginning, err)
	}
	return status, string(beginning)
}
