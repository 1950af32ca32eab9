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
		{"another string", func(r *eventhook.Route) { r.Filter = []byte(`{"header.x-env":"live"}`) }, `header.x-env is "test", wanted "live"`},
		{"none of a list", func(r *eventhook.Route) { r.Filter = []byte(`{"body.currency":["usd","eur"]}`) }, `body.currency is "gbp", wanted one of ["usd","eur"]`},
		{"a missing value", func(r *eventhook.Route) { r.Filter = []byte(`{"body.b":{"$ne":1}}`) }, "body.b is missing, wanted $ne 1"},
		{"the first of several failing paths", func(r *eventhook.Route) { r.Filter = []byte(`{"body.amount":10,"body.c":1,"body.d":1}`) }, "body.c is missing, wanted 1"},
		{"none of several", func(r *eventhook.Route) { r.Filter = []byte(`{"$or":[{"body.amount":1},{"body.c":1}]}`) }, "none of $or: body.amount is 10, wanted 1; body.c is missing, wanted 1"},
		{"a denied filter that holds", func(r *eventhook.Route) { r.Filter = []byte(`{"$not":{"body.amount":10}}`) }, `$not: {"body.amount":10} holds`},
		{"a denied operator that passes", func(r *eventhook.Route) { r.Filter = []byte(`{"body.amount":{"$not":{"$gt":1}}}`) }, `body.amount is 10, wanted $not {"$gt":1}`},
		{"a long value is truncated", func(r *eventhook.Route) { r.Filter = []byte(`{"body.long":[1]}`) }, "body.long is [" + strings.Repeat("0,", 39) + "0…, wanted one of [1]"},
		{"an expression that is false", func(r *eventhook.Route) { r.FilterExpression = "body.amount > 1000" }, "filter_expression is false"},
		{"a member that is missing", func(r *eventhook.Route) { r.FilterExpression = "body.x > 1" }, "filter_expression: line 1, column 5: no such key: x"},
		{"a header that is missing", func(r *eventhook.Route) { r.FilterExpression = "headers['x-none'] != 'a'" }, "filter_expression: line 1, column 8: no such key: x-none"},
		{"a string compared with a number", func(r *eventhook.Route) { r.FilterExpression = "body.amount == 10 &&\n  body.currency > 5" }, "filter_expression: line 2, column 17: > does not work with string and int"},
		{"a negated number", func(r *eventhook.Route) { r.FilterExpression = "!body.amount" }, "filter_expression: line 1, column 1: ! does not work with int"},
		{"a condition that is a number", func(r *eventhook.Route) { r.FilterExpression = "body.amount ? true : false" }, "filter_expression: line 1, column 13: ? : does not work with int"},
		{"an index of a number", func(r *eventhook.Route) { r.FilterExpression = "body.amount[0] == 1" }, "filter_expression: line 1, column 12: [ ] does not work with int and int"},
		{"a member of a string", func(r *eventhook.Route) { r.FilterExpression = "body.currency.code == 'gbp'" }, "filter_expression: line 1, column 14: string has no member code"},
		{"an iteration over a string", func(r *eventhook.Route) { r.FilterExpression = "body.currency.all(x, true)" }, "filter_expression: line 1, column 18: string is neither a list nor a map, so it cannot be iterated"},
		{"an element of the wrong type", func(r *eventhook.Route) { r.FilterExpression = "body.long.all(x, x < 'a')" }, "filter_expression: line 1, column 20: < does not work with int and string"},
		{"the size of a number", func(r *eventhook.Route) { r.FilterExpression = "size(body.amount) > 1" }, "filter_expression: line 1, column 5: size does not work with int"},
		{"startsWith of a number", func(r *eventhook.Route) { r.FilterExpression = "body.amount.startsWith('1')" }, "filter_expression: line 1, column 23: startsWith does not work with int and string"},
		{"an ignored error before the failing part", func(r *eventhook.Route) { r.FilterExpression = "(body.x || true) && -body.currency == 1" }, "filter_expression: line 1, column 21: - does not work with string"},
		{"division by zero", func(r *eventhook.Route) { r.FilterExpression = "1 / (body.amount - 10) > 0" }, "filter_expression: line 1, column 3: division by zero"},
		{"an expression of another type", func(r *eventhook.Route) { r.FilterExpression = "body.amount" }, "filter_expression is of type int, and must be bool"},
		{"a function that says no", func(r *eventhook.Route) { r.FilterFunction = "function filter(e) { return e.body.amount > 1000 }" }, "filter_function did not return a true value"},
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

func TestReasonsSayThatTheBodyCouldNotBeRead(t *testing.T) {
	const json, unread = "application/json", " (the body could not be read: malformed JSON at byte 9)"
	pattern := func(text string) eventhook.Route { return eventhook.Route{Filter: []byte(text)} }
	expression := func(text string) eventhook.Route { return eventhook.Route{FilterExpression: text} }
	for _, c := range []struct {
		claim             string
		route             eventhook.Route
		contentType, body string
		want              string
	}{
		{"a pattern", pattern(`{"body.n":{"$gte":5}}`), json, `{"n":10,}`, "body.n is missing, wanted $gte 5" + unread},
		{"an expression", expression("body.n > 5"), json, `{"n":10,}`, "filter_expression: line 1, column 5: no such key: n" + unread},
		{"a function", eventhook.Route{FilterFunction: "const filter = e => e.body.n > 5"}, json, `{"n":10,}`, "filter_function did not return a true value" + unread},
		{"once for several paths", pattern(`{"$or":[{"body.n":5},{"$not":{"body.m":{"$exists":false}}}]}`), json, `{"n":10,}`,
			`none of $or: body.n is missing, wanted 5; $not: {"body.m":{"$exists":false}} holds` + unread},
		{"a denied filter", pattern(`{"$not":{"body.m":{"$exists":false}}}`), json, `{"n":10,}`, `$not: {"body.m":{"$exists":false}} holds` + unread},
		{"a filter that matches because the body is missing", pattern(`{"body.n":{"$exists":false}}`), json, `{"n":10,}`, "the route takes events of every type, and its filters hold" + unread},
		{"JSON that says it is a form", pattern(`{"body.n":10}`), "application/x-www-form-urlencoded", `{"n":10}`, "the route takes events of every type, and its filters hold"},
		{"a CloudEvent in the body", pattern(`{"cloudevent.type":"a"}`), "application/cloudevents+json", `{"n":10,}`, `cloudevent.type is missing, wanted "a"` + unread},
		{"a CloudEvent in the headers", pattern(`{"cloudevent.type":"a"}`), json, `{"n":10,}`, `cloudevent.type is missing, wanted "a"`},
		{"filters that do not read it", eventhook.Route{Filter: []byte(`{"header.x-a":"b"}`), FilterExpression: "headers['x-a'] == 'b'"}, json, `{"n":10,}`, `header.x-a is missing, wanted "b"`},
		{"no filters at all", eventhook.Route{}, json, `{"n":10,}`, "the route takes events of every type"},
		{"no filters, and a target that fails", eventhook.Route{Targets: []eventhook.Target{taskOf("fails")}}, json, `{"n":10,}`, "the route takes events of every type" + unread},
		{"a body that can be read", pattern(`{"body.n":5}`), json, `{"m":10}`, "body.n is missing, wanted 5"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newRoute("r", "", "a")
			r.IsEnabled, r.Filter, r.FilterExpression, r.FilterFunction = true, c.route.Filter, c.route.FilterExpression, c.route.FilterFunction
			if c.route.Targets != nil {
				r.Targets = c.route.Targets
			}
			e := carrying(c.body)
			e.ContentType = c.contentType
			x := explain(t, compile(r), e)[0]
			if x.Reason != c.want {
				t.Errorf("got %s\nwant %s", x.Reason, c.want)
			}
			if strings.Contains(x.General, "byte") || !x.Matched && strings.Contains(x.General, "(") != strings.Contains(c.want, "(") {
				t.Errorf("in general: got %s, want the same without a place", x.General)
			}
		})
	}
}
