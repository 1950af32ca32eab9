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

// carrying is an event with a body of JSON and headers, "Name: value" each.
func carrying(body string, headers ...string) *eventhook.Event {
	e := newEvent("push")
	e.ContentType, e.Body = "application/json", []byte(body)
	if len(headers) > 0 {
		e.Headers = []byte(strings.Join(headers, "\r\n") + "\r\n")
	}
	return e
}

// verdict is whether an event passes a filter, and why not. With a why and
// without, the answer must be the same.
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
		{"no body, nothing asked", `{}`, ``, true},
		{"no body, something asked", `{"body.a":1}`, ``, false},
		{"a body that is no JSON", `{"body.a":1}`, `a=1`, false},

		{"a text", `{"body.a":"x"}`, `{"a":"x"}`, true},
		{"another text", `{"body.a":"x"}`, `{"a":"X"}`, false},
		{"a text is no number", `{"body.a":1}`, `{"a":"1"}`, false},
		{"nor a number a text", `{"body.a":"1"}`, `{"a":1}`, false},
		{"true", `{"body.a":true}`, `{"a":true}`, true},
		{"true is not false", `{"body.a":true}`, `{"a":false}`, false},
		{"true is no text", `{"body.a":true}`, `{"a":"true"}`, false},
		{"null", `{"body.a":null}`, `{"a":null}`, true},
		{"null is not missing", `{"body.a":null}`, `{}`, false},
		{"null is not false", `{"body.a":null}`, `{"a":false}`, false},
		{"a deep one", `{"body.a.b.1.c":"x"}`, `{"a":{"b":[0,{"c":"x"}]}}`, true},
		{"an index beyond the array", `{"body.a.2":1}`, `{"a":[1,1]}`, false},
		{"no wildcards", `{"body.a.*":1}`, `{"a":{"b":1}}`, false},
		{"nor counts", `{"body.a.#":1}`, `{"a":[5]}`, false},
		{"all paths must hold", `{"body.a":1,"body.b":2}`, `{"a":1,"b":3}`, false},
		{"and do", `{"body.a":1,"body.b":2}`, `{"b":2,"a":1}`, true},

		{"any of a list", `{"body.a":["usd","eur",7,null]}`, `{"a":7}`, true},
		{"null of a list", `{"body.a":["usd",null]}`, `{"a":null}`, true},
		{"none of a list", `{"body.a":["usd","eur"]}`, `{"a":"gbp"}`, false},
		{"a list does not look into arrays", `{"body.a":[1,2]}`, `{"a":[1,2]}`, false},
		{"of an empty list nothing", `{"body.a":[]}`, `{"a":[]}`, false},

		{"$eq an array", `{"body.a":{"$eq":[1,{"b":2}]}}`, `{"a":[1.0,{"b":2}]}`, true},
		{"$eq is about order in arrays", `{"body.a":{"$eq":[1,2]}}`, `{"a":[2,1]}`, false},
		{"$eq a shorter array", `{"body.a":{"$eq":[1,2]}}`, `{"a":[1]}`, false},
		{"$eq a longer array", `{"body.a":{"$eq":[1]}}`, `{"a":[1,2]}`, false},
		{"$eq an object in any order", `{"body.a":{"$eq":{"x":1,"y":{"z":null}}}}`, `{"a":{"y":{"z":null},"x":1}}`, true},
		{"$eq an object with more", `{"body.a":{"$eq":{"x":1}}}`, `{"a":{"x":1,"y":2}}`, false},
		{"$eq an object with less", `{"body.a":{"$eq":{"x":1,"y":2}}}`, `{"a":{"x":1}}`, false},
		{"$eq an object: the first of a name counts", `{"body.a":{"$eq":{"x":1}}}`, `{"a":{"x":1,"x":2}}`, true},
		{"$eq an array is no object", `{"body.a":{"$eq":[]}}`, `{"a":{}}`, false},
		{"$ne", `{"body.a":{"$ne":1}}`, `{"a":2}`, true},
		{"$ne the same", `{"body.a":{"$ne":1}}`, `{"a":1.0}`, false},
		{"$ne another type", `{"body.a":{"$ne":1}}`, `{"a":"1"}`, true},
		{"$ne says nothing of what is missing", `{"body.a":{"$ne":1}}`, `{}`, false},
		{"$in", `{"body.a":{"$in":[1,"x"]}}`, `{"a":"x"}`, true},
		{"$nin", `{"body.a":{"$nin":[1,"x"]}}`, `{"a":2}`, true},
		{"$nin of what is in", `{"body.a":{"$nin":[1,"x"]}}`, `{"a":1}`, false},
		{"$nin says nothing of what is missing", `{"body.a":{"$nin":[1]}}`, `{}`, false},

		{"$gt", `{"body.a":{"$gt":1}}`, `{"a":2}`, true},
		{"$gt the same", `{"body.a":{"$gt":1}}`, `{"a":1.0}`, false},
		{"$gte the same", `{"body.a":{"$gte":1}}`, `{"a":1e0}`, true},
		{"$lt", `{"body.a":{"$lt":-1}}`, `{"a":-1.5}`, true},
		{"$lte more", `{"body.a":{"$lte":1}}`, `{"a":1.0000001}`, false},
		{"between", `{"body.a":{"$gte":10,"$lt":20}}`, `{"a":19.99}`, true},
		{"not between", `{"body.a":{"$gte":10,"$lt":20}}`, `{"a":20}`, false},
		{"texts in order", `{"body.a":{"$gte":"2026-01-01"}}`, `{"a":"2026-03-01T12:00:00Z"}`, true},
		{"texts out of order", `{"body.a":{"$lt":"b"}}`, `{"a":"c"}`, false},
		{"a text has no order with a number", `{"body.a":{"$gt":1}}`, `{"a":"2"}`, false},
		{"nor has null", `{"body.a":{"$lte":1}}`, `{"a":null}`, false},
		{"nor true", `{"body.a":{"$gte":0}}`, `{"a":true}`, false},
		{"nor what is missing", `{"body.a":{"$lte":1}}`, `{}`, false},

		{"$contains a text", `{"body.a":{"$contains":"ell"}}`, `{"a":"hello"}`, true},
		{"$contains nothing everywhere", `{"body.a":{"$contains":""}}`, `{"a":""}`, true},
		{"$contains an element", `{"body.a":{"$contains":"x"}}`, `{"a":["y","x"]}`, true},
		{"$contains an object", `{"body.a":{"$contains":{"id":1}}}`, `{"a":[{"id":1}]}`, true},
		{"$contains a number in a text", `{"body.a":{"$contains":1}}`, `{"a":"1"}`, false},
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
		{"$not around what passes", `{"body.a":{"$not":{"$gte":1,"$lt":5}}}`, `{"a":3}`, false},
		{"$not says nothing of what is missing", `{"body.a":{"$not":{"$eq":1}}}`, `{}`, false},
		{"$not beside an operator", `{"body.a":{"$gt":0,"$not":{"$in":[5]}}}`, `{"a":5}`, false},
		{"$and", `{"$and":[{"body.a":1},{"body.b":2}]}`, `{"a":1,"b":2}`, true},
		{"$and with one that fails", `{"$and":[{"body.a":1},{"body.b":2}]}`, `{"a":1}`, false},
		{"$or", `{"$or":[{"body.a":1},{"body.b":2}]}`, `{"b":2}`, true},
		{"$or with none", `{"$or":[{"body.a":1},{"body.b":2}]}`, `{"a":2,"b":1}`, false},
		{"$or beside a path", `{"body.c":1,"$or":[{"body.a":1},{"body.b":2}]}`, `{"a":1}`, false},
		{"$not an object", `{"$not":{"body.a":1}}`, `{"a":2}`, true},
		{"$not an object that holds", `{"$not":{"body.a":1}}`, `{"a":1}`, false},
		{"$not an object holds for what is missing", `{"$not":{"body.a":1}}`, `{}`, true},
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
		{"2^53 and one are two numbers", `{"body.a":9007199254740992}`, `{"a":9007199254740993}`, false},
		{"2^53 and one is itself", `{"body.a":9007199254740993}`, `{"a":9007199254740993}`, true},
		{"and more than 2^53", `{"body.a":{"$gt":9007199254740992}}`, `{"a":9007199254740993}`, true},
		{"beyond 64 bits", `{"body.a":{"$lt":123456789012345678901234567891}}`, `{"a":123456789012345678901234567890}`, true},
		{"below all of them", `{"body.a":{"$lt":-123456789012345678901234567890}}`, `{"a":-123456789012345678901234567891}`, true},
		{"an exponent is only a way to write", `{"body.a":123456789012345678901234567890}`, `{"a":1.2345678901234567890123456789e29}`, true},
		{"zeros at the end change nothing", `{"body.a":0.1}`, `{"a":0.10000000000000000000000}`, true},
		{"a digit far behind does", `{"body.a":{"$gt":0.1}}`, `{"a":0.1000000000000000000000000001}`, true},
		{"minus zero is zero", `{"body.a":0}`, `{"a":-0.0e5}`, true},
		{"a large zero is zero", `{"body.a":0}`, `{"a":0e999999999}`, true},
		{"beyond float64", `{"body.a":{"$gt":1e308}}`, `{"a":1e309}`, true},
		{"and among themselves", `{"body.a":{"$lt":1e400}}`, `{"a":9e399}`, true},
		{"below the least float64", `{"body.a":{"$gt":0}}`, `{"a":1e-400}`, true},
		{"an exponent that takes no memory", `{"body.a":{"$gt":1e999999999999}}`, `{"a":1e9999999999}`, false},
		{"an exponent beyond counting", `{"body.a":{"$gt":1e300}}`, `{"a":1e99999999999999999999999}`, true},
		{"a negative one", `{"body.a":{"$lt":1e-300}}`, `{"a":1e-99999999999999999999999}`, true},
		{"thousands of digits", `{"body.a":{"$lt":` + nines + `}}`, `{"a":` + nines[:4999] + `8}`, true},
		{"a small one, written in two ways", `{"body.a":1.5e-3}`, `{"a":0.00150}`, true},
		{"one and a half", `{"body.a":{"$gte":1.5}}`, `{"a":15e-1}`, true},
		{"hundred as two hundreds' half", `{"body.a":{"$lt":2e2}}`, `{"a":100}`, true},

		{"of members with one name the first", `{"body.a":1}`, `{"a":1,"a":2}`, true},
		{"and not the second", `{"body.a":2}`, `{"a":1,"a":2}`, false},
		{"escapes are read", `{"body.a":"é"}`, `{"a":"\u00e9"}`, true},
		{"in the filter too", `{"body.\u0061":"\u00e9"}`, `{"a":"é"}`, true},
		{"composed and decomposed differ", `{"body.a":"é"}`, `{"a":"e\u0301"}`, false},
		{"a name of other letters", `{"body.größe":1}`, `{"größe":1}`, true},
		{"a pair of surrogates", `{"body.a":"😀"}`, `{"a":"\ud83d\ude00"}`, true},
		{"bytes that are no text", `{"body.a":{"$contains":"x"}}`, "{\"a\":\"\xffx\"}", true},
		{"NUL", `{"body.a":"\u0000"}`, `{"a":"\u0000"}`, true},
		{"a byte order mark", `{"body.a":1}`, "\xef\xbb\xbf{\"a\":1}", true},
		{"a list as the body", `{"body.1":"y"}`, `["x","y"]`, true},
		{"a number as the body", `{"body.a":1}`, `1`, false},
		{"deep beyond bearing", `{"body.0":{"$exists":true}}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), false},
		{"a text too long to be searched", `{"body.a":{"$regex":"x"}}`, `{"a":"` + strings.Repeat("x", 65_537) + `"}`, false},
		{"a long one that is not", `{"body.a":{"$regex":"^x*$"}}`, `{"a":"` + strings.Repeat("x", 65_536) + `"}`, true},
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

// Of published events there is the data and what every event has.
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

// However many paths there are, each is looked at, and what is kept of an event
// is bounded.
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
