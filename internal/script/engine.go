package script

import (
	"fmt"

	"modernc.org/quickjs"
)

// engine does jobs, one at a time, inside a child.
type engine struct {
	spare       *quickjs.VM
	expressions *expressions
}

func newEngine() *engine {
	e := &engine{expressions: newExpressions()}
	e.prepare()
	return e
}

// prepare makes the next job's VM while nobody waits. Every job gets a new
// one: what a script leaves behind, no other run finds, not even its own next.
func (e *engine) prepare() {
	if e.spare != nil {
		return
	}
	if vm, err := newVM(); err == nil {
		e.spare = vm
	}
}

// do does a job. An engine that panics has met its own fault, and the child
// goes on with a new one.
func (e *engine) do(j job) (output []byte, fault *Error) {
	defer func() {
		if recover() != nil {
			e.spare = nil
			output, fault = nil, &Error{Reason: Failed, Message: "it cannot be run: the engine failed over it"}
		}
	}()
	switch j.Kind {
	case JMESPath:
		return e.expressions.do(j)
	case Filter:
		return e.javaScript(j, "filter")
	case Transform:
		return e.javaScript(j, "transform")
	}
	return nil, &Error{Reason: Broken, Message: fmt.Sprintf("programs of kind %q are unknown", j.Kind)}
}

func (e *engine) javaScript(j job, function string) (output []byte, fault *Error) {
	if e.prepare(); e.spare == nil {
		return nil, &Error{Reason: NotStarted, Message: "no engine could be started to run it"}
	}
	vm := e.spare
	e.spare = nil
	output, err := newRun(vm, j.limit).do(j, function)
	_ = vm.Close()
	return output, err
}
