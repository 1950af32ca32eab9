package script

import (
	"fmt"

	"modernc.org/quickjs"
)

// engine runs jobs in a child, one at a time. It is not safe for concurrent use.
type engine struct {
	spare       *quickjs.VM
	expressions *expressions
}

func newEngine() *engine {
	e := &engine{expressions: newExpressions()}
	e.prepare()
	return e
}

// prepare creates the VM for the next job ahead of time. Every job gets a new VM, so that no state
// passes from one run to another.
func (e *engine) prepare() {
	if e.spare != nil {
		return
	}
	if vm, err := newVM(); err == nil {
		e.spare = vm
	}
}

// do runs a job. If the engine panics, the job fails, and the child continues with a new VM.
func (e *engine) do(j job) (output []byte, fault *Error) {
	defer func() {
		if recover() != nil {
			e.spare = nil
			output, fault = nil, &Error{Reason: Failed, Message: "it cannot be run: the engine failed unexpectedly"}
		}
	}()
	switch j.Kind {
	case JMESPath:
		return e.expressions.do(j)
	case Filter:
		return e.javaScript(j, "filter")
	case Transform, Reshape:
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
