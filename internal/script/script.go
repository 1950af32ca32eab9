// Package script runs the JavaScript and JMESPath programs of tenants in separate processes. The
// engines give a program no access to files, the network or other programs. The processes have no
// secret and no open file but the pipes to the gateway, and a process that hangs is killed. On
// Linux they cannot gain privileges, their memory and files are limited, and a system call filter
// refuses files, sockets and programs even to code that broke out of an engine. If the kernel or
// the container refuses the filter, such code could do what the gateway's user may; see
// Confinement.
//
// The engines do not run in the gateway's process, because they cannot be stopped reliably: both
// can spend unlimited time in one native call, such as a search in an array of 2^53 elements, and
// can exhaust memory.
//
// A program that imports this package starts itself again as such a process; see child.go.
package script

import (
	"fmt"
	"time"
)

// Kind is the language of a program and the form of its output.
type Kind byte

// The kinds of programs.
const (
	Filter    Kind = 'f' // JavaScript with a function filter(event); returns true or false
	Transform Kind = 't' // JavaScript with a function transform(event); returns JSON
	JMESPath  Kind = 'j' // a JMESPath expression over a JSON value; returns JSON
)

// What a run may take.
const (
	TimeLimit   = 100 * time.Millisecond
	MemoryLimit = 32 << 20 // bytes, of JavaScript
	OutputLimit = 1 << 20  // bytes of JSON
	SourceLimit = 64 << 10 // bytes, of JavaScript

	ExpressionLimit = 16 << 10 // bytes, of JMESPath: its parser recurses
)

// Program is the source of a program.
type Program struct {
	Kind   Kind
	Source string
}

// Reason is why a run has no result.
type Reason byte

// The reasons.
const (
	Broken     Reason = 'b' // the program does not compile, or lacks a plain function of the required name
	Failed     Reason = 'x' // it threw an exception, or returned a value that is not JSON
	TooMuch    Reason = 'm' // it exceeded the limit of memory, call depth or output
	TimedOut   Reason = 't' // it exceeded TimeLimit
	Lost       Reason = 'l' // its process ended during the run
	NotStarted Reason = 'u' // no process or engine could be started
	Starved    Reason = 's' // like TimedOut, but it got less than half of TimeLimit on a processor
)

// Limit is the maximum size of a source in bytes.
func (k Kind) Limit() int {
	if k == JMESPath {
		return ExpressionLimit
	}
	return SourceLimit
}

// Error is why a run has no result. It may be shown to the author of the program; Message can quote
// the input.
type Error struct {
	Reason  Reason
	Message string
	Line    int // counted from 1; 0 if unknown
	Column  int
}

// Error returns the message, preceded by the position if it is known.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Transient reports whether the same run may succeed later: its duration depends on the machine,
// and the system can end a process.
func (e *Error) Transient() bool {
	return e.Reason == TimedOut || e.Reason == Lost || e.IsInfrastructure()
}

// IsInfrastructure reports whether the program is not the cause.
func (e *Error) IsInfrastructure() bool { return e.Reason == NotStarted || e.Reason == Starved }

func tooLong(limit time.Duration) *Error {
	return &Error{Reason: TimedOut, Message: fmt.Sprintf("it was stopped: it ran longer than %s", limit)}
}
