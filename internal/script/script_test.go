package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/script"
)

// ample is a time limit that no terminating program reaches, even on a slow machine.
const ample = 20 * time.Second

func newPool(t *testing.T, processes int) *script.Pool {
	t.Helper()
	p := script.NewPool(processes, script.TimeLimit)
	t.Cleanup(p.Close)
	return p
}

// outcome returns the output, or "reason: message" if there is an error.
func outcome(output json.RawMessage, err error) string {
	if e, ok := errors.AsType[*script.Error](err); ok {
		reason := e.Reason
		if reason == script.Starved { // on a busy machine
			reason = script.TimedOut
		}
		return string(rune(reason)) + ": " + e.Error()
	}
	return string(output)
}

const event = `{"type":"push","headers":{"x-env":"live"},"body":{"amount":10,"list":[1,2]}}`

func TestRun(t *testing.T) {
	strict, patient := newPool(t, 1), newPool(t, 1).Within(ample)
	filter := func(body string) script.Program {
		return script.Program{Kind: script.Filter, Source: "function filter(event) {\n" + body + "\n}"}
	}
	transform := func(body string) script.Program {
		return script.Program{Kind: script.Transform, Source: "function transform(event) {\n" + body + "\n}"}
	}
	js := func(kind script.Kind, source string) script.Program {
		return script.Program{Kind: kind, Source: source}
	}
	const stoppedSomehow = "*"
	const silent = "x: it threw an exception without a message" // reading the message would not end
	ended := "l: the process that ran it ended; it may have used too much memory"
	if runtime.GOOS != "linux" || script.Racing {
		ended = stoppedSomehow // the system does not limit the memory
	}
	const notPlain = "b: filter must be a plain function that returns its result: "
	const stopped = "t: the script was stopped: it ran longer than 100ms"
	for _, c := range []struct {
		claim   string
		program script.Program
		want    string
	}{
		{"a filter that returns true", filter("return event.body.amount > 5"), "true"},
		{"a filter that returns false", filter("return event.body.amount > 50"), "false"},
		{"an object is truthy", filter("return event.body"), "true"},
		{"an empty string is falsy", filter("return ''"), "false"},
		{"undefined is falsy", filter(""), "false"},
		{"an arrow function", js(script.Filter, "const filter = e => e.headers['x-env'] === 'live'"), "true"},
		{"a cyclic object is truthy", filter("const a = {}; a.a = a; return a"), "true"},
		{"a helper function", js(script.Filter, "function big(n) { return n > 5 }\nfunction filter({body}) { return big(body.amount) }"), "true"},
		{"a transform", transform("return {id: event.body.amount, list: event.body.list.map(n => n * 2)}"), `{"id":10,"list":[2,4]}`},
		{"null is JSON", transform("return null"), "null"},
		{"undefined is not JSON", transform(""), "x: transform returned a value without a JSON form, such as undefined"},
		{"a function is not JSON", transform("return () => 1"), "x: transform returned a value without a JSON form, such as undefined"},
		{"a BigInt is not JSON", transform("return {n: 1n}"), "x: TypeError: Do not know how to serialize a BigInt"},
		{"a lone surrogate stays JSON", transform(`return "\ud800"`), `"\ud800"`},
		{"NUL stays JSON", transform(`return "\0"`), `"\u0000"`},
		{"an async function", js(script.Filter, "async function filter() { return false }"), notPlain + "it is async"},
		{"an async arrow function", js(script.Filter, "const filter = async e => true"), notPlain + "it is async"},
		{"a generator", js(script.Filter, "function* filter() { yield true }"), notPlain + "it is a generator"},
		{"an async generator", js(script.Filter, "async function* filter() { yield true }"), notPlain + "it is an async generator"},
		{"an async function that disguises itself", js(script.Filter, "const g = Object.getPrototypeOf; Object.getPrototypeOf = () => null; async function filter() { return true }; filter.constructor = Function"), notPlain + "it is async"},
		{"an async transform", js(script.Transform, "async function transform(e) { return e }"), strings.Replace(notPlain, "filter", "transform", 1) + "it is async"},
		{"a promise is not a result", js(script.Filter, "const ask = async e => false; const filter = e => ask(e)"), notPlain + "it returned a promise"},
		{"a plain function that calls an async one", js(script.Filter, "const ask = async e => false; const filter = e => { ask(e); return true }"), "true"},
		{"a member of undefined", filter("return event.body.a.b"), "x: line 2, column 20: TypeError: cannot read property 'b' of undefined"},
		{"a string is thrown", filter("throw 'no'"), "x: it threw no"},
		{"an object is thrown whose toString hangs", filter("throw {toString() { for (;;); }}"), silent},
		{"a misspelled function", js(script.Filter, "function fliter() {}"), "b: it defines no function filter(event)"},
		{"a function of another name", js(script.Filter, "function transform() {}"), "b: it defines no function filter(event)"},
		{"invalid JavaScript", js(script.Filter, "function filter(e {\n}"), "b: line 1, column 19: SyntaxError: expecting ','"},
		{"a module", js(script.Filter, "import fs from 'fs'"), "b: line 1, column 8: SyntaxError: expecting '('"},
		{"an endless loop", filter("for (;;);"), stopped},
		{"an endless loop that catches exceptions", filter("for (;;) { try { for (;;); } catch {} finally { continue } }"), stopped},
		{"an endless loop outside of the function", js(script.Filter, "for (;;);"), stopped},
		{"a native call that hangs", filter("return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)"), stopped},
		{"a slow search of a string", filter("return 'a'.repeat(1e6).indexOf('a'.repeat(5e5) + 'b')"), stopped},
		{"a slow regular expression", filter("return /(a+)+$/.test('a'.repeat(50) + 'b')"), stopped},
		{"an endless loop in toJSON", transform("return {toJSON() { for (;;); }}"), stopped},
		{"endless recursion", filter("return filter(event)"), "m: it was stopped: its calls or its source nest too deep"},
		{"a deeply nested source", js(script.Filter, strings.Repeat("[", 60_000)), "m: it was stopped: its calls or its source nest too deep"},
		{"a large array", filter("return new ArrayBuffer(1e9)"), "m: it was stopped: it used more than 32 MiB of memory"},
		{"more memory than the engine may use", filter("return new ArrayBuffer(64e6)"), "m: it was stopped: it used more than 32 MiB of memory"},
		{"a large result", transform("return 'a'.repeat(2e6)"), "m: its result is larger than 1 MiB"},
		{"modules cannot be imported", js(script.Transform, "let found = 'nothing'; import('std').then(() => { found = 'std' }); function transform() { return found }"), `"nothing"`},
		{"no host objects", transform("return ['std', 'os', 'print', 'console', 'require', 'process', 'fetch', 'setTimeout', 'scriptArgs', 'WebAssembly'].filter(n => n in globalThis)"), `[]`},
		{"waiting is not possible", filter("return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0)"), "x: line 2, column 1: TypeError: cannot block in this thread"},
		{"replaced built-ins have no effect", js(script.Filter, "JSON.stringify = JSON.parse = Promise = Boolean = () => { throw 1 }; function filter() { return true }"), "true"},
		{"JMESPath", js(script.JMESPath, "{id: body.amount, first: body.list[0]}"), `{"first":1,"id":10}`},
		{"a missing member is null", js(script.JMESPath, "body.nothing"), "null"},
		{"HTML characters are not escaped", js(script.JMESPath, "'<&>'"), `"<&>"`},
		{"invalid JMESPath", js(script.JMESPath, "{id: body.amount,\n  x: ]}"), "b: line 2, column 6: the expression is not valid at this position"},
		{"JMESPath with a number as a key", js(script.JMESPath, "{1: id}"), "b: line 1, column 2: the expression is not valid at this position"},
		{"JMESPath that ends in a slice", js(script.JMESPath, "list[1: \n"), "b: line 2, column 1: the expression ends too early"},
		{"JMESPath that ends after a dot", js(script.JMESPath, "body."), "b: line 1, column 6: the expression ends too early"},
		{"JMESPath with an unclosed string", js(script.JMESPath, "'x"), "b: line 1, column 3: SyntaxError: Unclosed delimiter: '"},
		{"a JMESPath function with the wrong type", js(script.JMESPath, "abs(type)"), `x: invalid type for: push, expected: "number"`},
		{"a reference to an expression is not JSON", js(script.JMESPath, "&body"), "x: its result is not JSON"},
		{"unclosed brackets", js(script.JMESPath, strings.Repeat("(", 16_000)), "b: line 1, column 16001: the expression ends too early"},
		{"JMESPath that is too long", js(script.JMESPath, strings.Repeat("(", 16_385)), "b: is 16385 bytes long, at most 16384 are allowed"},
		{"JMESPath that doubles", js(script.JMESPath, "@"+strings.Repeat("|[@,@]", 60)), stoppedSomehow},
		{"JMESPath that doubles a list", js(script.JMESPath, "[@]"+strings.Repeat("|[@,@][]", 60)), stoppedSomehow},
		{"JMESPath that pads a string", js(script.JMESPath, "pad_left('a', `4000000000`)"), ended},
		{"an unknown kind", js('?', ""), `b: programs of kind '?' are unknown`},
		{"a source that is too long", js(script.Filter, strings.Repeat(" ", script.SourceLimit+1)), "b: is 65537 bytes long, at most 65536 are allowed"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			pool := patient
			if c.want == stopped || c.want == stoppedSomehow || c.want == silent {
				pool = strict
			}
			got := outcome(pool.Run(t.Context(), c.program, []byte(event)))
			if c.want == stoppedSomehow {
				// The time or the memory may run out first.
				if got != stopped && !strings.HasPrefix(got, "l: the process that ran it ended") {
					t.Errorf("got %.100s, want it stopped", got)
				}
			} else if got != c.want {
				t.Errorf("got %.200s, want %s", got, c.want)
			}
			if again := outcome(patient.Run(t.Context(), filter("return true"), []byte(event))); again != "true" {
				t.Errorf("the next run: got %s, want true", again)
			}
		})
	}
}

// The memory of a process is limited to 320 MiB, so a leak would end it.
func TestRunsLeakNoMemory(t *testing.T) {
	runs := 4000
	if script.Racing {
		runs = 100 // the system does not limit the memory
	}
	pool := newPool(t, 1).Within(ample)
	program := script.Program{Kind: script.Transform, Source: "const transform = e => e.body"}
	for n := range runs {
		if got := outcome(pool.Run(t.Context(), program, []byte(`{"body":[1]}`))); got != "[1]" {
			t.Fatalf("run %d: got %s, want [1]", n+1, got)
		}
	}
}

func TestCheckRunsNoFunction(t *testing.T) {
	pool := newPool(t, 1).Within(ample)
	for _, c := range []struct {
		kind         script.Kind
		source, want string
	}{
		{script.Filter, "function filter() { for (;;); }", ""},
		{script.Transform, "const transform = () => { throw 1 }", ""},
		{script.JMESPath, "abs(@)", ""},
		{script.JMESPath, "{a: nothing(@)}", "b: line 1, column 5: unknown function nothing"},
		{script.JMESPath, "{a: 'é nothing(\\'', \"nothing(\": `\"nothing(\"`,\n e: length(a_nothing), b: [nothing\n(@)]}", "b: line 2, column 28: unknown function nothing"},
		{script.Filter, "async function filter() { return true }", "b: filter must be a plain function that returns its result: it is async"},
		{script.Transform, "const transform = async () => 1", "b: transform must be a plain function that returns its result: it is async"},
		{script.Filter, "function filter(", "b: line 1, column 17: SyntaxError: missing formal parameter"},
	} {
		if got := outcome(nil, pool.Check(t.Context(), script.Program{Kind: c.kind, Source: c.source})); got != c.want {
			t.Errorf("%s: got %q, want %q", c.source, got, c.want)
		}
	}
}

// Each caller gets the result of its own run, even if the program of another caller hangs.
func TestConcurrentRuns(t *testing.T) {
	pool := newPool(t, 2).Within(time.Second)
	hang := script.Program{Kind: script.Filter, Source: "const filter = () => [].indexOf.call({length: 2 ** 53 - 1}, 1)"}
	var callers sync.WaitGroup
	for i := range 6 {
		callers.Go(func() {
			for n := range 20 {
				input := fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n)
				program := script.Program{Kind: script.Transform, Source: "const transform = e => e"}
				want := input
				if i == 0 && n == 5 {
					program, want = hang, "t: the script was stopped: it ran longer than 1s"
				}
				if got := outcome(pool.Run(t.Context(), program, []byte(input))); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	callers.Wait()
}

func TestLargeInputs(t *testing.T) {
	pool := newPool(t, 1).Within(ample)
	text := strings.Repeat("x", 1<<20-100)
	input := []byte(`{"body":"` + text + `"}`)
	for _, p := range []script.Program{{Kind: script.Transform, Source: "const transform = e => e.body"}, {Kind: script.JMESPath, Source: "body"}} {
		if got, err := pool.Run(t.Context(), p, input); err != nil || string(got) != `"`+text+`"` {
			t.Errorf("%s: got %d bytes, %v; want %d", p.Source, len(got), err, len(text)+2)
		}
	}
}

func TestAChildEndsWithItsInput(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = []string{"EVENTHOOK_SCRIPT_CHILD=1"}
	if out, err := child.Output(); err != nil || len(out) == 0 {
		t.Errorf("got %q, %v; want a reply that the child is ready, and its end", out, err)
	}
}
