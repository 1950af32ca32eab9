package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/usage"
)

// publish publishes an event of acme.
func (r *fixture) publish(body any) *answer {
	r.Helper()
	return r.admin("POST", T("acme")+"/events", body)
}

// last returns the last event that was published.
func (r *fixture) last() *eventhook.Event {
	r.Helper()
	if len(r.published) == 0 {
		r.Fatal("nothing was published")
	}
	return r.published[len(r.published)-1]
}

func TestEventIsPublished(t *testing.T) {
	r := setUp(t)
	r.subscribe("order.made")
	r.subscribe("*")
	r.subscribe("other")
	req := httptest.NewRequestWithContext(t.Context(), "POST", T("acme")+"/events", strings.NewReader(
		`{"event_type":"order.made","data":{"n":1},"idempotency_key":"k","scope":{"shop":7},"actor":"ann","correlation_id":"c","metadata":{"a":1}}`))
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	req.Header.Set("X-Request-Id", "r-1")
	got := r.do(req).want(http.StatusAccepted).object()
	e := r.last()
	if diff := cmp.Diff(object{"event_id": e.ID.String(), "deliveries": 2.0}, got); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	want := &eventhook.Event{
		ID: e.ID, TenantID: r.acme, Origin: eventhook.OriginAPI, Status: eventhook.EventDelivered, EventType: "order.made", IdempotencyKey: "k",
		ContentType: "application/json", BodySize: 7, TraceID: "0af7651916cd43dd8448eb211c80319c", RequestID: "r-1", CorrelationID: "c",
		Envelope: &eventhook.Envelope{Scope: []byte(`{"shop":7}`), Actor: []byte(`"ann"`), Metadata: []byte(`{"a":1}`), TraceFlags: "00"},
		Payload:  eventhook.Payload{Headers: e.Headers, Body: []byte(`{"n":1}`)},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	first := e.ID.String()
	again := r.publish(object{"event_type": "order.made", "data": 2, "idempotency_key": "k"}).want(http.StatusAccepted).object()
	if diff := cmp.Diff(object{"event_id": first, "deliveries": 2.0, "duplicate": true}, again); diff != "" {
		t.Errorf("with the same key (-want +got):\n%s", diff)
	}
}

// Section 3.2.2 of W3C Trace Context: a request with several traceparent headers starts a new trace.
func TestAPublishedEventContinuesOneTrace(t *testing.T) {
	r := setUp(t)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for body, contentType := range map[string]string{
		`{"event_type":"a","data":1}`:                               "application/json",
		`{"events":[{"event_type":"a","data":1}]}`:                  "application/json",
		`{"specversion":"1.0","id":"1","source":"/s","type":"a"}`:   "application/cloudevents+json",
		`[{"specversion":"1.0","id":"2","source":"/s","type":"a"}]`: cloudEvents,
	} {
		for headers, want := range map[int]string{2: "", 1: trace} {
			req := httptest.NewRequestWithContext(t.Context(), "POST", T("acme")+"/events", strings.NewReader(strings.ReplaceAll(body, `"id":"`, `"id":"`+fmt.Sprint(headers))))
			req.Header.Set("Authorization", "Bearer "+adminKey)
			req.Header.Set("Content-Type", contentType)
			for range headers {
				req.Header.Add("Traceparent", "00-"+trace+"-b7ad6b7169203331-00")
			}
			r.do(req).want(http.StatusAccepted)
			if got := r.last().TraceID; got != want {
				t.Errorf("%s with %d headers: got the trace %q, want %q", body, headers, got, want)
			}
		}
	}
}

func TestDataIsStoredUnchanged(t *testing.T) {
	r := setUp(t)
	for _, data := range []string{
		`{ "a" : 1.50 ,"b":[ ]}`, "{\"a\":\r\n\t1}", `12345678901234567890.10`, `1e400`, `{"a":1,"a":2}`, `"\u0000\ud800é\u00e9"`, `null`, `false`, `""`, `[]`,
		`{"data":{"data":1},"event_type":"x"}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), `-0`, `"\/"`,
	} {
		body := fmt.Sprintf("{\"metadata\": {\"data\":1}, \"data\" : \n %s \n , \"event_type\":\"a\"}", data)
		r.publish(body).want(http.StatusAccepted)
		if got := string(r.last().Body); got != data {
			t.Errorf("got %.100q, want %.100q", got, data)
		}
		r.publish(`{"event_type":"a","d\u0061ta":` + data + `}`).want(http.StatusAccepted)
		if got := string(r.last().Body); got != data {
			t.Errorf("under an escaped name got %.100q, want %.100q", got, data)
		}
	}
}

func TestEmptyMembersAreOmitted(t *testing.T) {
	r := setUp(t)
	r.publish(`{"event_type":"a","data":1,"scope":null,"actor":null,"idempotency_key":"","correlation_id":""}`).want(http.StatusAccepted)
	e := r.last()
	if diff := cmp.Diff(&eventhook.Envelope{}, e.Envelope); diff != "" || e.IdempotencyKey != "" || e.CorrelationID != "" || e.TraceID != "" {
		t.Errorf("got %+v with the envelope %+v, want an empty envelope", e, e.Envelope)
	}
	if e.RequestID == "" {
		t.Error("the event has no request id")
	}
}

func TestPublishersGiveSourceAndCategory(t *testing.T) {
	r := setUp(t)
	for _, body := range []string{ // of a single event and of a batch
		`{"event_type":"a","data":1,"source":"erp é","category":"sales"}`,
		`{"events":[{"event_type":"a","data":1,"source":"erp é","category":"sales"}]}`,
	} {
		r.publish(body).want(http.StatusAccepted)
		if e := r.last(); e.Envelope.Source != "erp é" || e.Envelope.Category != "sales" {
			t.Errorf("%s: published %+v, want its source and category", body, e.Envelope)
		}
	}
}

func TestPublishFaults(t *testing.T) {
	r := setUp(t)
	long := strings.Repeat("k", 256)
	for _, c := range []struct {
		claim, body string
		want        []string
	}{
		{"no members", `{}`, []string{"body.data", "body.event_type"}},
		{"an empty type", `{"event_type":"","data":1}`, []string{"body.event_type"}},
		{"a pattern", `{"event_type":"a.*","data":1}`, []string{"body.event_type"}},
		{"a reserved type", `{"event_type":"webhook.created","data":1}`, []string{"body.event_type"}},
		{"a reserved type in another case", `{"event_type":"Tenant.reopened","data":1}`, []string{"body.event_type"}},
		{"unknown members", `{"event_type":"a","data":1,"colour":1,"DATA":2}`, []string{"body.colour", "body.DATA"}},
		{"duplicate data", `{"event_type":"a","data":1,"data":2}`, []string{"body.data"}},
		{"a scope with a duplicate member", `{"event_type":"a","data":1,"scope":{"a":1,"a":2}}`, []string{"body.scope.a"}},
		{"metadata that is not an object", `{"event_type":"a","data":1,"metadata":[]}`, []string{"body.metadata"}},
		{"strings that are too long", `{"event_type":"a","data":1,"idempotency_key":"` + long + `","correlation_id":"` + long + `"}`, []string{"body.idempotency_key", "body.correlation_id"}},
		{"a key with a NUL", `{"event_type":"a","data":1,"idempotency_key":"\u0000"}`, []string{"body.idempotency_key"}},
		{"a source with a line break", `{"event_type":"a","data":1,"source":"a\nb"}`, []string{"body.source"}},
		{"a source with a NUL", `{"event_type":"a","data":1,"source":"a\u0000"}`, []string{"body.source"}},
		{"a source with a C1 control character", `{"event_type":"a","data":1,"source":"a\u009bb"}`, []string{"body.source"}},
		{"a source that begins with a space", `{"event_type":"a","data":1,"source":" a"}`, []string{"body.source"}},
		{"a source and a category that are too long", `{"event_type":"a","data":1,"source":"` + long + `","category":"` + long + `"}`, []string{"body.source", "body.category"}},
		{"a category with a line separator", `{"event_type":"a","data":1,"category":"a\u2028b"}`, []string{"body.category"}},
		{"a source that is not a string", `{"event_type":"a","data":1,"source":1}`, []string{"body.source"}},
		{"an actor that is too large", `{"event_type":"a","data":1,"actor":"` + strings.Repeat("a", 16<<10) + `"}`, []string{"body.actor"}},
		{"data that is not UTF-8", "{\"event_type\":\"a\",\"data\":\"\xff\"}", []string{"body.data"}},
		{"not an object", `[]`, []string{"body"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.publish(c.body), 422, c.want)
		})
	}
	r.publish(`{"event_type":"a","data":}`).want(http.StatusBadRequest)
	r.publish("").want(http.StatusBadRequest)
	if len(r.published) > 0 {
		t.Errorf("published %d events, want none", len(r.published))
	}
}

func TestDataIsBounded(t *testing.T) {
	r := setUp(t)
	sized := func(n int) string { return `{"event_type":"a","data":"` + strings.Repeat("d", n-2) + `"}` }
	r.publish(sized(api.MaxData)).want(http.StatusAccepted)
	r.publish(sized(api.MaxData + 1)).want(http.StatusRequestEntityTooLarge)
	r.publish(sized(2 * api.MaxData)).want(http.StatusRequestEntityTooLarge)
}

func TestIdempotencyKeyHeader(t *testing.T) {
	r := setUp(t)
	publish := func(header, body string) *answer {
		req := httptest.NewRequestWithContext(t.Context(), "POST", T("acme")+"/events", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+adminKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", header)
		return r.do(req)
	}
	publish("k", `{"event_type":"a","data":1}`).want(http.StatusAccepted)
	if got := r.last().IdempotencyKey; got != "k" {
		t.Errorf("the key is %q, want that of the header", got)
	}
	if got := publish("k", `{"event_type":"a","data":1,"idempotency_key":"k"}`).want(http.StatusAccepted).object(); got["duplicate"] != true {
		t.Errorf("in header and body: got %v, want a duplicate", got)
	}
	r.wantFaults(publish("k", `{"event_type":"a","data":1,"idempotency_key":"l"}`), 422, []string{"header.Idempotency-Key"})
	r.wantFaults(publish(strings.Repeat("k", 256), `{"event_type":"a","data":1}`), 422, []string{"header.Idempotency-Key"})
}

func TestPublishedEventsCountAgainstTheQuota(t *testing.T) {
	meter := &usage.Meter{}
	r := setUp(t, func(d *api.Deps) {
		meter = usage.New(10, d.Events.(usage.Store), d.Log, d.Now)
		d.Quotas = meter
	})
	r.admin("PATCH", "/api/admin/tenants/acme", object{"max_events_per_day": 2}).want(http.StatusOK)
	event := object{"event_type": "a", "data": 1, "idempotency_key": "one"}
	r.publish(event).want(http.StatusAccepted)
	r.publish(event).want(http.StatusAccepted) // a duplicate does not count
	r.down = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "Too much at once.", RetryAfter: time.Second}
	if a := r.publish(object{"event_type": "a", "data": 1}).want(http.StatusServiceUnavailable); a.Header().Get("Retry-After") != "1" {
		t.Errorf("on overload: Retry-After %q, want 1", a.Header().Get("Retry-After"))
	}
	r.down = nil // a failed event does not count
	r.publish(object{"event_type": "a", "data": 1}).want(http.StatusAccepted)
	a := r.publish(object{"event_type": "a", "data": 1}).want(http.StatusTooManyRequests)
	if !strings.Contains(a.problem().Detail, "max_events_per_day") || a.Header().Get("Retry-After") != "32400" {
		t.Errorf("over the quota: %s, Retry-After %s; want the name of the quota, and the seconds until midnight", a.Body, a.Header().Get("Retry-After"))
	}
	r.must(meter.Flush(t.Context()))
	if used := r.admin("GET", "/api/admin/tenants/acme", nil).object()["usage"].(object); used["events_today"] != 2.0 {
		t.Errorf("used %v, want 2 events", used)
	}
	r.admin("PATCH", "/api/admin/tenants/acme", object{"max_events_per_day": nil}).want(http.StatusOK)
	r.clock.Advance(time.Second)
	r.publish(object{"event_type": "a", "data": 1}).want(http.StatusAccepted)
}

func TestSuspendedTenantCannotPublish(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.ScopePublish)
	event := object{"event_type": "a", "data": 1}
	r.call(key, "POST", T("acme")+"/events", event).want(http.StatusAccepted)
	r.admin("PATCH", "/api/admin/tenants/acme", object{"status": "suspended"}).want(http.StatusOK)
	r.call(key, "POST", T("acme")+"/events", event).want(http.StatusForbidden)
	r.publish(event).want(http.StatusConflict)
	r.admin("PATCH", subscriptionPath(r.subscribe("*")), object{"name": "renamed"}).want(http.StatusOK)
	r.admin("POST", "/api/admin/tenants/acme/close", nil).want(http.StatusOK)
	r.publish(event).want(http.StatusConflict)
}

func TestPublishRefusesALoopAndKeepsTheHops(t *testing.T) {
	r := setUp(t)
	publish := func(hops string) *answer {
		req := httptest.NewRequestWithContext(t.Context(), "POST", T("acme")+"/events", strings.NewReader(`{"event_type":"a.b","data":1}`))
		req.Header.Set("Authorization", "Bearer "+adminKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(eventhook.HopsHeader, hops)
		return r.do(req)
	}
	if detail := publish("9").want(http.StatusLoopDetected).problem().Detail; !strings.Contains(detail, "loop") {
		t.Errorf("got the detail %q, want one that names the loop", detail)
	}
	publish("8").want(http.StatusAccepted)
	if got := r.last().Envelope.Hops; got != 8 {
		t.Errorf("the event has %d hops, want 8", got)
	}
}
