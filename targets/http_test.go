package targets_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// httpTarget is one with more members, such as `"body":"raw"`.
func httpTarget(more ...string) string {
	return `{"type":"http","url":"https://internal.example/hook"` + strings.Join(append([]string{""}, more...), ",") + `}`
}

func TestHTTPFaults(t *testing.T) {
	header := func(name, value string) string {
		raw, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			t.Fatal(err)
		}
		return httpTarget(`"headers":` + string(raw))
	}
	url := func(text string) string { return `{"type":"http","url":"` + text + `"}` }
	many := map[string]string{}
	for i := range 51 {
		many["X-"+strings.Repeat("a", i+1)] = "x"
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		claim, text string
		want        []string
	}{
		{"the least", httpTarget(), nil},
		{"http, a port and a query", url("http://10.0.0.1:8080/a?b=c"), nil},
		{"an IPv6 address", url("http://[::1]:8080/"), nil},
		{"no URL", `{"type":"http"}`, []string{"url"}},
		{"no scheme", url("internal.example/hook"), []string{"url"}},
		{"another scheme", url("ftp://internal.example/hook"), []string{"url"}},
		{"no host", url("https:///hook"), []string{"url"}},
		{"only a port", url("https://:443/hook"), []string{"url"}},
		{"an opaque one", url("https:internal.example"), []string{"url"}},
		{"a port that is none", url("https://internal.example:x/"), []string{"url"}},
		{"a user", url("https://user@internal.example/"), []string{"url"}},
		{"a password", url("https://user:" + strings.TrimSuffix(hush, "&<>") + "@internal.example/"), []string{"url"}},
		{"a fragment", url("https://internal.example/#a"), []string{"url"}},
		{"an empty fragment", url("https://internal.example/#"), []string{"url"}},
		{"two lines", url(`https://internal.example/\r\nX: y`), []string{"url"}},
		{"a long one", url("https://internal.example/" + strings.Repeat("x", 2048)), []string{"url"}},
		{"another method", httpTarget(`"method":"GET"`), []string{"method"}},
		{"a method in lower case", httpTarget(`"method":"post"`), []string{"method"}},
		{"too little time", httpTarget(`"timeout_seconds":-1`), []string{"timeout_seconds"}},
		{"too much time", httpTarget(`"timeout_seconds":61`), []string{"timeout_seconds"}},
		{"another body", httpTarget(`"body":"xml"`), []string{"body"}},
		{"a secret of two lines", httpTarget(`"auth_header":"` + hush + `\r\nX: y"`), []string{"auth_header"}},
		{"a secret with space around it", httpTarget(`"auth_header":" ` + hush + `"`), []string{"auth_header"}},
		{"too many headers", httpTarget(`"headers":` + string(tooMany)), []string{"headers"}},
		{"a header", header("X-Env", "prod, \"test\""), nil},
		{"a header twice", httpTarget(`"headers":{"X-Env":"a","x-env":"b"}`), []string{"headers.x-env"}},
		{"a header's name that is none", header("X Env", "a"), []string{"headers.X Env"}},
		{"a header without a name", header("", "a"), []string{"headers."}},
		{"a header without a value", header("X-Env", ""), []string{"headers.X-Env"}},
		{"a header of two lines", header("X-Env", "a\r\nX-Other: b"), []string{"headers.X-Env"}},
		{"a header of no text", header("X-Env", "a\x00"), []string{"headers.X-Env"}},
		{"a long header", header("X-Env", strings.Repeat("x", 4097)), []string{"headers.X-Env"}},
		{"the secret in the open", header("authorization", hush), []string{"headers.authorization"}},
		{"a cookie", header("Cookie", hush), []string{"headers.Cookie"}},
		{"a header of ours", header("x-eventhook-event-id", "a"), []string{"headers.x-eventhook-event-id"}},
		{"the key", header("Idempotency-Key", "a"), []string{"headers.Idempotency-Key"}},
		{"the content type", header("Content-Type", "text/plain"), []string{"headers.Content-Type"}},
		{"the trace", header("Traceparent", "a"), []string{"headers.Traceparent"}},
		{"one of the connection", header("Transfer-Encoding", "chunked"), []string{"headers.Transfer-Encoding"}},
		{"the host", header("Host", "a"), []string{"headers.Host"}},
		{"the length", header("content-length", "7"), []string{"headers.content-length"}},
		{"all at once", `{"type":"http","url":"x","method":"x","body":"x","timeout_seconds":99,"auth_header":"\n","headers":{"Host":"x"}}`,
			[]string{"url", "method", "body", "timeout_seconds", "auth_header", "headers.Host"}},
	} {
		_, faults := targets.Read([]byte(c.text), nil)
		wantFaults(t, c.claim, faults, c.want...)
	}
}

// recorder answers requests and keeps them.
type recorder struct {
	status   int
	header   http.Header
	err      error
	requests []*http.Request
	bodies   []string
}

func (r *recorder) Send(ctx context.Context, q *http.Request) (int, http.Header, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return 0, nil, err
	}
	r.requests, r.bodies = append(r.requests, q), append(r.bodies, string(body))
	return r.status, r.header, r.err
}

var (
	routeID  = eventhook.RouteID{1}
	sentByUs = []string{"Content-Type", "Idempotency-Key", "X-Eventhook-Attempt", "X-Eventhook-Event-Id"}
)

// callOf compiles an http target for a place, and is its call for an event.
func callOf(t *testing.T, to targets.Sender, text string, e *eventhook.Event) effects.Call {
	t.Helper()
	target := read(t, text)
	target.RouteID, target.Index = routeID, 3
	x, err := targets.New(target, targets.Deps{HTTP: to})
	if err != nil {
		t.Fatal(err)
	}
	effect, err := x.Effect(e, view(e), noon)
	if err != nil {
		t.Fatal(err)
	}
	return effect.Call
}

// flat are headers by their names.
func flat(h http.Header) map[string]string {
	all := map[string]string{}
	for name, values := range h {
		all[name] = strings.Join(values, " | ")
	}
	return all
}

func TestInputIsSentAsJSON(t *testing.T) {
	to := &recorder{status: 204}
	e := newEvent("application/x-www-form-urlencoded", "a=1")
	e.EventType, e.RequestID, e.TraceID, e.RetryCount = "push", "r-1", "0af7651916cd43dd8448eb211c80319c", 2
	e.Headers = []byte("X-Id: 7\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n")
	c := callOf(t, to, httpTarget(`"method":"PUT"`, `"headers":{"x-env":"prod"}`, `"auth_header":"Bearer `+hush+`"`, `"timeout_seconds":7`), e)
	if err := c.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := to.requests[0]
	if q.Method != "PUT" || q.URL.String() != "https://internal.example/hook" || to.bodies[0] != `{"a":"1"}` || q.ContentLength != int64(len(to.bodies[0])) {
		t.Errorf("got %s %s with %s of %d bytes", q.Method, q.URL, to.bodies[0], q.ContentLength)
	}
	if until, bounded := q.Context().Deadline(); !bounded || time.Until(until) > 7*time.Second || c.Timeout() != 7*time.Second {
		t.Errorf("it may take until %s and %s, want 7s", until, c.Timeout())
	}
	parent := q.Header.Get("Traceparent")
	q.Header.Del("Traceparent")
	want := map[string]string{
		"Content-Type": "application/json", "X-Env": "prod", "Authorization": "Bearer " + hush, "Idempotency-Key": e.ID.String() + "/" + routeID.String() + "/3",
		"X-Eventhook-Event-Id": e.ID.String(), "X-Eventhook-Event-Type": "push", "X-Eventhook-Attempt": "3", "X-Request-Id": "r-1",
	}
	if diff := cmp.Diff(want, flat(q.Header)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(parent, "00-"+e.TraceID+"-") || !strings.HasSuffix(parent, "-00") || strings.Contains(parent, "b7ad6b7169203331") {
		t.Errorf("got the traceparent %s, want the trace, the flags it came with and a span of its own", parent)
	}
	if err := c.Do(t.Context()); err != nil || to.bodies[1] != to.bodies[0] || to.requests[1].Header.Get("Idempotency-Key") != want["Idempotency-Key"] {
		t.Errorf("again: got %v, %s with the key %s", err, to.bodies[1], to.requests[1].Header.Get("Idempotency-Key"))
	}
	if again := to.requests[1].Header.Get("Traceparent"); again == parent {
		t.Errorf("again: got the same span in %s", again)
	}
}

func TestWhatAnEventHasNotIsNotSent(t *testing.T) {
	to := &recorder{status: 200}
	e := newEvent("application/json", `{}`)
	e.EventType = "a\nb" // no header's value
	if err := callOf(t, to, httpTarget(), e).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range to.requests[0].Header {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(sentByUs, names); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestRawIsSentAsItCame(t *testing.T) {
	to := &recorder{status: 200}
	const body = "\xff\x00 {\"a\": 1}"
	e := newEvent("text/x-odd", body)
	e.Headers = []byte(strings.Join([]string{
		"Content-Type: text/x-odd", "X-Hub-Signature-256: sha256=00ff", "X-Many: one", "X-Many: two", "webhook-id: msg_1",
		"Authorization: [redacted]", "X-Api-Key: [redacted]", "Cookie: a=b", // credentials
		"Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: 5", "Transfer-Encoding: chunked", "TE: trailers", "Upgrade: h2c", // of the connection
		"Host: hooks.example", "Content-Length: 11", "Accept-Encoding: gzip", "User-Agent: Provider/1", // of the transport
		"X-Forwarded-For: 192.0.2.1", "x-forwarded-proto: https", "Forwarded: for=192.0.2.1", "Via: 1.1 proxy", "X-Real-IP: 192.0.2.1", // of the way
		"X-Eventhook-Event-Id: forged", "X-Eventhook-Signature: forged", "Idempotency-Key: theirs", "Traceparent: theirs", // ours
		"X-HTTP-Method: GET", "x-http-method-override: DELETE", "X-Method-Override: PUT", "X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-Original-Host: a", // what is meant
		"Proxy: evil.example", "Proxy-Anything: a", "X-Envoy-Original-Path: /admin", "X-Accel-Redirect: /secret", "X-Sendfile: /secret", "X-Sendfile-Type: a",
		"X_HTTP_Method_Override: DELETE", "X_Forwarded_For: 192.0.2.1", "X-Forwarded: a", "True-Client-IP: 192.0.2.1", "CF-Connecting-IPv6: 2001:db8::1", "CF-IPCountry: DE", "CF-Ray: 1",
		"Cf-Access-Jwt-Assertion: forged", "Expect: 100-continue", "Trailer: X-Last",
		"X-Env: theirs", "X-Odd: a\x01b",
	}, "\r\n") + "\r\n")
	if err := callOf(t, to, httpTarget(`"body":"raw"`, `"headers":{"X-Env":"ours"}`), e).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if to.bodies[0] != body {
		t.Errorf("got the body %q, want %q", to.bodies[0], body)
	}
	want := map[string]string{
		"Content-Type": "text/x-odd", "X-Hub-Signature-256": "sha256=00ff", "X-Many": "one | two", "Webhook-Id": "msg_1", "X-Env": "ours",
		"Idempotency-Key": e.ID.String() + "/" + routeID.String() + "/3", "X-Eventhook-Event-Id": e.ID.String(), "X-Eventhook-Attempt": "1",
	}
	if diff := cmp.Diff(want, flat(to.requests[0].Header)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestWhatProvidersSignWithIsPassedOn(t *testing.T) {
	for _, p := range append(verify.Presets(), verify.Preset{ID: "cloudflare", Verifier: verify.Config{Header: "Cf-Webhook-Auth"}}) {
		to, e := &recorder{status: 200}, newEvent("application/json", "{}")
		for _, name := range append([]string{p.Verifier.Header, p.Verifier.TimestampHeader}, p.Verifier.AlsoHeaders...) {
			if name == "" || name == "Authorization" { // a credential
				continue
			}
			e.Headers = []byte(name + ": v1\r\n")
			if err := callOf(t, to, httpTarget(`"body":"raw"`), e).Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := to.requests[len(to.requests)-1].Header.Get(name); got != "v1" {
				t.Errorf("%s: got %s: %q, want v1", p.ID, name, got)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	for _, c := range []struct {
		claim  string
		answer recorder
		want   *effects.CallError
	}{
		{"200", recorder{status: 200}, nil},
		{"299", recorder{status: 299}, nil},
		{"199", recorder{status: 199}, &effects.CallError{Message: "internal.example answered 199"}},
		{"a redirect", recorder{status: 302}, &effects.CallError{Message: "internal.example answered 302 Found; redirects are not followed"}},
		{"not found", recorder{status: 404}, &effects.CallError{Message: "internal.example answered 404 Not Found"}},
		{"gone", recorder{status: 410}, &effects.CallError{Message: "internal.example answered 410 Gone", Permanent: true}},
		{"a made-up status", recorder{status: 799}, &effects.CallError{Message: "internal.example answered 799"}},
		{"503", recorder{status: 503}, &effects.CallError{Message: "internal.example answered 503 Service Unavailable"}},
		{"503 for a while", recorder{status: 503, header: http.Header{"Retry-After": {"120"}}},
			&effects.CallError{Message: "internal.example answered 503 Service Unavailable", After: 2 * time.Minute}},
		{"429 for ever", recorder{status: 429, header: http.Header{"Retry-After": {"9223372036854775807"}}},
			&effects.CallError{Message: "internal.example answered 429 Too Many Requests", After: 24 * time.Hour}},
		{"429 until the past", recorder{status: 429, header: http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}}}, &effects.CallError{Message: "internal.example answered 429 Too Many Requests"}},
		{"429 and nonsense", recorder{status: 429, header: http.Header{"Retry-After": {"-5"}}}, &effects.CallError{Message: "internal.example answered 429 Too Many Requests"}},
		{"500 heeds none", recorder{status: 500, header: http.Header{"Retry-After": {"120"}}}, &effects.CallError{Message: "internal.example answered 500 Internal Server Error"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			err := callOf(t, &c.answer, httpTarget(`"auth_header":"`+hush+`"`), newEvent("", "")).Do(t.Context())
			got, _ := errors.AsType[*effects.CallError](err)
			if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.want == nil) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	until := recorder{status: 429, header: http.Header{"Retry-After": {soon.UTC().Format(http.TimeFormat)}}}
	err, _ := errors.AsType[*effects.CallError](callOf(t, &until, httpTarget(), newEvent("", "")).Do(t.Context()))
	if err == nil || err.After < 55*time.Minute || err.After > time.Hour {
		t.Errorf("429 until a moment: got %v, want about an hour", err)
	}
}

func TestNoAnswer(t *testing.T) {
	refused := errors.New("the address is not allowed")
	if err := callOf(t, &recorder{err: refused}, httpTarget(), newEvent("", "")).Do(t.Context()); !errors.Is(err, refused) {
		t.Errorf("got %v, want what the sender says", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := callOf(t, &recorder{}, httpTarget(), newEvent("", "")).Do(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
	if err := callOf(t, nil, httpTarget(), newEvent("", "")).Do(t.Context()); err == nil || !strings.Contains(err.Error(), "makes no requests") {
		t.Errorf("without a sender: got %v, want it said", err)
	}
}

func TestInputOfACallIsForPeople(t *testing.T) {
	big := strings.Repeat("x", 70_000)
	for _, c := range []struct{ claim, target, body, want string }{
		{"JSON as JSON", httpTarget(), `{"n":9007199254740993}`, `"body":{"n":9007199254740993}}`},
		{"raw as a text", httpTarget(`"body":"raw"`), `{"a": "<&>"}`, `"body":"{\"a\": \"<&>\"}"}`},
		{"raw that is no text", httpTarget(`"body":"raw"`), "\xff", `"body_base64":"/w=="}`},
		{"what is large by its size", httpTarget(`"body":"raw"`), big, `"body_size":70000}`},
		{"no secret", httpTarget(`"auth_header":"` + hush + `"`), `{}`, `"Authorization":"[redacted]"`},
		{"where to", httpTarget(), `{}`, `{"method":"POST","url":"https://internal.example/hook"`},
	} {
		got := string(callOf(t, nil, c.target, newEvent("application/json", c.body)).Input())
		if !strings.Contains(got, c.want) || strings.Contains(got, "hush") || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %.300s, want %s in it", c.claim, got, c.want)
		}
	}
}
