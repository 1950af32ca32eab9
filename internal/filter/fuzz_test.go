package filter_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventhook/eventhook/internal/filter"
)

// FuzzFilter checks properties of all filters that Compile accepts: there is a reason if and only if the
// filter does not match, and $and, $or and $not follow logic.
func FuzzFilter(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"body.order.@id":"7"}`, `<order id="7"/>`, "text/xml"}, {`{"cloudevent.data.0":1}`, `{"specversion":"1.0","id":"1","source":"s","type":"t","data":[1]}`, "application/cloudevents+json"},
		{`{"body.a":{"$contains":"b"}}`, `a=1&a=b`, "application/x-www-form-urlencoded"}, {`{"body.a":1}`, `{"a":1.0}`}, {`{"body.a":{"$gt":9007199254740993}}`, `{"a":9007199254740994}`}, {`{"$or":[{"body.a":[1,null]},{"header.x":"y"}]}`, `{"a":null}`},
		{`{"body.a":{"$not":{"$regex":"^x"}}}`, `{"a":"xy"}`}, {`{"body.a":{"$eq":{"x":[1,{}]}}}`, `{"a":{"x":[1,{}],"x":2}}`}, {`{"event.type":{"$exists":true}}`, `[`},
		{`{"body.0.\u0061":{"$contains":1e1}}`, `[{"a":[10]}]`}, {`{"body.a":{"$lt":1e-999999999999}}`, `{"a":-0}`}, {`{"body.a":{"$nin":[]}}`, "\xff"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), seed[2])
	}
	f.Fuzz(func(t *testing.T, text, body []byte, contentType string) {
		if _, faults := filter.Compile(text, &filter.Fields{}); len(faults) > 0 || len(text) > 60_000 {
			return
		}
		e := newEvent("push")
		e.Body, e.ContentType = body, contentType
		holds, reason := verdict(t, string(text), e)
		if (reason == "") != holds || !utf8.ValidString(reason) {
			t.Errorf("%q on %q: got %t with reason %q, want a reason in UTF-8 if and only if the filter does not match", text, body, holds, reason)
		}
		for _, wrap := range []struct {
			text string
			want bool
		}{{`{"$and":[F]}`, holds}, {`{"$or":[F]}`, holds}, {`{"$or":[F,{}]}`, true}, {`{"$not":F}`, !holds}, {`{"$not":{"$not":F}}`, holds}} {
			wrapped := strings.Replace(wrap.text, "F", string(text), 1)
			if _, faults := filter.Compile([]byte(wrapped), &filter.Fields{}); len(faults) > 0 {
				continue // too deep now
			}
			if got, _ := verdict(t, wrapped, e); got != wrap.want {
				t.Errorf("%s on %q: got %t, want %t", wrapped, body, got, wrap.want)
			}
		}
	})
}

// FuzzNumbers compares the order of numbers with the order of big.Rat.
func FuzzNumbers(f *testing.F) {
	for _, seed := range [][2]string{{"0", "-0.0"}, {"1e3", "1000.00"}, {"9007199254740993", "9007199254740992"}, {"-1.5e-3", "-0.00150000000000000000001"}, {"100", "99.9"}, {"0.10", "1e-1"}, {"123456789012345", "1234567890123456"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, isRatA := rational(a)
		y, isRatB := rational(b)
		if !isRatA || !isRatB {
			return
		}
		for _, c := range []struct {
			operator string
			want     bool
		}{{"$lt", x.Cmp(y) < 0}, {"$lte", x.Cmp(y) <= 0}, {"$gt", x.Cmp(y) > 0}, {"$eq", x.Cmp(y) == 0}} {
			if got, _ := verdict(t, `{"body.a":{"`+c.operator+`":`+b+`}}`, carrying(`{"a":`+a+`}`)); got != c.want {
				t.Errorf("%s %s %s: got %t, want %t", a, c.operator, b, got, c.want)
			}
		}
	})
}

// rational parses a JSON number. It reports false if the exponent is too large for big.Rat.
func rational(s string) (*big.Rat, bool) {
	if len(s) > 200 || !json.Valid([]byte(s)) || strings.ContainsAny(s, " \t\r\n") || !strings.ContainsAny(s[:1], "-0123456789") {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 && len(s)-i > 5 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}
