package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

// faultTexts formats faults as "location: message".
func faultTexts(faults eventhook.Faults) []string {
	var list []string
	for _, f := range faults {
		list = append(list, f.Location+": "+f.Message)
	}
	return list
}

func TestCheckReportsEveryFault(t *testing.T) {
	r := eventhook.Route{
		Filter:           []byte(`{"body.a":{"$gte":true,"$near":1},"bdy.b":1,"$or":[],"body.c":{"x":1},"body..d":1,"event.amount":1}`),
		FilterExpression: "body.a >\n  bdy.b && header['x'] == 1",
		FilterFunction:   "function filter(e) {\n  return e.body..x\n}",
		Transform:        &eventhook.Transform{Type: "jmespath", Expression: "{id: ]}"},
	}
	want := []string{
		"filter.body.a.$gte: must be a number or a string",
		"filter.body.a.$near: is not one of $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $startsWith, $endsWith, $exists, $regex, $not",
		`filter.bdy.b: "bdy.b" is not a path: write body.<path>, header.<name>, cloudevent.<path> or event.<field>`,
		"filter.$or: must be a list of filters",
		"filter.body.c.x: is not an operator: to compare with an object, use $eq; to test its members, use a longer path",
		`filter.body..d: path "body..d" has an empty part`,
		`filter.event.amount: "event.amount" is not a field of an event: the fields are event.body_size, event.content_type, event.correlation_id, event.id, event.idempotency_key, event.origin, event.received_at, event.request_id, event.source, event.source_ip, event.trace_id, event.type`,
		"filter_expression: line 2, column 3: undeclared reference to 'bdy' (did you mean 'body'?)",
		"filter_expression: line 2, column 12: undeclared reference to 'header' (did you mean 'headers'?)",
		"filter_function: line 2, column 17: SyntaxError: expecting field name",
		"transform.expression: line 1, column 6: the expression is not valid at this position",
	}
	if diff := cmp.Diff(want, faultTexts(check(t, r))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestCheckOfFilters(t *testing.T) {
	deep := strings.Repeat(`{"$and":[`, 30) + `{}` + strings.Repeat(`]}`, 30)
	var many, regexps []string
	for i := range 600 {
		many = append(many, fmt.Sprintf(`"body.a%d":1`, i))
	}
	for i := range 21 {
		regexps = append(regexps, fmt.Sprintf(`"body.a%d":{"$regex":"x"}`, i))
	}
	for _, c := range []struct{ claim, filter, want string }{
		{"no JSON", "{\"body.a\":\n 1,}", "filter: is not JSON: line 2, column 4"},
		{"more than one value", `{} {}`, "filter: is not JSON: line 1, column 4"},
		{"a list", `[]`, "filter: must be an object of paths and conditions"},
		{"a text", `"x"`, "filter: must be an object"},
		{"one path twice", `{"body.a":1,"body.a":2}`, "filter.body.a: is given twice"},
		{"one operator twice", `{"body.a":{"$gt":1,"$gt":2}}`, "filter.body.a.$gt: is given twice"},
		{"a path of nothing", `{"":1}`, "filter: "},
		{"the whole body", `{"body":1}`, `filter.body: "body" is not a path`},
		{"joined paths", `{"body.a + body.b":1}`, "filter.body.a + body.b: \"body.a + body.b\" joins several paths"},
		{"a hash", `{"sha256.body":1}`, "filter.sha256.body: \"sha256.body\" is not a path"},
		{"an operator for a path", `{"$gt":1}`, "filter.$gt: is not one of $and, $or, $not, nor a path"},
		{"no operator at all", `{"body.a":{}}`, "filter.body.a: has no operator"},
		{"$and of an object", `{"$and":{"body.a":1}}`, "filter.$and: must be a list of filters"},
		{"$or of a value", `{"$or":[{"body.a":1},2]}`, "filter.$or[1]: must be an object"},
		{"$not of a list", `{"$not":[]}`, "filter.$not: must be an object"},
		{"a fault inside", `{"$or":[{},{"$not":{"body.a":{"$in":1}}}]}`, "filter.$or[1].$not.body.a.$in: must be a list of values"},
		{"$not of a value", `{"body.a":{"$not":1}}`, "filter.body.a.$not: must be an object of operators"},
		{"$not of $not", `{"body.a":{"$not":{"$not":{"$eq":1}}}}`, "filter.body.a.$not.$not: is not one of"},
		{"$exists in $not", `{"body.a":{"$not":{"$exists":true}}}`, "filter.body.a.$not.$exists: is not allowed in $not"},
		{"$exists of a number", `{"body.a":{"$exists":1}}`, "filter.body.a.$exists: must be true or false"},
		{"$startsWith of a number", `{"body.a":{"$startsWith":1}}`, "filter.body.a.$startsWith: must be a string"},
		{"$regex of a number", `{"body.a":{"$regex":1}}`, "filter.body.a.$regex: must be a regular expression"},
		{"$regex that is none", `{"body.a":{"$regex":"("}}`, "filter.body.a.$regex: at character 1: missing closing ): `(`"},
		{"$regex that does not end", `{"body.a":{"$regex":"^é(a|b(c)"}}`, "filter.body.a.$regex: at character 3: missing closing ): `^é(a|b(c)`"},
		{"$regex that ends too often", `{"body.a":{"$regex":"\\([)](c))d"}}`, "filter.body.a.$regex: at character 9: unexpected ): `\\([)](c))d`"},
		{"$regex whose class does not end", `{"body.a":{"$regex":"ab[c"}}`, "filter.body.a.$regex: at character 3: missing closing ]: `[c`"},
		{"$regex that repeats nothing", `{"body.a":{"$regex":"ab|**"}}`, "filter.body.a.$regex: at character 4: missing argument to repetition operator: `*`"},
		{"$regex of another kind", `{"body.a":{"$regex":"a(?=x)"}}`, "filter.body.a.$regex: at character 2: invalid or unsupported Perl syntax: `(?=`"},
		{"$regex that grows", `{"body.a":{"$regex":"(abcdefghij){500}"}}`, "filter.body.a.$regex: is too large"},
		{"$regex that is long", `{"body.a":{"$regex":"` + strings.Repeat("x", 1001) + `"}}`, "filter.body.a.$regex: is longer than"},
		{"$regex that nests", `{"body.a":{"$regex":"` + strings.Repeat("(", 450) + strings.Repeat(")", 450) + `"}}`, ""},
		{"too many of them", "{" + strings.Join(regexps, ",") + "}", "filter.body.a20.$regex: is one regular expression too many"},
		{"too deep", deep, "filter." + strings.TrimSuffix(strings.Repeat("$and[0].", 20), ".") + ": nests deeper than 20"},
		{"too many conditions", "{" + strings.Join(many, ",") + "}", "filter: has more than 500 conditions"},
		{"too long", `{"body.a":"` + strings.Repeat("x", 65_536) + `"}`, "filter: is 65549 bytes long"},
		{"too deep a value", `{"body.a":{"$eq":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}}`, "filter: contains lists or objects that nest deeper than 100"},
		{"a value with brackets in a text", `{"body.a":{"$eq":"` + strings.Repeat(`\"[`, 200) + `"},"body.a":1}`, "filter.body.a: is given twice"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := faultTexts(check(t, eventhook.Route{Filter: []byte(c.filter)}))
			if c.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) || c.want == "" {
				t.Errorf("got %.300q, want %q alone", got, c.want)
			}
		})
	}
}

// The texts do not name the tokens of CEL's parser.
func TestSyntaxErrorsOfExpressions(t *testing.T) {
	for _, c := range []struct {
		expression string
		want       []string
	}{
		{"", nil},
		{" ", []string{"line 1, column 2: the expression ends too early"}},
		{"!", []string{"line 1, column 2: the expression ends too early"}},
		{"[1, 2", []string{"line 1, column 6: the expression ends too early"}},
		{"(body.a == 1", []string{"line 1, column 13: ')' is missing at the end"}},
		{"body.a == 1 and body.b", []string{"line 1, column 13: 'and' is not expected here"}},
		{"body.a ==\n  1)", []string{"line 2, column 4: ')' is not expected here"}},
		{"body.a in [1,,2]", []string{"line 1, column 14: ',' is not expected here"}},
		{"body.a == 1 ' expecting {'", []string{"line 1, column 13: '' expecting {'' is not expected here"}},
		{"body..a", []string{"line 1, column 6: '..' is not valid"}},
		{"body.a == 1;", []string{"line 1, column 12: ';' cannot be read"}},
		{"body.a == 'x", []string{"line 1, column 11: ''x' cannot be read", "line 1, column 13: the expression ends too early"}},
	} {
		var want []string
		for _, text := range c.want {
			want = append(want, "filter_expression: "+text)
		}
		if diff := cmp.Diff(want, faultTexts(check(t, eventhook.Route{FilterExpression: c.expression}))); diff != "" {
			t.Errorf("%q: faults (-want +got):\n%s", c.expression, diff)
		}
	}
}

func TestCheckOfOtherSettings(t *testing.T) {
	long := strings.Repeat(" ", 65_537)
	for _, c := range []struct {
		claim string
		route eventhook.Route
		want  []string
	}{
		{"nothing to check", eventhook.Route{}, nil},
		{"an expression of another type", eventhook.Route{FilterExpression: "1 + 1"}, []string{"filter_expression: line 1, column 1: is of type int, and must be bool"}},
		{"an expression cut short", eventhook.Route{FilterExpression: "body.a =="}, []string{"filter_expression: line 1, column 10: the expression ends too early"}},
		{"an expression of unknown functions", eventhook.Route{FilterExpression: "body.a.fetch()"}, []string{"filter_expression: line 1, column 13: undeclared reference to 'fetch'"}},
		{"types that do not fit", eventhook.Route{FilterExpression: "headers == 1"}, []string{"filter_expression: line 1, column 9: found no matching overload"}},
		{"a regular expression that grows", eventhook.Route{FilterExpression: "body.a.matches('(abcdefghij){500}')"}, []string{"filter_expression: line 1, column "}},
		{"many regular expressions", eventhook.Route{FilterExpression: manyPatterns(40)}, []string{"filter_expression: line 1, column "}},
		{"the same regular expression often", eventhook.Route{FilterExpression: strings.TrimSuffix(strings.Repeat(`body.t.matches('\\pL{0,470}') || `, 40), " || ")}, nil},
		{"an expression that is too long", eventhook.Route{FilterExpression: long}, []string{"filter_expression: is 65537 bytes long"}},
		{"a function that is too long", eventhook.Route{FilterFunction: long}, []string{"filter_function: is 65537 bytes long"}},
		{"a function that is none", eventhook.Route{FilterFunction: "1"}, []string{"filter_function: it defines no function filter(event)"}},
		{"a function whose source does not end", eventhook.Route{FilterFunction: "for (;;);"}, []string{"filter_function: the script was stopped: it ran longer than 1s"}},
		{"an async function", eventhook.Route{FilterFunction: "async function filter(e) { return true }"}, []string{"filter_function: filter must be a plain function that returns its result: it is async"}},
		{"an async transform", eventhook.Route{Transform: &eventhook.Transform{Type: "javascript", Expression: "const transform = async e => e"}}, []string{"transform.expression: transform must be a plain function that returns its result: it is async"}},
		{"a transform of no type", eventhook.Route{Transform: &eventhook.Transform{Expression: "x"}}, []string{`transform.type: "" is not one of jmespath, javascript`}},
		{"a transform of nothing", eventhook.Route{Transform: &eventhook.Transform{Type: "xslt"}}, []string{`transform.type: "xslt" is not one of jmespath, javascript`, "transform.expression: is required"}},
		{"a transform that is no text", eventhook.Route{Transform: &eventhook.Transform{Type: "jmespath", Expression: "a\x00"}}, []string{"transform.expression: must be UTF-8 without NUL"}},
		{"a transform that filters", eventhook.Route{Transform: &eventhook.Transform{Type: "javascript", Expression: "function filter() {}"}}, []string{"transform.expression: it defines no function transform(event)"}},
		{"an unknown function of JMESPath", eventhook.Route{Transform: &eventhook.Transform{Type: "jmespath", Expression: "{a: fetch(@)}"}}, []string{"transform.expression: line 1, column 5: unknown function fetch"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := faultTexts(check(t, c.route))
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

// Compiling any text as a route ends soon and does not end the process.
func TestCheckOfHostileRoutes(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("(", 16_000), strings.Repeat("[", 16_000), strings.Repeat("!", 16_000) + "true", strings.Repeat("-", 16_000) + "1",
		"true" + strings.Repeat("||true", 2_700), "1" + strings.Repeat("+1", 8_000) + ">0", strings.Repeat("body.list.all(x,", 900),
		strings.Repeat("true?true:", 1_600) + "true", "body" + strings.Repeat(".a", 8_000) + "==1", `"` + strings.Repeat("\\", 16_000), "\x00\xff", strings.Repeat("{", 16_000),
	} {
		r := eventhook.Route{
			Filter: []byte(text), FilterExpression: text, FilterFunction: "function filter() { return " + text + "}",
			Transform: &eventhook.Transform{Type: "jmespath", Expression: text},
		}
		faults := check(t, r)
		if len(faults) == 0 {
			t.Errorf("%.20q: got no faults, want at least 1", text)
		}
		if len(faults) > 100 {
			t.Errorf("%.20q: got %d faults, want at most 100", text, len(faults))
		}
	}
}
