package filter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newEvent(eventType string) *eventhook.Event {
	return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), EventType: eventType, Payload: eventhook.Payload{Body: []byte(`{"id":7}`)}}
}

// carrying returns an event with a JSON body and headers of the form "Name: value".
func carrying(body string, headers ...string) *eventhook.Event {
	e := newEvent("push")
	e.ContentType, e.Body = "application/json", []byte(body)
	if len(headers) > 0 {
		e.Headers = []byte(strings.Join(headers, "\r\n") + "\r\n")
	}
	return e
}

// verdict reports whether an event matches a filter, and the reason if it does not. It requires the same
// result with and without reasons.
func verdict(t testing.TB, text string, e *eventhook.Event) (holds bool, reason string) {
	t.Helper()
	if !filter.IsSet([]byte(text)) {
		return true, ""
	}
	var fields filter.Fields
	f, faults := filter.Compile([]byte(text), &fields)
	if len(faults) > 0 {
		t.Fatalf("Compile(%s): got %v, want no faults", text, faults)
	}
	var s filter.Subject
	s.Begin(nil, e, &fields)
	defer s.End()
	var why filter.Reasons
	holds = f.Holds(&s, &why)
	if bare := f.Holds(&s, nil); bare != holds {
		t.Errorf("%s: got %t, want %t as with reasons: %s", text, bare, holds, why)
	}
	return holds, why.String()
}

func TestFilterOperators(t *testing.T) {
	for _, c := range []struct {
		claim, filter, body string
		want                bool
	}{
		{"an empty filter", `{}`, `{"a":1}`, true},
		{"no filter", ``, `{"a":1}`, true},
		{"null is no filter", ` null `, `{"a":1}`, true},
		{"no body and an empty filter", `{}`, ``, true},
		{"no body and a path", `{"body.a":1}`, ``, false},
		{"a body that is not JSON", `{"body.a":1}`, `a=1`, false},

		{"a string", `{"body.a":"x"}`, `{"a":"x"}`, true},
		{"another string", `{"body.a":"x"}`, `{"a":"X"}`, false},
		{"a string is not a number", `{"body.a":1}`, `{"a":"1"}`, false},
		{"a number is not a string", `{"body.a":"1"}`, `{"a":1}`, false},
		{"true", `{"body.a":true}`, `{"a":true}`, true},
		{"true is not false", `{"body.a":true}`, `{"a":false}`, false},
		{"true is not a string", `{"body.a":true}`, `{"a":"true"}`, false},
		{"null", `{"body.a":null}`, `{"a":null}`, true},
		{"null is not missing", `{"body.a":null}`, `{}`, false},
		{"null is not false", `{"body.a":null}`, `{"a":false}`, false},
		{"a deep path", `{"body.a.b.1.c":"x"}`, `{"a":{"b":[0,{"c":"x"}]}}`, true},
		{"an index beyond the array", `{"body.a.2":1}`, `{"a":[1,1]}`, false},
		{"no wildcards", `{"body.a.*":1}`, `{"a":{"b":1}}`, false},
		{"no counts", `{"body.a.#":1}`, `{"a":[5]}`, false},
		{"all paths must hold", `{"body.a":1,"body.b":2}`, `{"a":1,"b":3}`, false},
		{"all paths hold", `{"body.a":1,"body.b":2}`, `{"b":2,"a":1}`, true},

		{"any of a list", `{"body.a":["usd","eur",7,null]}`, `{"a":7}`, true},
		{"null of a list", `{"body.a":["usd",null]}`, `{"a":null}`, true},
		{"none of a list", `{"body.a":["usd","eur"]}`, `{"a":"gbp"}`, false},
		{"a list does not look into arrays", `{"body.a":[1,2]}`, `{"a":[1,2]}`, false},
		{"an empty list has no match", `{"body.a":[]}`, `{"a":[]}`, false},

		{"$eq an array", `{"body.a":{"$eq":[1,{"b":2}]}}`, `{"a":[1.0,{"b":2}]}`, true},
		{"$eq an array in another order", `{"body.a":{"$eq":[1,2]}}`, `{"a":[2,1]}`, false},
		{"$eq a shorter array", `{"body.a":{"$eq":[1,2]}}`, `{"a":[1]}`, false},
		{"$eq a longer array", `{"body.a":{"$eq":[1]}}`, `{"a":[1,2]}`, false},
		{"$eq an object in any order", `{"body.a":{"$eq":{"x":1,"y":{"z":null}}}}`, `{"a":{"y":{"z":null},"x":1}}`, true},
		{"$eq an object with more", `{"body.a":{"$eq":{"x":1}}}`, `{"a":{"x":1,"y":2}}`, false},
		{"$eq an object with less", `{"body.a":{"$eq":{"x":1,"y":2}}}`, `{"a":{"x":1}}`, false},
		{"$eq an object: the first of a name counts", `{"body.a":{"$eq":{"x":1}}}`, `{"a":{"x":1,"x":2}}`, true},
		{"$eq an array is not an object", `{"body.a":{"$eq":[]}}`, `{"a":{}}`, false},
		{"$ne", `{"body.a":{"$ne":1}}`, `{"a":2}`, true},
		{"$ne the same", `{"body.a":{"$ne":1}}`, `{"a":1.0}`, false},
		{"$ne another type", `{"body.a":{"$ne":1}}`, `{"a":"1"}`, true},
		{"$ne of a missing value", `{"body.a":{"$ne":1}}`, `{}`, false},
		{"$in", `{"body.a":{"$in":[1,"x"]}}`, `{"a":"x"}`, true},
		{"$nin", `{"body.a":{"$nin":[1,"x"]}}`, `{"a":2}`, true},
		{"$nin of a listed value", `{"body.a":{"$nin":[1,"x"]}}`, `{"a":1}`, false},
		{"$nin of a missing value", `{"body.a":{"$nin":[1]}}`, `{}`, false},

		{"$gt", `{"body.a":{"$gt":1}}`, `{"a":2}`, true},
		{"$gt the same", `{"body.a":{"$gt":1}}`, `{"a":1.0}`, false},
		{"$gte the same", `{"body.a":{"$gte":1}}`, `{"a":1e0}`, true},
		{"$lt", `{"body.a":{"$lt":-1}}`, `{"a":-1.5}`, true},
		{"$lte more", `{"body.a":{"$lte":1}}`, `{"a":1.0000001}`, false},
		{"between", `{"body.a":{"$gte":10,"$lt":20}}`, `{"a":19.99}`, true},
		{"not between", `{"body.a":{"$gte":10,"$lt":20}}`, `{"a":20}`, false},
		{"strings in order", `{"body.a":{"$gte":"2026-01-01"}}`, `{"a":"2026-03-01T12:00:00Z"}`, true},
		{"strings out of order", `{"body.a":{"$lt":"b"}}`, `{"a":"c"}`, false},
		{"$gt of a string and a number", `{"body.a":{"$gt":1}}`, `{"a":"2"}`, false},
		{"$lte of null", `{"body.a":{"$lte":1}}`, `{"a":null}`, false},
		{"$gte of true", `{"body.a":{"$gte":0}}`, `{"a":true}`, false},
		{"$lte of a missing value", `{"body.a":{"$lte":1}}`, `{}`, false},

		{"$contains a substring", `{"body.a":{"$contains":"ell"}}`, `{"a":"hello"}`, true},
		{"$contains an empty string", `{"body.a":{"$contains":""}}`, `{"a":""}`, true},
		{"$contains an element", `{"body.a":{"$contains":"x"}}`, `{"a":["y","x"]}`, true},
		{"$contains an object", `{"body.a":{"$contains":{"id":1}}}`, `{"a":[{"id":1}]}`, true},
		{"$contains a number in a string", `{"body.a":{"$contains":1}}`, `{"a":"1"}`, false},
		{"$contains does not look at members", `{"body.a":{"$contains":"x"}}`, `{"a":{"x":"x"}}`, false},
		{"$contains part of an element", `{"body.a":{"$contains":"x"}}`, `{"a":["xy"]}`, false},
		{"$startsWith", `{"body.a":{"$startsWith":"refs/"}}`, `{"a":"refs/heads"}`, true},
		{"$startsWith elsewhere", `{"body.a":{"$startsWith":"heads"}}`, `{"a":"refs/heads"}`, false},
		{"$startsWith of a number", `{"body.a":{"$startsWith":"1"}}`, `{"a":12}`, false},
		{"$endsWith", `{"body.a":{"$endsWith":".pdf"}}`, `{"a":"a.pdf"}`, true},
		{"$endsWith elsewhere", `{"body.a":{"$endsWith":".pdf"}}`, `{"a":"a.pdf.exe"}`, false},
		{"$exists", `{"body.a":{"$exists":true}}`, `{"a":null}`, true},
		{"$exists without", `{"body.a":{"$exists":true}}`, `{"b":1}`, false},
		{"$exists false", `{"body.a":{"$exists":false}}`, `{"b":1}`, true},
		{"$exists false of null", `{"body.a":{"$exists":false}}`, `{"a":null}`, false},
		{"$exists false without a body", `{"body.a":{"$exists":false}}`, ``, true},
		{"$regex", `{"body.a":{"$regex":"^v\\d+$"}}`, `{"a":"v12"}`, true},
		{"$regex anywhere", `{"body.a":{"$regex":"\\d"}}`, `{"a":"v1x"}`, true},
		{"$regex without", `{"body.a":{"$regex":"^\\d"}}`, `{"a":"v1"}`, false},
		{"$regex of a number", `{"body.a":{"$regex":"1"}}`, `{"a":1}`, false},
		{"$regex of any letter", `{"body.a":{"$regex":"^\\pL+$"}}`, `{"a":"Übergröße"}`, true},

		{"$not around operators", `{"body.a":{"$not":{"$gte":1,"$lt":5}}}`, `{"a":7}`, true},
		{"$not around operators that pass", `{"body.a":{"$not":{"$gte":1,"$lt":5}}}`, `{"a":3}`, false},
		{"$not around operators of a missing value", `{"body.a":{"$not":{"$eq":1}}}`, `{}`, false},
		{"$not beside an operator", `{"body.a":{"$gt":0,"$not":{"$in":[5]}}}`, `{"a":5}`, false},
		{"$and", `{"$and":[{"body.a":1},{"body.b":2}]}`, `{"a":1,"b":2}`, true},
		{"$and with one that fails", `{"$and":[{"body.a":1},{"body.b":2}]}`, `{"a":1}`, false},
		{"$or", `{"$or":[{"body.a":1},{"body.b":2}]}`, `{"b":2}`, true},
		{"$or with none", `{"$or":[{"body.a":1},{"body.b":2}]}`, `{"a":2,"b":1}`, false},
		{"$or beside a path", `{"body.c":1,"$or":[{"body.a":1},{"body.b":2}]}`, `{"a":1}`, false},
		{"$not an object", `{"$not":{"body.a":1}}`, `{"a":2}`, true},
		{"$not an object that holds", `{"$not":{"body.a":1}}`, `{"a":1}`, false},
		{"$not an object with a missing value", `{"$not":{"body.a":1}}`, `{}`, true},
		{"$not not", `{"$not":{"$not":{"body.a":1}}}`, `{"a":1}`, true},
		{"nested", `{"$or":[{"$and":[{"body.a":1},{"$not":{"body.b":2}}]},{"body.c":{"$exists":true}}]}`, `{"a":1,"b":3}`, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got, reason := verdict(t, c.filter, carrying(c.body)); got != c.want {
				t.Errorf("%s on %s: got %t (%s), want %t", c.filter, c.body, got, reason, c.want)
			}
		})
	}
}

func TestFiltersOnUnusualJSON(t *testing.T) {
	nines := strings.Repeat("9", 5000)
	for _, c := range []struct {
		claim, filter, body string
		want                bool
	}{
		{"2^53 and 2^53+1 differ", `{"body.a":9007199254740992}`, `{"a":9007199254740993}`, false},
		{"2^53+1 equals itself", `{"body.a":9007199254740993}`, `{"a":9007199254740993}`, true},
		{"2^53+1 is greater than 2^53", `{"body.a":{"$gt":9007199254740992}}`, `{"a":9007199254740993}`, true},
		{"beyond 64 bits", `{"body.a":{"$lt":123456789012345678901234567891}}`, `{"a":123456789012345678901234567890}`, true},
		{"negative, beyond 64 bits", `{"body.a":{"$lt":-123456789012345678901234567890}}`, `{"a":-123456789012345678901234567891}`, true},
		{"with and without an exponent", `{"body.a":123456789012345678901234567890}`, `{"a":1.2345678901234567890123456789e29}`, true},
		{"trailing zeros", `{"body.a":0.1}`, `{"a":0.10000000000000000000000}`, true},
		{"a digit far behind the point", `{"body.a":{"$gt":0.1}}`, `{"a":0.1000000000000000000000000001}`, true},
		{"minus zero is zero", `{"body.a":0}`, `{"a":-0.0e5}`, true},
		{"a large zero is zero", `{"body.a":0}`, `{"a":0e999999999}`, true},
		{"beyond float64", `{"body.a":{"$gt":1e308}}`, `{"a":1e309}`, true},
		{"two numbers beyond float64", `{"body.a":{"$lt":1e400}}`, `{"a":9e399}`, true},
		{"below the smallest float64", `{"body.a":{"$gt":0}}`, `{"a":1e-400}`, true},
		{"a huge exponent takes no memory", `{"body.a":{"$gt":1e999999999999}}`, `{"a":1e9999999999}`, false},
		{"an exponent beyond 64 bits", `{"body.a":{"$gt":1e300}}`, `{"a":1e99999999999999999999999}`, true},
		{"a negative exponent beyond 64 bits", `{"body.a":{"$lt":1e-300}}`, `{"a":1e-99999999999999999999999}`, true},
		{"thousands of digits", `{"body.a":{"$lt":` + nines + `}}`, `{"a":` + nines[:4999] + `8}`, true},
		{"a small number with and without an exponent", `{"body.a":1.5e-3}`, `{"a":0.00150}`, true},
		{"one and a half", `{"body.a":{"$gte":1.5}}`, `{"a":15e-1}`, true},
		{"100 is less than 2e2", `{"body.a":{"$lt":2e2}}`, `{"a":100}`, true},

		{"the first of repeated members counts", `{"body.a":1}`, `{"a":1,"a":2}`, true},
		{"the second of repeated members does not count", `{"body.a":2}`, `{"a":1,"a":2}`, false},
		{"escapes in the body", `{"body.a":"é"}`, `{"a":"\u00e9"}`, true},
		{"escapes in the filter", `{"body.\u0061":"\u00e9"}`, `{"a":"é"}`, true},
		{"composed and decomposed differ", `{"body.a":"é"}`, `{"a":"e\u0301"}`, false},
		{"a name beyond ASCII", `{"body.größe":1}`, `{"größe":1}`, true},
		{"a pair of surrogates", `{"body.a":"😀"}`, `{"a":"\ud83d\ude00"}`, true},
		{"invalid UTF-8", `{"body.a":{"$contains":"x"}}`, "{\"a\":\"\xffx\"}", true},
		{"NUL", `{"body.a":"\u0000"}`, `{"a":"\u0000"}`, true},
		{"a byte order mark", `{"body.a":1}`, "\xef\xbb\xbf{\"a\":1}", true},
		{"a list as the body", `{"body.1":"y"}`, `["x","y"]`, true},
		{"a number as the body", `{"body.a":1}`, `1`, false},
		{"a deeply nested body", `{"body.0":{"$exists":true}}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), false},
		{"a string that is too long for $regex", `{"body.a":{"$regex":"x"}}`, `{"a":"` + strings.Repeat("x", 65_537) + `"}`, false},
		{"the longest string for $regex", `{"body.a":{"$regex":"^x*$"}}`, `{"a":"` + strings.Repeat("x", 65_536) + `"}`, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got, reason := verdict(t, c.filter, carrying(c.body)); got != c.want {
				t.Errorf("%.100s on %.100s: got %t (%s), want %t", c.filter, c.body, got, reason, c.want)
			}
		})
	}
}

func TestFiltersOnHeadersAndEvents(t *testing.T) {
	e := carrying(`{"a":1}`, "X-GitHub-Event: push", "X-Two: first", "X-Two: second", "X-Empty:", "X-Count: 12")
	e.SourceSlug, e.Origin, e.IdempotencyKey, e.SourceIP = "github", eventhook.OriginSource, "k1", "192.0.2.7"
	for _, c := range []struct {
		filter string
		want   bool
	}{
		{`{"header.x-github-event":"push"}`, true},
		{`{"header.X-GITHUB-EVENT":{"$startsWith":"pu"}}`, true},
		{`{"header.x-two":"first"}`, true},
		{`{"header.x-two":"second"}`, false},
		{`{"header.x-empty":{"$exists":false}}`, true},
		{`{"header.x-none":{"$exists":false}}`, true},
		{`{"header.x-none":{"$ne":"x"}}`, false},
		{`{"header.x-count":"12"}`, true},
		{`{"header.x-count":12}`, false},
		{`{"event.type":"push"}`, true},
		{`{"event.source":["github","gitlab"]}`, true},
		{`{"event.origin":"source"}`, true},
		{`{"event.idempotency_key":"k1"}`, true},
		{`{"event.source_ip":{"$startsWith":"192.0.2."}}`, true},
		{`{"event.body_size":7}`, true},
		{`{"event.body_size":{"$lt":7}}`, false},
		{`{"event.content_type":"application/json"}`, true},
		{`{"event.id":{"$exists":true}}`, true},
		{`{"event.received_at":"2026-03-01T12:00:00Z"}`, true},
		{`{"event.request_id":{"$exists":false}}`, true},
		{`{"event.trace_id":{"$exists":true}}`, false},
		{`{"event.correlation_id":"x"}`, false},
	} {
		if got, reason := verdict(t, c.filter, e); got != c.want {
			t.Errorf("%s: got %t (%s), want %t", c.filter, got, reason, c.want)
		}
	}
}

func TestFiltersOnForms(t *testing.T) {
	e := carrying("payload=x&tag=a&tag=b")
	e.ContentType = "application/x-www-form-urlencoded"
	if got, reason := verdict(t, `{"body.payload":"x","body.tag":{"$contains":"b"}}`, e); !got {
		t.Errorf("got no match (%s), want one", reason)
	}
}

// Filters of published events can read only the data and the properties of events.
func TestFieldsOfPublishedEvents(t *testing.T) {
	for text, want := range map[string]string{
		`{"body.a":1,"event.type":"push"}`: "",
		`{"header.x":1}`:                   `"header.x" is not a path: write body.<path> or event.<field>`,
		`{"cloudevent.type":1}`:            `"cloudevent.type" is not a path: write body.<path> or event.<field>`,
		`{"body":1}`:                       `"body" is not a path: write body.<path> or event.<field>`,
	} {
		_, faults := filter.Compile([]byte(text), &filter.Fields{IsPublished: true})
		if want == "" && len(faults) == 0 {
			continue
		}
		if len(faults) != 1 || faults[0].Message != want {
			t.Errorf("%s: got %v, want %q", text, faults, want)
		}
	}
}

// Paths beyond the number of cached fields are read, too.
func TestFiltersWithVeryManyPaths(t *testing.T) {
	var fields filter.Fields
	var last *filter.Filter
	for i := range 25_000 {
		last, _ = filter.Compile(fmt.Appendf(nil, `{"body.a%d":1,"event.type":"push","body.a%d":{"$ne":2}}`, i, i+1), &fields)
	}
	var s filter.Subject
	for _, c := range []struct {
		body string
		want bool
	}{{`{"a24999":1,"a25000":1}`, true}, {`{"a24999":1,"a25000":2}`, false}, {`{"a24999":2,"a25000":1}`, false}, {`{}`, false}} {
		s.Begin(nil, carrying(c.body), &fields)
		if got := last.Holds(&s, nil); got != c.want {
			t.Errorf("%s: got %t, want %t", c.body, got, c.want)
		}
		s.End()
	}
}

// The source of a published event is the one that its publisher gave.
func TestTheSourceOfAPublishedEvent(t *testing.T) {
	for name, c := range map[string]struct {
		event eventhook.Event
		want  bool
	}{
		"given by its publisher": {eventhook.Event{Envelope: &eventhook.Envelope{Source: "erp"}}, true},
		"not given":              {eventhook.Event{Envelope: &eventhook.Envelope{}}, false},
		"of a source":            {eventhook.Event{SourceSlug: "erp"}, true},
		"of another source":      {eventhook.Event{SourceSlug: "shop", Envelope: &eventhook.Envelope{Source: "erp"}}, false},
	} {
		fields := filter.Fields{IsPublished: true}
		f, faults := filter.Compile([]byte(`{"event.source":"erp"}`), &fields)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		var s filter.Subject
		s.Begin(nil, &c.event, &fields)
		if got := f.Holds(&s, nil); got != c.want {
			t.Errorf("a source %s: got %t, want %t", name, got, c.want)
		}
	}
}
