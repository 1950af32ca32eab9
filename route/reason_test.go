package route_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		claim string
		route func(r *eventhook.Route)
		want  string
	}{
		{"too small a number", func(r *eventhook.Route) { r.Filter = []byte(`{"body.amount":{"$gte":1000}}`) }, "body.amount is 10, wanted $gte 1000"},
		{"another text", func(r *eventhook.Route) { r.Filter = []byte(`{"header.x-env":"live"}`) }, `header.x-env is "test", wanted "live"`},
		{"none of a list", func(r *eventhook.Route) { r.Filter = []byte(`{"body.currency":["usd","eur"]}`) }, `body.currency is "gbp", wanted one of ["usd","eur"]`},
		{"nothing there", func(r *eventhook.Route) { r.Filter = []byte(`{"body.b":{"$ne":1}}`) }, "body.b is missing, wanted $ne 1"},
		{"the first that fails", func(r *eventhook.Route) { r.Filter = []byte(`{"body.amount":10,"body.c":1,"body.d":1}`) }, "body.c is missing, wanted 1"},
		{"none of several", func(r *eventhook.Route) { r.Filter = []byte(`{"$or":[{"body.amount":1},{"body.c":1}]}`) }, "none of $or: body.amount is 10, wanted 1; body.c is missing, wanted 1"},
		{"what must not hold", func(r *eventhook.Route) { r.Filter = []byte(`{"$not":{"body.amount":10}}`) }, `$not: {"body.amount":10} holds`},
		{"an operator that must not", func(r *eventhook.Route) { r.Filter = []byte(`{"body.amount":{"$not":{"$gt":1}}}`) }, `body.amount is 10, wanted $not {"$gt":1}`},
		{"a long value, cut", func(r *eventhook.Route) { r.Filter = []byte(`{"body.long":[1]}`) }, "body.long is [" + strings.Repeat("0,", 39) + "0…, wanted one of [1]"},
		{"an expression that is false", func(r *eventhook.Route) { r.FilterExpression = "body.amount > 1000" }, "filter_expression is false"},
		{"a member that is missing", func(r *eventhook.Route) { r.FilterExpression = "body.x > 1" }, "filter_expression: no such key: x"},
		{"a header that is missing", func(r *eventhook.Route) { r.FilterExpression = "headers['x-none'] != 'a'" }, "filter_expression: no such key: x-none"},
		{"an expression of another type", func(r *eventhook.Route) { r.FilterExpression = "body.amount" }, "filter_expression is of type int, and must be bool"},
		{"a function that says no", func(r *eventhook.Route) { r.FilterFunction = "function filter(e) { return e.body.amount > 1000 }" }, "filter_function returned nothing that is true"},
		{"a function that throws", func(r *eventhook.Route) { r.FilterFunction = "function filter(e) { return e.body.x.y }" }, "filter_function: line 1, column 37: TypeError: cannot read property 'y' of undefined"},
		{"the cheap one first", func(r *eventhook.Route) {
			r.Filter, r.FilterExpression, r.FilterFunction = []byte(`{"body.amount":1}`), "false", "function filter() { for (;;); }"
		}, "body.amount is 10, wanted 1"},
		{"then the expression", func(r *eventhook.Route) {
			r.Filter, r.FilterExpression, r.FilterFunction = []byte(`{"body.amount":10}`), "false", "function filter() { for (;;); }"
		}, "filter_expression is false"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := enabled(newRoute("r", "", "a"))
			c.route(&r)
			e := carrying(`{"amount":10,"currency":"gbp","long":[`+strings.Repeat("0,", 100)+`0]}`, "X-Env: test")
			if matched, reason := verdict(t, r, e); matched || reason != c.want {
				t.Errorf("got %t: %s\nwant false: %s", matched, reason, c.want)
			}
		})
	}
}

func TestReasonsOfMatches(t *testing.T) {
	r := enabled(newRoute("r", "push", "a"))
	r.Filter, r.FilterExpression, r.FilterFunction = []byte(`{"body.id":7}`), "body.id == 7", "const filter = ({body}) => body.id === 7"
	const want = `event type "push" matches "push", and its filters hold`
	if matched, reason := verdict(t, r, newEvent("push")); !matched || reason != want {
		t.Errorf("got %t: %s\nwant true: %s", matched, reason, want)
	}
}
