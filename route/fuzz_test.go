package route_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzFilter holds filters against what must be true of all of them: what
// Check accepts can be used, says why it does not match, and follows logic.
func FuzzFilter(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"body.a":1}`, `{"a":1.0}`}, {`{"body.a":{"$gt":9007199254740993}}`, `{"a":9007199254740994}`}, {`{"$or":[{"body.a":[1,null]},{"header.x":"y"}]}`, `{"a":null}`},
		{`{"body.a":{"$not":{"$regex":"^x"}}}`, `{"a":"xy"}`}, {`{"body.a":{"$eq":{"x":[1,{}]}}}`, `{"a":{"x":[1,{}],"x":2}}`}, {`{"event.type":{"$exists":true}}`, `[`},
		{`{"body.0.\u0061":{"$contains":1e1}}`, `[{"a":[10]}]`}, {`{"body.a":{"$lt":1e-999999999999}}`, `{"a":-0}`}, {`{"body.a":{"$nin":[]}}`, "\xff"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, filter, body []byte) {
		r := enabled(newRoute("r", "", "a"))
		r.Filter = filter
		faults := check(t, r)
		e := newEvent("push")
		e.Body = body
		if len(faults) > 0 {
			if s := compile(r).Settle(e, nil, noon); len(s.Actions) != 1 || !s.Actions[0].Permanent {
				t.Errorf("%q, which has faults: got %+v, want an action that failed", filter, s.Actions)
			}
			return
		}
		x := explain(t, compile(r), e)[0]
		if x.Reason == "" || !utf8.ValidString(x.Reason) {
			t.Errorf("%q on %q: got %t with reason %q, want a reason in text", filter, body, x.Matched, x.Reason)
		}
		if len(bytes.TrimSpace(filter)) == 0 || string(bytes.TrimSpace(filter)) == "null" || len(filter) > 60_000 {
			return
		}
		for _, wrap := range []struct {
			text string
			want bool
		}{{`{"$and":[F]}`, x.Matched}, {`{"$or":[F]}`, x.Matched}, {`{"$or":[F,{}]}`, true}, {`{"$not":F}`, !x.Matched}, {`{"$not":{"$not":F}}`, x.Matched}} {
			r.Filter = []byte(strings.Replace(wrap.text, "F", string(filter), 1))
			if len(check(t, r)) > 0 {
				continue // too deep now
			}
			if got := compile(r).Settle(e, nil, noon).Matched == 1; got != wrap.want {
				t.Errorf("%s on %q: got %t, want %t", r.Filter, body, got, wrap.want)
			}
		}
	})
}

// FuzzNumbers holds the order of numbers against that of big.Rat.
func FuzzNumbers(f *testing.F) {
	for _, seed := range [][2]string{{"0", "-0.0"}, {"1e3", "1000.00"}, {"9007199254740993", "9007199254740992"}, {"-1.5e-3", "-0.00150000000000000000001"}, {"100", "99.9"}, {"0.10", "1e-1"}, {"123456789012345", "1234567890123456"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, ok := rational(a)
		y, also := rational(b)
		if !ok || !also {
			return
		}
		for _, c := range []struct {
			operator string
			want     bool
		}{{"$lt", x.Cmp(y) < 0}, {"$lte", x.Cmp(y) <= 0}, {"$gt", x.Cmp(y) > 0}, {"$eq", x.Cmp(y) == 0}} {
			r := newRoute("r", "", "a")
			r.Filter = []byte(`{"body.a":{"` + c.operator + `":` + b + `}}`)
			if got := compile(r).Settle(carrying(`{"a":`+a+`}`), nil, noon).Matched == 1; got != c.want {
				t.Errorf("%s %s %s: got %t, want %t", a, c.operator, b, got, c.want)
			}
		}
	})
}

// rational is a JSON number whose exponent big.Rat can bear.
func rational(s string) (*big.Rat, bool) {
	if len(s) > 200 || !json.Valid([]byte(s)) || strings.ContainsAny(s, " \t\r\n") || !strings.ContainsAny(s[:1], "-0123456789") {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 && len(s)-i > 5 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}
