package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/client"
)

const key = "ehk_a-secret-key"

// fakeGateway answers every request with one handler and records the requests.
type fakeGateway struct {
	*client.Client
	requests []*http.Request
	body     string // of the last request
}

func newFakeGateway(t *testing.T, answer http.HandlerFunc, options ...client.Option) *fakeGateway {
	t.Helper()
	a := &fakeGateway{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a.requests, a.body = append(a.requests, r), string(raw)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	var err error
	if a.Client, err = client.New(s.URL+"/", key, options...); err != nil {
		t.Fatal(err)
	}
	return a
}

func respond(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestRequest(t *testing.T) {
	a := newFakeGateway(t, respond(200, `{"items":[],"next_cursor":null}`), client.WithUserAgent("till/2"))
	after := time.Date(2026, 3, 11, 1, 2, 3, 4, time.FixedZone("", 3600))
	_, err := a.ListEvents(t.Context(), "shop", client.ListEventsParams{Status: new(client.EventStatusDead), EventType: new("a&b=c"), ReceivedAfter: &after, Limit: new(int64(7))},
		client.WithHeader("X-Request-Id", "one"))
	if err != nil {
		t.Fatal(err)
	}
	r := a.requests[0]
	got := []any{r.Method, r.URL.Path, r.URL.Query(), r.Header.Get("Authorization"), r.Header.Get("User-Agent"), r.Header.Get("X-Request-Id"), a.body}
	want := []any{"GET", "/api/tenants/shop/eventhook/events",
		url.Values{"status": {"dead"}, "event_type": {"a&b=c"}, "received_after": {"2026-03-11T01:02:03.000000004+01:00"}, "limit": {"7"}},
		"Bearer " + key, "till/2", "one", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestFromMethodSendsTheBodyUnchanged(t *testing.T) {
	a := newFakeGateway(t, respond(200, `{"id":"1"}`))
	params := client.UpdateRouteParams{IfMatch: new(`"3"`)}
	if _, err := a.UpdateRouteFrom(t.Context(), "shop", "a source", "r/1", params, json.RawMessage(`{"transform":null}`)); err != nil {
		t.Fatal(err)
	}
	r := a.requests[0]
	got := []string{r.Method, r.URL.EscapedPath(), r.Header.Get("If-Match"), r.Header.Get("Content-Type"), a.body}
	want := []string{"PATCH", "/api/tenants/shop/eventhook/sources/a%20source/routes/r%2F1", `"3"`, "application/json", `{"transform":null}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestDoCallsAnOperationOfTheDocument(t *testing.T) {
	a := newFakeGateway(t, respond(200, `{"new_member":1}`))
	raw, err := a.Do(t.Context(), client.Request{Method: "POST", Path: "/api/tenants/{tenant}/new/{id}/act", Names: map[string]string{"tenant": "shop", "id": "a/1"},
		Query: url.Values{"limit": {"7"}}, Body: json.RawMessage(`{"b":1, "a":2}`)})
	if err != nil || string(raw) != `{"new_member":1}` {
		t.Fatalf("got %s, %v", raw, err)
	}
	r := a.requests[0]
	got := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"), a.body}
	want := []string{"POST", "/api/tenants/shop/new/a%2F1/act", "limit=7", "Bearer " + key, `{"b":1, "a":2}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	for _, id := range []string{"", ".", ".."} {
		if _, err := a.Do(t.Context(), client.Request{Method: "GET", Path: "/api/events/{id}", Names: map[string]string{"id": id}}); err == nil || len(a.requests) > 1 {
			t.Errorf("the id %q: got %v and %d requests, want an error and no request", id, err, len(a.requests)-1)
		}
	}
}

func TestKeepBodyAndHeader(t *testing.T) {
	const text = `{"id":"1", "slug":"shop","invented_later":9007199254740993}`
	a := newFakeGateway(t, respond(200, text, "ETag", `"4"`))
	var raw []byte
	var header http.Header
	got, err := a.GetTenant(t.Context(), "shop", client.KeepBody(&raw), client.KeepHeader(&header))
	if err != nil || got.Slug != "shop" || string(raw) != text || header.Get("ETag") != `"4"` {
		t.Errorf("got %+v, %s, %v, %v, want the exact body and the header", got, raw, header, err)
	}
}

func TestNumbersKeepAllDigits(t *testing.T) {
	a := newFakeGateway(t, respond(200, `{"output":{"n":9007199254740993}}`))
	got, err := a.TestExpressionFrom(t.Context(), "shop", json.RawMessage(`{}`))
	if diff := cmp.Diff(map[string]any{"n": json.Number("9007199254740993")}, got.Output); diff != "" || err != nil {
		t.Errorf("a member of type any (-want +got), %v:\n%s", err, diff)
	}
	a = newFakeGateway(t, respond(200, `{"id":"1","body":{"n":9007199254740993}}`))
	e, err := a.GetEvent(t.Context(), "shop", "1", client.GetEventParams{})
	if want := `{"n":9007199254740993}`; string(e.Body) != want || err != nil {
		t.Errorf("the body, got %s and %v, want %s", e.Body, err, want)
	}
}

func TestProblem(t *testing.T) {
	for _, c := range []struct {
		claim  string
		answer http.HandlerFunc
		want   client.Problem
		text   string
	}{
		{"every fault", respond(422, `{"title":"T","status":422,"detail":"D.","errors":[{"location":"body.a","message":"m"},{"location":"body.b","message":"n"}]}`,
			"Content-Type", "application/problem+json", "X-Request-Id", "r1"),
			client.Problem{Title: "T", Status: 422, Detail: "D.", RequestID: "r1", Errors: []client.Fault{{Location: "body.a", Message: "m"}, {Location: "body.b", Message: "n"}}},
			"422 T: D. body.a: m; body.b: n"},
		{"Retry-After", respond(429, `{"title":"T","status":429}`, "Content-Type", "application/problem+json", "Retry-After", "17"),
			client.Problem{Title: "T", Status: 429, RetryAfter: 17 * time.Second}, "429 T"},
		{"response of a proxy", respond(502, `<html>`, "Content-Type", "text/html"),
			client.Problem{Title: "Bad Gateway", Status: 502, Detail: "The response is not from an Eventhook gateway; check the URL of the server."},
			"502 Bad Gateway: The response is not from an Eventhook gateway; check the URL of the server."},
		{"redirect, which is not followed", respond(302, "", "Location", "http://127.0.0.1:1/"),
			client.Problem{Title: "Found", Status: 302, Detail: "The response is not from an Eventhook gateway; check the URL of the server."},
			"302 Found: The response is not from an Eventhook gateway; check the URL of the server."},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, err := newFakeGateway(t, c.answer).GetTenant(t.Context(), "shop")
			got, ok := errors.AsType[*client.Problem](err)
			if !ok {
				t.Fatalf("got %v, want a problem", err)
			}
			if diff := cmp.Diff(c.want, *got); diff != "" || got.Error() != c.text || client.StatusOf(err) != c.want.Status {
				t.Errorf("%q, want %q; (-want +got):\n%s", got.Error(), c.text, diff)
			}
		})
	}
}

func TestErrorsDoNotContainTheKey(t *testing.T) {
	odd := key + "\r\n"
	gone := httptest.NewServer(nil)
	gone.Close()
	errs := map[string]error{}
	_, errs["an invalid key"] = client.New("http://localhost", odd)
	c, err := client.New(gone.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	_, errs["connection refused"] = c.GetTenant(t.Context(), "shop")
	_, errs["a problem"] = newFakeGateway(t, respond(500, `{}`)).GetTenant(t.Context(), "shop")
	_, errs["a response that is not JSON"] = newFakeGateway(t, respond(200, `{`)).GetTenant(t.Context(), "shop")
	_, errs["a body that is not JSON"] = c.UpdateTenantFrom(t.Context(), "shop", client.UpdateTenantParams{}, json.RawMessage(`{`))
	for claim, err := range errs {
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v, want an error without the key", claim, err)
		}
	}
}

func TestNewRefusesWhatCannotBeCalled(t *testing.T) {
	for _, server := range []string{"", "localhost:8080", "ftp://host", "http://", "http://user:secret@host", "http://host/?a=b", "http://a b"} {
		if _, err := client.New(server, key); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q): got %v, want an error without the password", server, err)
		}
	}
	for _, k := range []string{"", "a b", "a\n", "ä"} {
		if _, err := client.New("http://host", k); err == nil {
			t.Errorf("New with the key %q: got none, want an error", k)
		}
	}
}

func TestInvalidNamesAreNotSent(t *testing.T) {
	a := newFakeGateway(t, respond(204, ""))
	for _, name := range []string{"", ".", ".."} {
		if err := a.DeleteKey(t.Context(), "shop", name); err == nil || len(a.requests) > 0 {
			t.Errorf("deleting the key %q: got %v and %d requests, want an error and no request", name, err, len(a.requests))
		}
	}
}

func TestTimeout(t *testing.T) {
	a := newFakeGateway(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, client.WithTimeout(time.Millisecond))
	if _, err := a.GetTenant(t.Context(), "shop"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
}

func TestAllTenants(t *testing.T) {
	pages := map[string]string{"": `{"items":[{"slug":"a"},{"slug":"b"}],"next_cursor":"2"}`, "2": `{"items":[{"slug":"c"}],"next_cursor":"3"}`}
	for _, c := range []struct {
		claim  string
		from   *string
		stop   int // number of items after which the loop ends
		want   []string
		calls  int
		status int
	}{
		{"from the beginning to an error", nil, 10, []string{"a", "b", "c"}, 3, 410},
		{"from a cursor", new("2"), 10, []string{"c"}, 2, 410},
		{"loop ends early", nil, 2, []string{"a", "b"}, 1, 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			a := newFakeGateway(t, func(w http.ResponseWriter, r *http.Request) {
				page, ok := pages[r.URL.Query().Get("cursor")]
				if !ok {
					w.WriteHeader(http.StatusGone)
				}
				_, _ = io.WriteString(w, page)
			})
			var got []string
			var last error
			for tenant, err := range a.AllTenants(t.Context(), client.ListTenantsParams{Cursor: c.from}) {
				if last = err; err != nil {
					continue // it ends by itself
				}
				if got = append(got, tenant.Slug); len(got) == c.stop {
					break
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(a.requests) != c.calls || client.StatusOf(last) != c.status {
				t.Errorf("%d requests, error %v (-want +got):\n%s", len(a.requests), last, diff)
			}
		})
	}
}
