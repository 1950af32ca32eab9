package route_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

func TestExpressions(t *testing.T) {
	e := carrying(`{"amount":1000,"big":9007199254740993,"huge":18446744073709551615,"half":0.5,"livemode":true,"none":null,
		"list":[1,2,3],"deep":{"a":{"b":"x"}},"tags":["a","b"],"a":1,"a":2,"when":"2026-03-01T12:00:00Z"}`, "X-Env: live", "X-Env: other", "X-Count: 12")
	e.SourceSlug, e.IdempotencyKey = "stripe", "k1"
	for _, c := range []struct {
		expression string
		want       bool
	}{
		{"true", true},
		{"body.livemode && headers['x-env'] != 'test'", true},
		{"body.amount >= 1000", true},
		{"body.amount > 999.5", true},
		{"body.amount * 2 == 2000", true},
		{"body.big == 9007199254740993", true},
		{"body.big == 9007199254740992", false},
		{"body.huge == 18446744073709551615u", true},
		{"body.half < 1", true},
		{"body.none == null", true},
		{"has(body.none)", true},
		{"has(body.other)", false},
		{"has(body.other) && body.other.x == 1", false},
		{"body.other == 1 || true", true},
		{"!(body.other == 1)", false},
		{"body.deep.a.b == 'x'", true},
		{"body.list[1] == 2", true},
		{"body.list[9] == 2", false},
		{"body.list.all(n, n > 0) && body.list.exists(n, n == 3)", true},
		{"size(body.list) == 3 && 'a' in body.tags", true},
		{"body.a == 1", true},
		{"body.tags.map(t, t + '!') == ['a!', 'b!']", true},
		{"headers['x-env'] == 'live'", true},
		{"headers['X-Env'] == 'live'", false},
		{"'x-none' in headers", false},
		{"int(headers['x-count']) >= 12", true},
		{"event.type == 'push' && event.source == 'stripe' && event.idempotency_key == 'k1'", true},
		{"has(event.request_id)", false},
		{"event.body_size > 10", true},
		{"timestamp(event.received_at) < timestamp('2027-01-01T00:00:00Z')", true},
		{"timestamp(body.when).getHours() == 12", true},
		{"body.deep.a.b.matches('^x$')", true},
		{"body.amount == '1000'", false},
		{"body.amount + 'x' == ''", false},
		{"1 / (body.amount - 1000) > 0", false},
	} {
		r := enabled(newRoute("r", "", "a"))
		r.FilterExpression = c.expression
		if got, reason := verdict(t, r, e); got != c.want {
			t.Errorf("%s: got %t (%s), want %t", c.expression, got, reason, c.want)
		}
	}
}

func TestExpressionsOnBodiesOtherThanJSON(t *testing.T) {
	for _, c := range []struct{ claim, contentType, body, expression string }{
		{"text", "text/plain", "hello", "body == 'hello'"},
		{"nothing", "", "", "body == null"},
		{"bytes", "image/png", "\xff\x00", "body.base64 == '/wA='"},
		{"a form", "application/x-www-form-urlencoded", "a=1", "body.a == '1'"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			e := carrying(c.body)
			e.ContentType = c.contentType
			r := enabled(newRoute("r", "", "a"))
			r.FilterExpression = c.expression
			if got, reason := verdict(t, r, e); !got {
				t.Errorf("%s: got no match (%s), want one", c.expression, reason)
			}
		})
	}
}

func TestFaultsOfDeeplyNestedExpressions(t *testing.T) {
	for claim, expression := range map[string]string{
		"parentheses":          strings.Repeat("(", 5000) + "true" + strings.Repeat(")", 5000),
		"unclosed parentheses": strings.Repeat("(", 5000),
		"lists":                "size(" + strings.Repeat("[", 500) + strings.Repeat("]", 500) + ") > 0",
	} {
		faults := check(t, eventhook.Route{FilterExpression: expression})
		if len(faults) == 0 || !strings.Contains(faults[0].Message, "nests too deep: at most 100 levels") {
			t.Errorf("%s: got %v, want the limit of nesting", claim, faultTexts(faults))
		}
		for _, f := range faults {
			if strings.Contains(f.Message, "-1") || strings.Contains(f.Message, "column 0") {
				t.Errorf("%s: got %q, want no invalid position", claim, f.Message)
			}
		}
	}
}

// A sender must not be able to make an expression arbitrarily costly.
func TestExpressionsAreBounded(t *testing.T) {
	list := "[" + strings.Repeat("1,", 5000) + "1]"
	const all = "body.list.all(a, body.list.all(b, body.list.all(c, a + b + c == 3)))"
	for _, c := range []struct{ claim, expression, body, want string }{
		{"loops within loops", all, `{"list":` + list + `}`, `cannot tell: route "r" filter_expression: it costs more than 100 000 steps`},
		{"strings that grow", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14].map(a, body.s + body.s + body.s + body.s).size() > 0 && " + all, `{"s":"` + strings.Repeat("x", 100_000) + `","list":` + list + `}`, `cannot tell: route "r" filter_expression: it costs more than 100 000 steps`},
		{"lists of lists", "[body.list, body.list].map(a, body.list.map(b, body.list)) == []", `{"list":[` + strings.Repeat("1,", 800) + `1]}`, `cannot tell: route "r" filter_expression: it holds more than 1 048 576 elements and characters`},
		{"a regular expression in the body", "body.s.matches(body.re)", `{"s":"aaaa","re":"(abcdefghij){500}"}`, "at most 2000 instructions are allowed"},
		{"a body that is too large to decode", "body.s == ''", `{"s":"` + strings.Repeat("x", 1<<20) + `"}`, "more than expressions and scripts can read"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := enabled(newRoute("r", "", "a"))
			r.FilterExpression = c.expression
			if got, reason := verdict(t, r, carrying(c.body)); got != strings.HasPrefix(c.want, route.UndecidedPrefix) || !strings.Contains(reason, c.want) {
				t.Errorf("got %t: %s\nwant … %s", got, reason, c.want)
			}
		})
	}
}

// If a filter throws, its route does not match. If it exceeds a limit, the actions of its route fail.
func TestFiltersThatFailAffectOnlyTheirRoute(t *testing.T) {
	e := carrying(`{"list":[` + strings.Repeat("1,", 5000) + `1]}`)
	good := newRoute("good", "", "b")
	const costs, holds = "costs more than 100 000 steps", "holds more than 1 048 576 elements and characters"
	for claim, c := range map[string]struct {
		failure string
		set     func(*eventhook.Route)
	}{
		"CEL that loops within loops": {costs, func(r *eventhook.Route) {
			r.FilterExpression = "body.list.all(a, body.list.all(b, body.list.all(c, a + b + c == 3)))"
		}},
		"CEL that grows": {holds, func(r *eventhook.Route) {
			r.FilterExpression = "body.list.map(a, body.list).size() > 0 && body.list.map(a, body.list.map(b, body.list)).size() > 0"
		}},
		"CEL that divides by zero": {"", func(r *eventhook.Route) { r.FilterExpression = "1 / (body.list[0] - 1) > 0" }},
		"JavaScript that throws": {"", func(r *eventhook.Route) {
			r.FilterFunction = "function filter() { throw new Error('no') }"
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			bad := newRoute("bad", "", "a")
			c.set(&bad)
			s := compile(bad, good).Settle(nil, e, nil, noon)
			want := []planned{{"good", "b", ""}}
			if c.failure != "" {
				want = append([]planned{{"bad", "", `route "bad" filter_expression: it ` + c.failure}}, want...)
			}
			if diff := cmp.Diff(want, summary(s)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if c.failure != "" && !s.Actions[0].Permanent {
				t.Error("got a transient failure, want a permanent one")
			}
		})
	}
}

func TestExpressionsWithoutBodyAcceptAnySize(t *testing.T) {
	r := enabled(newRoute("r", "", "a"))
	r.Filter, r.FilterExpression = []byte(`{"body.a":1}`), "event.type == 'push'"
	e := carrying(`{"a":1,"s":"` + strings.Repeat("x", 2<<20) + `"}`)
	if got, reason := verdict(t, r, e); !got {
		t.Errorf("got no match (%s), want one", reason)
	}
}
