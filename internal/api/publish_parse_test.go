package api

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
)

// recordingPublisher records the published events.
type recordingPublisher struct{ events []*eventhook.Event }

func (p *recordingPublisher) Publish(_ context.Context, _ eventhook.TenantID, events []*eventhook.Event) []PublishResult {
	p.events = append(p.events, events...)
	outcomes := make([]PublishResult, len(events))
	for i := range events {
		outcomes[i] = PublishResult{EventID: eventhook.EventID{1}, Deliveries: i}
	}
	return outcomes
}

// newPublishServer returns the API with a fixed clock.
func newPublishServer(publisher Publisher) *echo.Echo {
	e := echo.New()
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	Register(e, Deps{Keys: oneTenant{}, Publisher: publisher, AdminKeys: []eventhook.Secret{eventhook.NewSecret("the admin's")}, OnWorkerAct: func(string, int) {},
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }})
	return e
}

// frameworkType is a content type that only the handler of the framework accepts.
const frameworkType = "application/json; x=1"

func post(e *echo.Echo, contentType, key string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/tenants/acme/eventhook/events", bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer the admin's")
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Request-Id", "r-1")
	r.Header.Set("Idempotency-Key", key)
	a := httptest.NewRecorder()
	e.ServeHTTP(a, r)
	return a
}

// publishDocuments are the documents that the tests mutate.
var publishDocuments = []string{
	`{"event_type":"order.made","data":{"n":1},"idempotency_key":"k","scope":{"shop":7},"actor":"ann","correlation_id":"c","metadata":{"a":1}}`,
	` { "data" : [1, 2.50 ,-0, 1e400, "\ud800 é", {"a":1,"a":2}, null, true] , "event_type" : "a" } `,
	`{"event_type":"a","data":null,"scope":null,"actor":[{"a":{"b":[]}},{"a":-1.5}],"metadata":{}}`,
	`{"event_type":"\u0061.b","data":"\u0000","idempotency_key":"\n"}`,
	`{"event_type":"a","data":1,"actor":{"a":1,"a":2}}`,
	`{"event_type":"a","data":1,"source":"erp","category":"sales"}`, `{"event_type":"a","data":1,"source":"a\tb"}`, `{"event_type":"a","data":1,"category":"","source":null}`,
	`{"event_type":"a","data":1,"actor":{"a":1,"\u0061":2}}`,
	`{"event_type":"a","data":1,"metadata":{"n":1e999}}`,
	`{"event_type":"a","data":1,"metadata":null}`,
	`{"event_type":"a","data":1,"idempotency_key":null}`,
	`{"event_type":"a","data":1,"Data":2}`,
	`{"event_type":"a","data":01}`, `{"event_type":"a","data":1.}`, `{"event_type":"a","data":-}`, `{"event_type":"a","data":"\x"}`,
	`{"event_type":"a","data":"\u12G4"}`, `{"event_type":"a","data":1,}`, `{"event_type":"a","data":[1,]}`, `{"event_type":"a","data":{"a":1,}}`,
	"{\"event_type\":\"a\",\"data\":\"\t\"}", `{"event_type":"a","data":1}x`, `{,"event_type":"a","data":1}`, `{"event_type" "a","data":1}`,
	"{\"event_type\":\"a\",\"data\":\"\xff\"}", "\ufeff" + `{"event_type":"a","data":1}`, `{"event_type":"a","data":tru}`, `{"event_type":"a","data":nul`,
	`{"event_type":"a","data":[[[[{}]]]]}`, `{"event_type":"a","data":}`, `{"event_type":"a"}`, `{}`, `[]`, `null`, `1`, `"a"`, ``, ` `,
}

// TestBothHandlersPublishTheSame sends random documents to both handlers and
// compares the responses and the events.
func TestBothHandlersPublishTheSame(t *testing.T) {
	var fast, slow recordingPublisher
	fastServer, slowServer := newPublishServer(&fast), newPublishServer(&slow)
	random, statuses := rand.New(rand.NewPCG(1, 2)), map[int]int{}
	documents := slices.Clone(publishDocuments)
	for range 6000 {
		documents = append(documents, mutated(random, publishDocuments[random.IntN(len(publishDocuments))]))
	}
	for _, body := range documents {
		key := []string{"", "", "k", "l"}[random.IntN(4)]
		fast.events, slow.events = nil, nil
		got, want := post(fastServer, "application/json", key, []byte(body)), post(slowServer, frameworkType, key, []byte(body))
		statuses[want.Code]++
		if got.Code != want.Code || comparablePart(t, got) != comparablePart(t, want) {
			t.Fatalf("%q: got %d %s, want %d %s", body, got.Code, got.Body, want.Code, want.Body)
		}
		if diff := cmp.Diff(want.Header(), got.Header()); diff != "" {
			t.Fatalf("%q: headers (-want +got):\n%s", body, diff)
		}
		for _, e := range slices.Concat(fast.events, slow.events) {
			e.ID = eventhook.EventID{}
		}
		if diff := cmp.Diff(slow.events, fast.events); diff != "" {
			t.Fatalf("%q: events (-want +got):\n%s", body, diff)
		}
	}
	for _, status := range []int{202, 400, 422} {
		if statuses[status] < 100 {
			t.Errorf("statuses: got %v, want at least 100 of %d", statuses, status)
		}
	}
}

// comparablePart returns the comparable part of a response. Faults of unknown members
// are omitted: the framework reports them in random order, and some twice or under a
// wrong name if a name contains a dot.
func comparablePart(t *testing.T, a *httptest.ResponseRecorder) string {
	var p problem
	if a.Code < 400 {
		return a.Body.String()
	}
	if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	lines := []string{p.Detail}
	for _, f := range p.Errors {
		if f.Message != "unexpected property" {
			lines = append(lines, f.Message)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// mutated changes a document at up to three positions.
func mutated(random *rand.Rand, document string) string {
	pieces := []string{`"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, `1`, `-`, `.`, `e5`, ` `, "\n", `null`, `"a":`, `"data":1,`, `"\u0061"`, "\x00", "\xc3", `é`, `"x"`, `{}`}
	for range random.IntN(4) {
		at := random.IntN(len(document) + 1)
		to := min(at+random.IntN(3), len(document))
		document = document[:at] + pieces[random.IntN(len(pieces))] + document[to:]
	}
	return document
}

// TestFastParserAcceptsUsualDocuments ensures that usual documents do not need the
// framework.
func TestFastParserAcceptsUsualDocuments(t *testing.T) {
	for _, body := range append(slices.Clone(publishDocuments[:4]),
		`{"event_type":"a","data":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`,
		`{"event_type":"a","data":"`+strings.Repeat("x", MaxData-2)+`"}`,
		"{\n  \"event_type\": \"a\",\n  \"data\": {\"a\": [1.5e3, false]},\n  \"metadata\": {\"é\": {\"a\": 1, \"b\": null}}\n}\n",
	) {
		if _, ok := parsePublish([]byte(body)); !ok {
			t.Errorf("%.100s: not accepted", body)
		}
	}
}

// TestFastParserDoesNotCopyData compares addresses of the data and the body.
func TestFastParserDoesNotCopyData(t *testing.T) {
	raw := []byte(`{"event_type":"a","data":{"n":1}}`)
	b, ok := parsePublish(raw)
	if !ok || &b.Data[0] != &raw[25] || cap(b.Data) != len(b.Data) {
		t.Errorf("got %q with the capacity %d, %t; want the bytes of the body", b.Data, cap(b.Data), ok)
	}
}

// FuzzParsePublish checks that parsePublish accepts no document with a fault, and
// parses the same event as readPublish.
func FuzzParsePublish(f *testing.F) {
	for _, body := range publishDocuments {
		f.Add([]byte(body))
	}
	s := &server{schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole := scanner{raw: raw}
		if got, want := whole.skipValue() && whole.isAtEnd(), json.Valid(raw); got != want {
			t.Errorf("%q: got JSON %t, want %t", raw, got, want)
		}
		got, ok := parsePublish(raw)
		if !ok || len(got.check("")) > 0 {
			return
		}
		var d document[EventPublish]
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%q: accepted, want %v", raw, err)
		}
		want, err := s.readPublish(d, "")
		if err != nil {
			t.Fatalf("%q: accepted, want %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", raw, diff)
		}
	})
}
