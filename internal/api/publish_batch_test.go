package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/usage"
)

// publishAs sends a request to publish with a content type.
func (r *fixture) publishAs(contentType, body string, headers ...string) *answer {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), "POST", T("acme")+"/events", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.do(req)
}

// outcome is an item of the response to a batch.
type outcome struct {
	EventID    string `json:"event_id"`
	Deliveries *int
	Duplicate  bool
	Error      *problem
}

func (a *answer) outcomes() []outcome {
	a.t.Helper()
	var got struct{ Items []outcome }
	a.want(202).into(&got)
	return got.Items
}

const cloudEvents = "application/cloudevents-batch+json"

func TestBatchIsPublishedInOrder(t *testing.T) {
	r := setUp(t)
	r.subscribe("order.made")
	items := r.publishAs("application/json", `{"events":[
		{"event_type":"order.made","data":{"n": 1},"idempotency_key":"k","metadata":{"a":1}},
		{"event_type":"other","data":[]},
		{"event_type":"order.made","data":3,"idempotency_key":"k"}]}`, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "X-Request-Id", "r-1").outcomes()
	if len(items) != 3 || len(r.published) != 2 || !slices.Equal(r.batches, []int{3}) {
		t.Fatalf("got %+v of %d events in calls of %v; want three results of two events from one call", items, len(r.published), r.batches)
	}
	first, second := r.published[0], r.published[1]
	want := []outcome{{EventID: first.ID.String(), Deliveries: new(1)}, {EventID: second.ID.String(), Deliveries: new(0)}, {EventID: first.ID.String(), Deliveries: new(1), Duplicate: true}}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if string(first.Body) != `{"n": 1}` || first.RequestID != "r-1" || first.TraceID != "0af7651916cd43dd8448eb211c80319c" || string(first.Envelope.Metadata) != `{"a":1}` {
		t.Errorf("the first event: got %+v", first)
	}
}

func TestFaultyEventDoesNotAffectOtherEvents(t *testing.T) {
	r := setUp(t)
	r.refuse = "refused"
	long := strings.Repeat("x", api.MaxData)
	items := r.publishAs("application/json", `{"events":[{"event_type":"a","data":1},
		{"event_type":"a.*","colour":1}, 7, {"event_type":"a","data":1,"data":2}, {"event_type":"refused","data":1},
		{"event_type":"a","data":"`+long+`"}, {"event_type":"a","data":"`+"\xff"+`"}, {"event_type":"b","data":2}]}`).outcomes()
	want := []string{"", "422 body.events[1].data body.events[1].colour body.events[1].event_type", "422 body.events[2]", "422 body.events[3].data", "500", "413", "422 body.events[6].data", ""}
	for i, item := range items {
		got := ""
		if item.Error != nil {
			got = strings.TrimSpace(fmt.Sprint(item.Error.Status, " ", strings.Join(item.Error.locations(), " ")))
		}
		if got != want[i] || (item.Error == nil) != (item.EventID != "" && item.Deliveries != nil) {
			t.Errorf("item %d: got %q with the event %q, want %q", i, got, item.EventID, want[i])
		}
		if item.Error != nil && (item.Error.Title == "" || item.Error.Detail == "" || strings.Contains(item.Error.Detail, errBroken.Error())) {
			t.Errorf("item %d: got the problem %+v, want title and detail, without internals", i, item.Error)
		}
	}
	if !strings.Contains(items[5].Error.Detail, "body.events[5].data") || len(items) != len(want) {
		t.Errorf("got %d items, detail of the large event %q; want its location", len(items), items[5].Error.Detail)
	}
}

func TestInvalidBatches(t *testing.T) {
	r := setUp(t)
	many := strings.TrimSuffix(strings.Repeat(`{"event_type":"a","data":1},`, 501), ",")
	for _, c := range []struct {
		claim, contentType, body string
		status                   int
		want                     []string
	}{
		{"more than 500", "application/json", `{"events":[` + many + `]}`, 422, []string{"body.events"}},
		{"more than 500 CloudEvents", cloudEvents, `[` + many + `]`, 422, []string{"body"}},
		{"members beside events", "application/json", `{"events":[],"event_type":"a","x":1}`, 422, []string{"body.event_type", "body.x"}},
		{"duplicate events", "application/json", `{"events":[],"\u0065vents":[]}`, 422, []string{"body.events"}},
		{"not an array", "application/json", `{"events":{}}`, 422, []string{"body.events"}},
		{"not an array of CloudEvents", cloudEvents, `{}`, 422, []string{"body"}},
		{"not JSON", "application/json", `{"events":[{]}`, 400, []string{"body"}},
		{"not JSON after the batch", "application/json", `{"events":[]} x`, 400, []string{"body"}},
		{"not JSON as CloudEvents", cloudEvents, `[{},]`, 400, []string{"body"}},
		{"empty", cloudEvents, ``, 400, []string{"body"}},
		{"too large", cloudEvents, `[` + strings.Repeat(" ", 8<<20) + `]`, 413, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			got := r.publishAs(c.contentType, c.body).want(c.status).problem().locations()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	r.wantFaults(r.publishAs("application/json", `{"events":[]}`, "Idempotency-Key", "k"), 422, []string{"header.Idempotency-Key"})
	for contentType, body := range map[string]string{"application/json": `{"events":[]}`, cloudEvents: `[ ]`} {
		if got := r.publishAs(contentType, body).outcomes(); len(got) != 0 {
			t.Errorf("an empty batch: got %v, want no items", got)
		}
	}
	if len(r.published) > 0 {
		t.Errorf("published %d events, want none", len(r.published))
	}
}

func TestQuotaAppliesToEachEventOfABatch(t *testing.T) {
	meter := &usage.Meter{}
	r := setUp(t, func(d *api.Deps) {
		meter = usage.New(10, d.Events.(usage.Store), d.Log, d.Now)
		d.Quotas = meter
	})
	r.admin("PATCH", "/api/admin/tenants/acme", object{"max_events_per_day": 2}).want(200)
	items := r.publishAs("application/json", `{"events":[{"event_type":"a","data":1,"idempotency_key":"k"},{"event_type":"a.*","data":1},{"event_type":"a","data":2},{"event_type":"a","data":3}]}`).outcomes()
	var got []int
	for _, item := range items {
		status := 202
		if item.Error != nil {
			status = item.Error.Status
		}
		got = append(got, status)
	}
	if want := []int{202, 422, 202, 429}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	a := r.publishAs("application/json", `{"events":[{"event_type":"a","data":1},{"event_type":"a","data":2}]}`).want(429)
	if a.Header().Get("Retry-After") != "32400" {
		t.Errorf("with an exhausted quota: Retry-After %q, want the seconds until midnight", a.Header().Get("Retry-After"))
	}
}

func TestBatchFailsAsAWholeForFaultsOfTheGateway(t *testing.T) {
	r := setUp(t)
	const batch = `{"events":[{"event_type":"a","data":1},{"event_type":"a","data":2}]}`
	r.down = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "Too much at once.", RetryAfter: time.Second}
	if a := r.publishAs("application/json", batch).want(503); a.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After: got %q, want 1", a.Header().Get("Retry-After"))
	}
	r.down = errBroken
	if a := r.publishAs("application/json", batch).want(500); strings.Contains(a.Body.String(), errBroken.Error()) {
		t.Errorf("got %s, want no internals", a.Body)
	}
}

func TestCloudEventsArePublished(t *testing.T) {
	r := setUp(t)
	const event = `{"specversion":"1.0","id":"7","source":"/shop","type":"order.made","subject":"customer-42/x","time":"2026-03-10T12:00:00Z",
		"datacontenttype":"application/json","correlationid":"c-1","partition":3,"absent":null,"data":{ "n" : 1.50 },
		"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}`
	check := func(e *eventhook.Event) {
		t.Helper()
		want := &eventhook.Event{
			ID: e.ID, TenantID: r.acme, Origin: eventhook.OriginAPI, Status: eventhook.EventDelivered, EventType: "order.made", IdempotencyKey: "/shop 7",
			ContentType: "application/json", BodySize: 14, TraceID: "0af7651916cd43dd8448eb211c80319c", RequestID: e.RequestID, CorrelationID: "c-1",
			Envelope: &eventhook.Envelope{Source: "/shop", Scope: []byte(`"customer-42/x"`), TraceFlags: "00",
				Metadata: []byte(`{"datacontenttype":"application/json","id":"7","partition":3,"time":"2026-03-10T12:00:00Z"}`)},
			Payload: eventhook.Payload{Headers: e.Headers, Body: []byte(`{ "n" : 1.50 }`)},
		}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	}
	one := r.publishAs("application/cloudevents+json; charset=utf-8", event).want(202).object()
	check(r.last())
	if diff := cmp.Diff(object{"event_id": r.last().ID.String(), "deliveries": 0.0}, one); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	items := r.publishAs(cloudEvents, `[`+event+`,`+strings.Replace(event, `"id":"7"`, `"id":"8"`, 1)+`]`).outcomes()
	if len(items) != 2 || !items[0].Duplicate || items[0].EventID != one["event_id"] || items[1].Duplicate || items[1].EventID != r.last().ID.String() {
		t.Errorf("got %+v, want a duplicate and a new event", items)
	}
}

func TestDataOfCloudEvents(t *testing.T) {
	r := setUp(t)
	for i, c := range []struct{ members, want string }{
		{``, `null`},
		{`,"data":null`, `null`},
		{`,"data":"text","datacontenttype":"text/plain"`, `"text"`},
		{`,"data_base64":"eyJhIjogMX0="`, `{"a": 1}`},
		{`,"data_base64":"eyJhIjogMX0=","datacontenttype":"application/x+json"`, `{"a": 1}`},
		{`,"data_base64":"MTI=","datacontenttype":"text/plain"`, `"12"`},
		{`,"data_base64":"bm8ganNvbg==","datacontenttype":"application/json"`, `"no json"`},
		{`,"data_base64":"/w=="`, `{"base64":"/w=="}`},
		{`,"data_base64":""`, `""`},
	} {
		r.publishAs("application/cloudevents+json", fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"/s","type":"a"%s}`, i, c.members)).want(202)
		if got := string(r.last().Body); got != c.want {
			t.Errorf("%s: got %s, want %s", c.members, got, c.want)
		}
	}
}

func TestFaultsOfCloudEvents(t *testing.T) {
	r := setUp(t)
	whole := func(members string) string {
		return `{"specversion":"1.0","id":"1","source":"/s","type":"a"` + members + `}`
	}
	for _, c := range []struct {
		claim, body string
		want        []string
	}{
		{"no attributes", `{}`, []string{"specversion", "type", "source", "id"}},
		{"not an object", `1`, []string{""}},
		{"another version", `{"specversion":"0.3","id":"1","source":"/s","type":"a"}`, []string{"specversion"}},
		{"empty strings", `{"specversion":"1.0","id":"","source":"","type":""}`, []string{"type", "source", "id"}},
		{"null for an id", `{"specversion":"1.0","id":null,"source":"/s","type":"a"}`, []string{"id"}},
		{"a number for an id", `{"specversion":"1.0","id":1,"source":"/s","type":"a"}`, []string{"id"}},
		{"a reserved type", `{"specversion":"1.0","id":"1","source":"/s","type":"webhook.created"}`, []string{"type"}},
		{"a source with a space", `{"specversion":"1.0","id":"1","source":"/s t","type":"a"}`, []string{"source"}},
		{"a duplicate member", whole(`,"id":"2"`), []string{"id"}},
		{"an extension that is an object", whole(`,"x":{}`), []string{"x"}},
		{"an invalid name of an extension", whole(`,"X-y":1`), []string{"X-y"}},
		{"an invalid time", whole(`,"time":"today"`), []string{"time"}},
		{"both kinds of data", whole(`,"data":1,"data_base64":"MTI="`), []string{"data_base64"}},
		{"data_base64 that is not base64", whole(`,"data_base64":"*"`), []string{"data_base64"}},
		{"a subject that is too long", whole(`,"subject":"` + strings.Repeat("s", 16<<10) + `"`), []string{"subject"}},
		{"attributes that are too long", whole(`,"x":"` + strings.Repeat("s", 16<<10) + `"`), []string{"metadata"}},
		{"too many attributes", whole(manyAttributes(101)), []string{""}},
		{"a string that is not UTF-8", whole(`,"x":"` + "\xff" + `"`), []string{"x"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			for at, answered := range map[string]problem{
				"body":    r.publishAs("application/cloudevents+json", c.body).want(422).problem(),
				"body[0]": *r.publishAs(cloudEvents, "["+c.body+"]").outcomes()[0].Error,
			} {
				var want []string
				for _, name := range c.want {
					want = append(want, strings.TrimSuffix(at+"."+name, "."))
				}
				if diff := cmp.Diff(want, answered.locations()); diff != "" {
					t.Errorf("at %s (-want +got):\n%s", at, diff)
				}
			}
		})
	}
	large := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", api.MaxData)))
	for _, members := range []string{`,"data_base64":"` + large[:api.MaxData+1000] + `"`, `,"data":"` + strings.Repeat("x", api.MaxData) + `"`} {
		status := 413
		if strings.Contains(members, "base64") {
			status = 202 // the decoded data is smaller
		}
		r.publishAs("application/cloudevents+json", whole(members)).want(status)
	}
	r.wantFaults(r.publishAs("application/cloudevents+json", whole(``), "Idempotency-Key", "k"), 422, []string{"header.Idempotency-Key"})
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x%d":1`, i)
	}
	return b.String()
}

// TestPublishWithFaultInTheQuery: the body of a batch is not checked as a single
// event.
func TestPublishWithFaultInTheQuery(t *testing.T) {
	r := setUp(t)
	for contentType, body := range map[string]string{"application/json": `{"events":[]}`, cloudEvents: `[]`, "application/cloudevents+json": `{}`} {
		req := httptest.NewRequestWithContext(r.Context(), "POST", T("acme")+"/events?x=1", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+adminKey)
		req.Header.Set("Content-Type", contentType)
		r.wantFaults(r.do(req), 422, []string{"query.x"})
	}
	r.wantFaults(r.call(adminKey, "POST", T("acme")+"/events?x=1", `{"data":1}`), 422, []string{"query.x", "body.event_type"})
}
