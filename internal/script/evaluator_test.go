package script_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/script"
)

// order is an event with most kinds of values.
const order = `{"event_id":"e1","n":12345678901234567890,"data":{"id":"o-1","total":12.50,"paid":true,"note":null,"name":"<Ada> & \u00e9","tags":["b","a"],
	"customer":{"id":"c-42","address":{"city":"Ulm"}},"lines":[{"sku":"a","count":2,"sizes":[1,[2]]},{"sku":"b","count":1,"sizes":[]},{"sku":null}]}}`

// evaluate evaluates an expression with a limit of steps.
func evaluate(t testing.TB, source, input string, limit int) (result json.RawMessage, ok bool, m *meter.Meter) {
	t.Helper()
	x := script.NewEvaluator(1)
	x.Learn(source)
	m = meter.New(t.Context(), limit, nil)
	result, ok = x.Evaluate(m, source, []byte(input))
	return result, ok, m
}

// Each expression is evaluated in the caller's process, with the result that a process has.
func TestEvaluator(t *testing.T) {
	for source, want := range map[string]string{
		"@":              "",
		"data.id":        `"o-1"`,
		"n":              `12345678901234567890`,
		"data.name":      `"<Ada> & é"`,
		"data.none.none": `null`,
		"{id: event_id, c: data.customer.address.city, x: `[1.0]`, t: 'raw'}": `{"c":"Ulm","id":"e1","t":"raw","x":[1]}`,
		"[data.id, data.total, [event_id]]":                                   `["o-1",12.5,["e1"]]`,
		"data.lines[].sku":                                                    `["a","b"]`,
		"data.lines[*].{s: sku, c: count}":                                    `[{"c":2,"s":"a"},{"c":1,"s":"b"},{"c":null,"s":null}]`,
		"data.lines[*].sizes[]":                                               `[1,[2]]`,
		"data.lines[*].sizes[][]":                                             `[1,2]`,
		"data.lines[?count > `1`].sku | [0]":                                  `"a"`,
		"data.lines[?sku == 'b' && count].count":                              `[1]`,
		"data.lines[-1:].sku":                                                 `[]`,
		"data.lines[::-1].sku":                                                `["b","a"]`,
		"data.name[0:3]":                                                      `"<Ad"`,
		"data.customer.*":                                                     `[{"city":"Ulm"},"c-42"]`,
		"data.*.id":                                                           `["c-42"]`,
		"data.note || data.none || 'x'":                                       `"x"`,
		"!(data.paid)":                                                        `false`,
		"data.customer == `{\"id\":\"c-42\"}`":                                `false`,
		"data.total * `2` + `1`":                                              `26`,
		"-data.total":                                                         `-12.5`,
		"join(', ', data.tags)":                                               `"b, a"`,
		"join('', ['Order ', data.id, ': ', to_string(data.total)])":          `"Order o-1: 12.5"`,
		"to_string(data.customer)":                                            `"{\"address\":{\"city\":\"Ulm\"},\"id\":\"c-42\"}"`,
		"merge(data.customer, {id: $.event_id})":                              `{"address":{"city":"Ulm"},"id":"e1"}`,
		"keys(data.customer)":                                                 `["address","id"]`,
		"length(data.lines)":                                                  `3`,
		"not_null(data.note, data.id)":                                        `"o-1"`,
		"upper(data.id)":                                                      `"O-1"`,
		"data.lines[?contains(['a'], sku)].count | sum(@)":                    `2`,
	} {
		got, ok, m := evaluate(t, source, order, meter.Slice)
		if !ok || want != "" && string(got) != want {
			t.Errorf("%s: got %s, %t after %d steps; want %s", source, got, ok, m.Steps(), want)
		}
	}
}

// Expressions whose cost cannot be counted, and evaluations that fail, are left to a process.
func TestLeftToAProcess(t *testing.T) {
	for _, source := range []string{
		"sort(data.tags)", "sort_by(data.lines, &sku)", "map(&sku, data.lines)", "pad_left(data.id, `1000000000`)", "replace(data.id, 'o', 'xx')",
		"split(data.id, '')", "let $x = data.id in $x", "data.tags[?length(map(&@, @)) > `0`]", strings.Repeat("!", 100) + "@", "[" + strings.Repeat("@,", 1000) + "@]",
		strings.Repeat("@|", 100) + "@", "length(data.total)", "contains(data.lines, `{}`)", "unknown(@)", "a b", "",
	} {
		if got, ok, _ := evaluate(t, source, order, 100*meter.Slice); ok {
			t.Errorf("%.40s: got %s, want no result", source, got)
		}
	}
	if got, ok, _ := evaluate(t, "@", "{", meter.Slice); ok {
		t.Errorf("broken JSON: got %s, want no result", got)
	}
	x := script.NewEvaluator(1)
	if got, ok := x.Evaluate(nil, "@", []byte(order)); ok {
		t.Errorf("an expression that was not learned: got %s, want no result", got)
	}
}

// wide is an event with a list of n numbers and a text of n characters.
func wide(n int) string {
	return `{"list":[` + strings.Repeat("1,", n-1) + `1],"text":"` + strings.Repeat("x", n) + `"}`
}

// An expression that multiplies its input stops at the limit of the meter, before it uses the
// memory.
func TestEvaluatorStopsAtTheLimit(t *testing.T) {
	repeat := func(part string) string { return strings.TrimSuffix(strings.Repeat(part+" | ", 30), " | ") }
	for _, source := range []string{
		repeat("[@, @]"), repeat("{a: @, b: @}"), repeat("[@, @][]"), repeat("[@, @][] | [@, @][*]"), repeat("[@[], @][]"),
		"[text] | " + repeat("[join('', @), join('', @)]"), "text | " + repeat("to_string([@, @])"), repeat("[@, @] | to_string(@)"),
		"list[*].[$.list, $.list][] | [*].[$]", "list[*].[$.list[*].[$.list[*].[$.list]]]", "list[?$.list[?$.list[?@ == `2`]]]", "list[*].[$][] | [*].list[][]",
		"join(text, list[*].to_string($.text))", "[" + repeat("[@, @]") + ", " + repeat("[@, @]") + "] | [0] == [1]", "list[*].[$.text[0:500]]", "list[*].reverse($.list) | @[]",
		"list[*].merge($, $) | [*].to_string(@)", "list[*].values($) | [*].to_string(@)",
	} {
		got, ok, m := evaluate(t, source, wide(600), meter.Slice)
		if ok || m.Err() == nil || m.Steps() > meter.Slice {
			t.Errorf("%.60s: got %d bytes, %t, %v after %d steps; want the limit of %d steps", source, len(got), ok, m.Err(), m.Steps(), meter.Slice)
		}
	}
}

// The cost of each node that reads values counts in proportion to their sizes.
func TestCostsAreCounted(t *testing.T) {
	const n, perNode = 600, 20
	steps := func(source string) int {
		_, ok, m := evaluate(t, source, wide(n), 10*meter.Slice)
		if !ok {
			t.Errorf("%s: got no result, %v", source, m.Err())
		}
		return m.Steps()
	}
	for source, want := range map[string]int{
		"list[*].a": n * perNode, "list[?`false`]": 2 * n * perNode, "list[] | [0]": 2 * n * perNode, "[list, list][] | [0]": 4 * n * perNode,
		"list[0:1] | [0]": n * perNode, "text[0:1]": n * perNode, "list == `1`": n * perNode, "length(list)": n * perNode, "length(text)": n,
		"join(text, ['a', 'b', 'c']) | length(@)": 4*n + 2*n, "list": n * perNode, "text": n,
	} {
		if got := steps(source) - steps("none"); got < want || got > 3*want+1000 {
			t.Errorf("%s: got %d steps more than without it, want %d and few others", source, got, want)
		}
	}
}

// compareWithProcess fails the test if an Evaluator and a process have different results. It
// reports whether the Evaluator has one.
func compareWithProcess(t *testing.T, processes *script.Pool, source, input string) (isEvaluated bool) {
	t.Helper()
	want, err := processes.Run(t.Context(), script.Program{Kind: script.JMESPath, Source: source}, []byte(input))
	x := script.NewEvaluator(1)
	if err == nil {
		x.Learn(source)
	}
	m := meter.New(t.Context(), meter.Slice, nil)
	got, ok := x.Evaluate(m, source, []byte(input))
	if ok && string(got) != string(want) {
		t.Errorf("%s over %s: got %s, want %s as from a process", source, input, got, want)
	}
	return ok
}

// expressionOf returns a random expression.
func expressionOf(chance *rand.Rand, depth int) string {
	inner := func() string { return expressionOf(chance, depth-1) }
	leaves := []string{"@", "$", "data", "event_id", "n", "data.lines", "data.tags", "data.customer", "sku", "count", "sizes", "id", "`2`", "`[1,[2]]`", "'a'", "[0]", "[-1]", "*", "[*]", "[]"}
	if depth == 0 || chance.IntN(8) == 0 {
		return leaves[chance.IntN(len(leaves))]
	}
	switch chance.IntN(16) {
	case 0, 1, 2:
		return inner() + " | " + inner()
	case 3:
		return "(" + inner() + ").data"
	case 4:
		return "[" + inner() + ", " + inner() + "]"
	case 5:
		return "{a: " + inner() + ", id: " + inner() + "}"
	case 6:
		return "(" + inner() + ")[*].[" + inner() + "]"
	case 7:
		return "(" + inner() + ")[]"
	case 8:
		return "(" + inner() + ")[?" + inner() + "]"
	case 9:
		return "(" + inner() + ")[" + []string{"1:", ":2", "::-1", "0:9:2"}[chance.IntN(4)] + "]"
	case 10:
		return inner() + []string{" == ", " != ", " < ", " >= "}[chance.IntN(4)] + inner()
	case 11:
		return inner() + []string{" && ", " || ", " + ", " * "}[chance.IntN(4)] + inner()
	case 12:
		return "!(" + inner() + ")"
	case 13:
		return "(" + inner() + ").*"
	case 14:
		return []string{"type", "to_string", "to_array", "not_null", "length", "keys", "reverse", "max", "to_number"}[chance.IntN(9)] + "(" + inner() + ")"
	default:
		return []string{"join", "contains", "merge", "not_null"}[chance.IntN(4)] + "(" + inner() + ", " + inner() + ")"
	}
}

// An Evaluator has the results of a process, byte by byte.
func TestEvaluatorEqualsAProcess(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	processes := script.NewPromptPool(1, 100*script.TimeLimit)
	defer processes.Close()
	const runs = 500
	evaluated := 0
	for range runs {
		if compareWithProcess(t, processes, expressionOf(chance, 1+chance.IntN(4)), order) {
			evaluated++
		}
	}
	if evaluated < runs/2 {
		t.Errorf("%d of %d expressions were evaluated, want most", evaluated, runs)
	}
}

func FuzzEvaluatorEqualsAProcess(f *testing.F) {
	f.Add("{id: event_id, skus: data.lines[].sku}", order)
	f.Add("data.lines[?count > `1`] | join('', [*].sku)", order)
	processes := script.NewPromptPool(1, 100*script.TimeLimit)
	f.Cleanup(processes.Close)
	f.Fuzz(func(t *testing.T, source, input string) { compareWithProcess(t, processes, source, input) })
}

// BenchmarkEvaluate reports the time of a step, which meter.StepTime assumes to be 10 ns, for
// expressions that spend their steps in different ways.
func BenchmarkEvaluate(b *testing.B) {
	large := wide(2000)
	for name, c := range map[string]struct{ source, input string }{
		"usual":       {"{id: event_id, customer: data.customer.id, skus: data.lines[].sku, text: join(' ', ['Order', data.id])}", order},
		"decode":      {"event_id", large},
		"identity":    {"@", wide(1000)},
		"projections": {"list[*].[@, @, @][] | [0]", wide(200)},
		"nested":      {"list[*].[$.list[*].[@]] | [0]", wide(40)},
		"filters":     {"list[?@ == `2`]", wide(400)},
		"texts":       {"list[*].to_string($.text) | [0]", wide(50)},
		"lists":       {"list[*].{a: @, b: @, c: @} | [0]", wide(200)},
		"slices":      {"list[*].[$.text[1:]] | [0]", wide(50)},
		"strings":     {"@", `["` + strings.Repeat(`a","`, 1000) + `"]`},
		"maps":        {"[@, @]", `{"m":[` + strings.Repeat(`{"a":{}},`, 300) + `{}]}`},
		"long":        {"@", wide(1)[:20] + strings.Repeat("\\u00e9<", 5000) + `"}`},
		"objects":     {"[" + strings.Repeat("*,", 40) + "*] | [0]", order},
		"compared":    {"list[?$.list == $.list] | [0]", wide(50)},
		"merged":      {"list[*].merge($, {a: `1`}, {b: `2`}) | [0]", wide(40)},
	} {
		b.Run(name, func(b *testing.B) {
			x := script.NewEvaluator(1)
			x.Learn(c.source)
			steps := 0
			b.ReportAllocs()
			for b.Loop() {
				m := meter.New(b.Context(), meter.Slice, nil)
				if _, ok := x.Evaluate(m, c.source, []byte(c.input)); !ok {
					b.Fatalf("got no result: %v", m.Err())
				}
				steps = m.Steps()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*steps), "ns/step")
		})
	}
}
