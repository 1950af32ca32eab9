package script

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/eventhook/eventhook"
)

func newVM() (*quickjs.VM, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	vm.SetMemoryLimit(MemoryLimit)
	return vm, nil
}

// finishSource converts the result of a function to the output: a string, or null if the result is a
// promise. It captures the built-ins that it uses before the script can replace them.
const finishSource = `((P, B, stringify) => (name, result) => {
	if (result instanceof P) return null
	return name === "filter" ? String(B(result)) : stringify(result)
})(Promise, Boolean, JSON.stringify)`

// nameSource returns the kind of an asynchronous or generator function, "" for a plain one. It captures
// the built-ins that it uses before the script can replace them.
const nameSource = `((async, generator, asyncGenerator, prototypeOf) => f => {
	switch (prototypeOf(f)) {
	case async: return "async"
	case generator: return "a generator"
	case asyncGenerator: return "an async generator"
	}
	return ""
})(...[async () => {}, function* () {}, async function* () {}].map(Object.getPrototypeOf), Object.getPrototypeOf)`

// run runs one job in a VM. The VM cannot be used for another job.
type run struct {
	vm    *quickjs.VM
	limit time.Duration
	until time.Time
	used  time.Duration   // processor time of the process at the start of the run
	held  []quickjs.Value // values to free
}

func newRun(vm *quickjs.VM, limit time.Duration) *run {
	return &run{vm: vm, limit: limit, until: time.Now().Add(limit), used: processorTime()}
}

// arm sets the engine's timeout to the rest of the time limit. The engine restarts it for each
// call.
func (r *run) arm() { _ = r.vm.SetEvalTimeout(max(time.Until(r.until), time.Millisecond)) }

// hold records a value for release.
func (r *run) hold(v quickjs.Value, err error) (quickjs.Value, error) {
	if err == nil {
		r.held = append(r.held, v)
	}
	return v, err
}

// release frees all recorded values. A VM that is closed with an unfreed value leaks its memory
// until the process ends.
func (r *run) release() {
	for i := range r.held {
		r.held[i].Free()
	}
	r.held = nil
}

// do evaluates the source and, unless the job is a check, calls its function.
func (r *run) do(j job, function string) ([]byte, *Error) {
	defer r.release()
	finish, err := r.hold(r.vm.EvalValue(finishSource, quickjs.EvalGlobal))
	if err != nil {
		return nil, r.faultOf(err, Failed)
	}
	var event quickjs.Value
	if !j.check {
		if event, err = r.hold(r.vm.CallValue("JSON.parse", string(j.input))); err != nil {
			return nil, r.faultOf(err, TooMuch)
		}
	}
	if j.Kind == Reshape && !j.check {
		if err := r.fixClock(event); err != nil {
			return nil, r.faultOf(err, Failed)
		}
	}
	name, err := r.hold(r.vm.EvalValue(nameSource, quickjs.EvalGlobal))
	if err != nil {
		return nil, r.faultOf(err, Failed)
	}
	f, fault := r.define(j.Source, function, name)
	if fault != nil || j.check {
		return nil, fault
	}
	r.arm()
	result, err := r.hold(f.CallValue(quickjs.UndefinedValue, event))
	if err != nil {
		return nil, r.faultOf(err, Failed)
	}
	r.arm()
	text, err := finish.Call(quickjs.UndefinedValue, function, result)
	if err != nil {
		fault := r.faultOf(err, Failed)
		fault.Line, fault.Column = 0, 0 // the position is in finishSource, not in the source
		return nil, fault
	}
	if text == nil {
		return nil, notPlain(function, "it returned a promise")
	}
	output, ok := text.(string)
	if !ok {
		return nil, &Error{Reason: Failed, Message: function + " returned a value without a JSON form, such as undefined"}
	}
	return []byte(output), nil
}

// notPlain is the fault of a function that does not return its result directly. It is permanent, since
// the function would fail for every event.
func notPlain(function, why string) *Error {
	return &Error{Reason: Broken, Message: fmt.Sprintf("%s must be a plain function that returns its result: %s", function, why)}
}

// define evaluates the source and returns the function that it must define. naming
// is the compiled nameSource.
func (r *run) define(source, function string, naming quickjs.Value) (f quickjs.Value, fault *Error) {
	r.arm()
	if _, err := r.hold(r.vm.EvalValue(source, quickjs.EvalGlobal)); err != nil {
		return f, r.faultOf(err, Broken)
	}
	r.arm()
	kind, err := r.vm.Eval("typeof "+function, quickjs.EvalGlobal)
	if err == nil && kind == "function" {
		f, err = r.hold(r.vm.EvalValue(function, quickjs.EvalGlobal))
	}
	if err != nil || kind != "function" {
		return f, &Error{Reason: Broken, Message: fmt.Sprintf("it defines no function %s(event)", function)}
	}
	r.arm()
	kind, err = naming.Call(quickjs.UndefinedValue, f)
	if err != nil {
		return f, r.faultOf(err, Broken)
	}
	if kind != "" {
		return f, notPlain(function, fmt.Sprintf("it is %s", kind))
	}
	return f, nil
}

// faultOf converts an error of the engine. It distinguishes the engine's limits from exceptions of
// the script.
func (r *run) faultOf(err error, otherwise Reason) *Error {
	e, ok := errors.AsType[*quickjs.Error](err)
	if !ok {
		return &Error{Reason: otherwise, Message: "it cannot be run"}
	}
	fault := &Error{Reason: otherwise, Message: messageOf(e), Line: e.LineNumber, Column: e.ColumnNumber}
	if fault.Line == 0 {
		fault.Line, fault.Column = placeIn(e.Stack)
	}
	if e.Name != "InternalError" && e.Name != "SyntaxError" {
		return fault
	}
	switch e.Message {
	case "interrupted":
		fault := tooLong(r.limit)
		if processorTime()-r.used < r.limit/2 {
			fault.Reason = Starved
		}
		return fault
	case "out of memory":
		return &Error{Reason: TooMuch, Message: "it was stopped: it used more than 32 MiB of memory"}
	case "stack overflow":
		return &Error{Reason: TooMuch, Message: "it was stopped: its calls or its source nest too deep"}
	}
	return fault
}

// messageOf returns the text of an exception for users.
func messageOf(e *quickjs.Error) string {
	const maxText = 500
	text := eventhook.Truncate(eventhook.SanitizeText(strings.TrimSpace(e.Error())), maxText)
	if text == "" {
		return "it threw an exception without a message"
	}
	if e.Name == "" {
		return "it threw " + text
	}
	return text
}

var place = regexp.MustCompile(`<eval>:(\d{1,6}):(\d{1,6})`)

// placeIn returns the innermost position in a stack trace.
func placeIn(stack string) (line, column int) {
	found := place.FindStringSubmatch(stack)
	if found == nil {
		return 0, 0
	}
	line, _ = strconv.Atoi(found[1])
	column, _ = strconv.Atoi(found[2])
	return line, column
}
