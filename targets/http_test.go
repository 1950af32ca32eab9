package targets_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// httpTarget returns an http target with additional members, such as `"body":"raw"`.
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
		{"only a URL", httpTarget(), nil},
		{"http, a port and a query", url("http://10.0.0.1:8080/a?b=c"), nil},
		{"an IPv6 address", url("http://[::1]:8080/"), nil},
		{"no URL", `{"type":"http"}`, []string{"url"}},
		{"no scheme", url("internal.example/hook"), []string{"url"}},
		{"another scheme", url("ftp://internal.example/hook"), []string{"url"}},
		{"no host", url("https:///hook"), []string{"url"}},
		{"only a port", url("https://:443/hook"), []string{"url"}},
		{"an opaque URL", url("https:internal.example"), []string{"url"}},
		{"an invalid port", url("https://internal.example:x/"), []string{"url"}},
		{"a port above 65535", url("https://internal.example:99999/"), []string{"url"}},
		{"port 0", url("https://internal.example:0/"), []string{"url"}},
		{"a user", url("https://user@internal.example/"), []string{"url"}},
		{"a password", url("https://user:" + strings.TrimSuffix(hush, "&<>") + "@internal.example/"), []string{"url"}},
		{"a fragment", url("https://internal.example/#a"), []string{"url"}},
		{"an empty fragment", url("https://internal.example/#"), []string{"url"}},
		{"two lines", url(`https://internal.example/\r\nX: y`), []string{"url"}},
		{"a long URL", url("https://internal.example/" + strings.Repeat("x", 2048)), []string{"url"}},
		{"labels of an agent", httpTarget(`"target_labels":["env:prod","region:eu"]`), nil},
		{"a label without a value", httpTarget(`"target_labels":["env:prod","region"]`), []string{"target_labels[1]"}},
		{"too many labels", httpTarget(`"target_labels":[` + strings.TrimSuffix(strings.Repeat(`"a:b",`, 21), ",") + `]`), []string{"target_labels"}},
		{"labels that are no list", httpTarget(`"target_labels":"env:prod"`), []string{"target_labels"}},
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
		{"an invalid header name", header("X Env", "a"), []string{"headers.X Env"}},
		{"a header without a name", header("", "a"), []string{"headers."}},
		{"a header without a value", header("X-Env", ""), []string{"headers.X-Env"}},
		{"a header of two lines", header("X-Env", "a\r\nX-Other: b"), []string{"headers.X-Env"}},
		{"a header with NUL", header("X-Env", "a\x00"), []string{"headers.X-Env"}},
		{"a long header", header("X-Env", strings.Repeat("x", 4097)), []string{"headers.X-Env"}},
		{"an authorization header", header("authorization", hush), []string{"headers.authorization"}},
		{"a cookie", header("Cookie", hush), []string{"headers.Cookie"}},
		{"a header of the gateway", header("x-eventhook-event-id", "a"), []string{"headers.x-eventhook-event-id"}},
		{"the idempotency key", header("Idempotency-Key", "a"), []string{"headers.Idempotency-Key"}},
		{"the content type", header("Content-Type", "text/plain"), []string{"headers.Content-Type"}},
		{"the trace", header("Traceparent", "a"), []string{"headers.Traceparent"}},
		{"a hop-by-hop header", header("Transfer-Encoding", "chunked"), []string{"headers.Transfer-Encoding"}},
		{"the host", header("Host", "a"), []string{"headers.Host"}},
		{"the length", header("content-length", "7"), []string{"headers.content-length"}},
		{"all at once", `{"type":"http","url":"x","method":"x","body":"x","timeout_seconds":99,"auth_header":"\n","headers":{"Host":"x"}}`,
			[]string{"url", "method", "body", "timeout_seconds", "auth_header", "headers.Host"}},
	} {
		_, faults := targets.Parse([]byte(c.text), nil)
		wantFaults(t, c.claim, faults, c.want...)
	}
}

var (
	routeID    = eventhook.RouteID{1}
	alwaysSent = []string{"Content-Type", "Idempotency-Key", "Traceparent", "X-Eventhook-Attempt", "X-Eventhook-Delivery-Id", "X-Eventhook-Event-Id", "X-Eventhook-Hops"}
)

// requested compiles an http target and returns it with its request for an event.
func requested(t *testing.T, text string, e *eventhook.Event, v *payload.View) (*targets.HTTP, *effects.Request) {
	t.Helper()
	target := read(t, text)
	target.RouteID, target.Index = routeID, 3
	compiled, err := targets.New(target, targets.Deps{})
	x, isHTTP := compiled.(*targets.HTTP)
	if !isHTTP {
		t.Fatalf("got %T, %v", compiled, err)
	}
	effect, err := x.Effect(e, v, noon)
	if err != nil {
		t.Fatal(err)
	}
	return x, effect.Request
}

// sent returns the HTTP request of an attempt, and its body.
func sent(t *testing.T, text string, e *eventhook.Event, attempt int) (*http.Request, string) {
	t.Helper()
	x, request := requested(t, text, e, view(e))
	return composed(t, x, &eventhook.Delivery{Event: e, Body: request.Body}, attempt)
}

func composed(t *testing.T, x *targets.HTTP, d *eventhook.Delivery, attempt int) (*http.Request, string) {
	t.Helper()
	q := x.Compose(d, attempt)
	body, err := io.ReadAll(q.Body)
	if err != nil {
		t.Fatal(err)
	}
	if q.ContentLength != int64(len(body)) {
		t.Errorf("got a length of %d, want %d", q.ContentLength, len(body))
	}
	again, err := q.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := io.ReadAll(again); err != nil || string(second) != string(body) {
		t.Errorf("the body again is %q, %v; want %q", second, err, body)
	}
	return q, string(body)
}

// flat returns headers by name, without the traceparent, which has a random span.
func flat(h http.Header) map[string]string {
	all := map[string]string{}
	for name, values := range h {
		if name == "Traceparent" {
			continue
		}
		all[name] = strings.Join(values, " | ")
	}
	return all
}

func TestInputIsSentAsJSON(t *testing.T) {
	e := newEvent("application/x-www-form-urlencoded", "a=1")
	e.EventType, e.RequestID, e.TraceID = "push", "r-1", "0af7651916cd43dd8448eb211c80319c"
	e.Headers = []byte("X-Id: 7\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n")
	x, request := requested(t, httpTarget(`"method":"PUT"`, `"headers":{"x-env":"prod"}`, `"auth_header":"Bearer `+hush+`"`, `"timeout_seconds":7`), e, view(e))
	if request.Body != nil {
		t.Errorf("got the stored body %s, want none: the body is composed from the event", request.Body)
	}
	d := &eventhook.Delivery{ID: eventhook.NewID[eventhook.Delivery](noon), Event: e}
	q, body := composed(t, x, d, 3)
	if q.Method != "PUT" || q.URL.String() != "https://internal.example/hook" || q.Host != "internal.example" || body != `{"a":"1"}` {
		t.Errorf("got %s %s for %s with %s", q.Method, q.URL, q.Host, body)
	}
	if x.Timeout() != 7*time.Second {
		t.Errorf("got a timeout of %s, want 7s", x.Timeout())
	}
	parent := q.Header.Get("Traceparent")
	want := map[string]string{
		"Content-Type": "application/json", "X-Env": "prod", "Authorization": "Bearer " + hush, "Idempotency-Key": e.ID.String() + "/" + routeID.String() + "/3",
		"X-Eventhook-Event-Id": e.ID.String(), "X-Eventhook-Event-Type": "push", "X-Eventhook-Attempt": "3", "X-Eventhook-Hops": "1", "X-Request-Id": "r-1",
		"X-Eventhook-Delivery-Id": d.ID.String(),
	}
	if diff := cmp.Diff(want, flat(q.Header)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(parent, "00-"+e.TraceID+"-") || !strings.HasSuffix(parent, "-00") || strings.Contains(parent, "b7ad6b7169203331") {
		t.Errorf("got the traceparent %s, want the trace and the flags of the event, and a new span", parent)
	}
	q, again := composed(t, x, d, 4)
	if again != body || q.Header.Get("Idempotency-Key") != want["Idempotency-Key"] || q.Header.Get("X-Eventhook-Attempt") != "4" {
		t.Errorf("the next attempt: got %s with the key %s", again, q.Header.Get("Idempotency-Key"))
	}
	if span := q.Header.Get("Traceparent"); span == parent {
		t.Errorf("the next attempt has the same span in %s", span)
	}
}

func TestEveryRequestHasATrace(t *testing.T) {
	e := newEvent("application/json", `{}`)
	q, _ := sent(t, httpTarget(), e, 1)
	if parent, want := q.Header.Get("Traceparent"), "00-"+strings.ReplaceAll(e.ID.String(), "-", "")+"-"; !strings.HasPrefix(parent, want) || !strings.HasSuffix(parent, "-01") {
		t.Errorf("an event without a trace: got the traceparent %q, want %s…-01", parent, want)
	}
}

// Each attempt, on any instance, has the same body.
func TestEveryAttemptHasThePlannedBody(t *testing.T) {
	for _, c := range []struct{ claim, target, contentType, body, made, want string }{
		{"JSON", httpTarget(), "application/json", ` {"n":  12345678901234567890.10} `, "", ` {"n":  12345678901234567890.10} `},
		{"a form", httpTarget(), "application/x-www-form-urlencoded", "b=1&a=2", "", `{"b":"1","a":"2"}`},
		{"bytes", httpTarget(), "image/png", "\xff\x00", "", `{"base64":"/wA="}`},
		{"nothing", httpTarget(), "", "", "", `null`},
		{"transformed", httpTarget(), "application/json", `{}`, `{"made":true}`, `{"made":true}`},
		{"raw, transformed", httpTarget(`"body":"raw"`), "application/json", ` {} `, `{"made":true}`, ` {} `},
	} {
		e := newEvent(c.contentType, c.body)
		v := view(e)
		if c.made != "" {
			v = v.WithTransformed([]byte(c.made))
		}
		_, request := requested(t, c.target, e, v)
		if isStored := c.want == c.made; (request.Body != nil) != isStored {
			t.Errorf("%s: got the stored body %q, want one: %t", c.claim, request.Body, isStored)
		}
		other, _ := requested(t, c.target, e, v)
		for attempt := range 3 {
			if _, body := composed(t, other, &eventhook.Delivery{Event: e, Body: request.Body}, attempt+1); body != c.want {
				t.Errorf("%s: got %s, want %s", c.claim, body, c.want)
			}
		}
	}
}

func TestHeadersWithoutValueAreNotSent(t *testing.T) {
	e := newEvent("application/json", `{}`)
	e.EventType = "a\nb" // not a valid header value
	q, _ := sent(t, httpTarget(), e, 1)
	var names []string
	for name := range q.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(alwaysSent, names); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestRawSendsTheReceivedBodyAndHeaders(t *testing.T) {
	const body = "\xff\x00 {\"a\": 1}"
	e := newEvent("text/x-odd", body)
	e.Headers = []byte(strings.Join([]string{
		"Content-Type: text/x-odd", "X-Hub-Signature-256: sha256=00ff", "X-Many: one", "X-Many: two", "webhook-id: msg_1",
		"Authorization: [redacted]", "X-Api-Key: [redacted]", "Cookie: a=b", // credentials
		"Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: 5", "Transfer-Encoding: chunked", "TE: trailers", "Upgrade: h2c", // hop-by-hop
		"Host: hooks.example", "Content-Length: 11", "Accept-Encoding: gzip", "User-Agent: Provider/1", // set by the transport
		"X-Forwarded-For: 192.0.2.1", "x-forwarded-proto: https", "Forwarded: for=192.0.2.1", "Via: 1.1 proxy", "X-Real-IP: 192.0.2.1", // forwarding
		"X-Eventhook-Event-Id: forged", "X-Eventhook-Signature: forged", "X-Eventhook-Hops: 4", "Idempotency-Key: theirs", "Traceparent: theirs", // set by the gateway
		"X-HTTP-Method: GET", "x-http-method-override: DELETE", "X-Method-Override: PUT", "X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-Original-Host: a", // rewriting
		"Proxy: evil.example", "Proxy-Anything: a", "X-Envoy-Original-Path: /admin", "X-Accel-Redirect: /secret", "X-Sendfile: /secret", "X-Sendfile-Type: a",
		"X_HTTP_Method_Override: DELETE", "X_Forwarded_For: 192.0.2.1", "X-Forwarded: a", "True-Client-IP: 192.0.2.1", "CF-Connecting-IPv6: 2001:db8::1", "CF-IPCountry: DE", "CF-Ray: 1",
		"Cf-Access-Jwt-Assertion: forged", "Expect: 100-continue", "Trailer: X-Last",
		"X-Env: theirs", "X-Odd: a\x01b",
	}, "\r\n") + "\r\n")
	q, got := sent(t, httpTarget(`"body":"raw"`, `"headers":{"X-Env":"ours"}`), e, 1)
	if got != body {
		t.Errorf("got the body %q, want %q", got, body)
	}
	want := map[string]string{
		"Content-Type": "text/x-odd", "X-Hub-Signature-256": "sha256=00ff", "X-Many": "one | two", "Webhook-Id": "msg_1", "X-Env": "ours",
		"Idempotency-Key": e.ID.String() + "/" + routeID.String() + "/3", "X-Eventhook-Event-Id": e.ID.String(), "X-Eventhook-Attempt": "1", "X-Eventhook-Delivery-Id": eventhook.DeliveryID{}.String(), "X-Eventhook-Hops": "5",
	}
	if diff := cmp.Diff(want, flat(q.Header)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestSignatureHeadersOfProvidersArePassedOn(t *testing.T) {
	for _, p := range append(verify.Presets(), verify.Preset{ID: "cloudflare", Verifier: verify.Config{Header: "Cf-Webhook-Auth"}}) {
		e := newEvent("application/json", "{}")
		for _, name := range append([]string{p.Verifier.Header, p.Verifier.TimestampHeader}, p.Verifier.AlsoHeaders...) {
			if name == "" || name == "Authorization" { // a credential
				continue
			}
			e.Headers = []byte(name + ": v1\r\n")
			q, _ := sent(t, httpTarget(`"body":"raw"`), e, 1)
			if got := q.Header.Get(name); got != "v1" {
				t.Errorf("%s: got %s: %q, want v1", p.ID, name, got)
			}
		}
	}
}

func TestRetryPolicyOfATarget(t *testing.T) {
	e := newEvent("", "")
	x, _ := requested(t, httpTarget(), e, view(e))
	if got, isOwn := x.Retry(); isOwn {
		t.Errorf("without the setting: got %+v, want the policy of the source", got)
	}
	x, _ = requested(t, httpTarget(`"retry":{"max_retries":0,"initial_delay_ms":5,"backoff_multiplier":1.5,"max_delay_ms":7,"schedule_seconds":[1,2],"terminal_statuses":[422]}`), e, view(e))
	want := eventhook.RetryPolicy{MaxRetries: new(0), InitialDelayMS: 5, BackoffMultiplier: 1.5, MaxDelayMS: 7, ScheduleSeconds: []int{1, 2}, TerminalStatuses: []int{422}}
	if got, isOwn := x.Retry(); !isOwn || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %t; want %+v", got, isOwn, want)
	}
	for retry, want := range map[string][]string{
		`{}`:                                   nil,
		`null`:                                 nil,
		`{"max_retries":26,"max_delay_ms":-1}`: {"retry.max_delay_ms", "retry.max_retries"},
		`{"max_retries":"3","jitter":"full"}`:  {"retry.jitter", "retry.max_retries"},
		`{"schedule_seconds":[1,"2"]}`:         {"retry.schedule_seconds"},
		`{"terminal_statuses":[200]}`:          {"retry.terminal_statuses[0]"},
		`{"schedule_seconds":[-1]}`:            {"retry.schedule_seconds[0]"},
		`{"backoff_multiplier":11,"jitter":1}`: {"retry.jitter"},
		`{"backoff_multiplier":11}`:            {"retry.backoff_multiplier"},
		`3`:                                    {"retry"},
		`[]`:                                   {"retry"},
		`"often"`:                              {"retry"},
	} {
		_, faults := targets.Parse([]byte(httpTarget(`"retry":`+retry)), nil)
		slices.SortFunc(faults, func(a, b eventhook.Fault) int { return strings.Compare(a.Location, b.Location) })
		wantFaults(t, retry, faults, want...)
	}
}

func TestPreviewOfARequest(t *testing.T) {
	big := strings.Repeat("x", 70_000)
	for _, c := range []struct{ claim, target, body, want string }{
		{"JSON as JSON", httpTarget(), `{"n":9007199254740993}`, `"body":{"n":9007199254740993}}`},
		{"raw text as a string", httpTarget(`"body":"raw"`), `{"a": "<&>"}`, `"body":"{\"a\": \"<&>\"}"}`},
		{"raw bytes in base64", httpTarget(`"body":"raw"`), "\xff", `"body_base64":"/w=="}`},
		{"the size of a large body", httpTarget(`"body":"raw"`), big, `"body_size":70000}`},
		{"no secret", httpTarget(`"auth_header":"` + hush + `"`), `{}`, `"Authorization":"[redacted]"`},
		{"method and URL", httpTarget(), `{}`, `{"method":"POST","url":"https://internal.example/hook"`},
	} {
		e := newEvent("application/json", c.body)
		_, request := requested(t, c.target, e, view(e))
		got := string(request.Preview())
		if !strings.Contains(got, c.want) || strings.Contains(got, "hush") || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %.300s, want %s in it", c.claim, got, c.want)
		}
	}
}
