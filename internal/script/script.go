// Package script runs the JavaScript and JMESPath programs of tenants in separate processes. The
// engines give a program no access to files, the network or other programs. The processes have no
// secrets and no open files except the pipes to the gateway. A process that hangs is killed. On
// Linux the processes cannot gain privileges, their memory and files are limited, and a system call
// filter denies access to files, sockets and programs even to code that broke out of an engine. If
// the kernel or the container does not allow the filter, such code would have the permissions of the
// gateway's user; see Confinement.
//
// The engines do not run in the gateway's process, because they cannot be stopped reliably: both
// can spend unlimited time in one native call, such as a search in an array of 2^53 elements, and
// can exhaust memory.
//
// The gateway binary starts itself again as a script process; see child.go.
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
	// Reshape is a Transform of an event as receivers get it, with a timestamp and an
	// event_id. The clock and the random numbers of the program derive from both, so that
	// the same event always has the same result.
	Reshape Kind = 'r'
)

// Limits of a run.
const (
	TimeLimit       = 100 * time.Millisecond
	MemoryLimit     = 32 << 20 // bytes of memory of a JavaScript engine
	OutputLimit     = 1 << 20  // bytes of the result as JSON
	SourceLimit     = 64 << 10 // bytes of JavaScript source
	ExpressionLimit = 16 << 10 // bytes of a JMESPath expression, whose parser is recursive
)

// Program is the source of a program.
type Program struct {
	Kind   Kind
	Source string
}

// Reason is the kind of an Error.
type Reason byte

// The reasons.
const (
	Broken     Reason = 'b' // the program does not compile, or has no plain function of the required name
	Failed     Reason = 'x' // the program threw an exception, or returned a value that is not JSON
	TooMuch    Reason = 'm' // the run exceeded the limit of memory, call depth or output
	TimedOut   Reason = 't' // the run exceeded the time limit of its pool
	Lost       Reason = 'l' // the process ended during the run
	NotStarted Reason = 'u' // no process or engine could be started
	Starved    Reason = 's' // the run exceeded its pool's time limit but had a processor for less than half of it
)

// Limit returns the maximum size of a source in bytes.
func (k Kind) Limit() int {
	if k == JMESPath {
		return ExpressionLimit
	}
	return SourceLimit
}

// Error is the reason why a run has no result. It may be shown to the author of the program; Message
// can quote the input.
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

// Transient reports whether a retry of the run may succeed: the duration of a run depends on the
// machine, and the system can end a process.
func (e *Error) Transient() bool {
	return e.Reason == TimedOut || e.Reason == Lost || e.IsInfrastructure()
}

// IsInfrastructure reports whether the program is not the cause.
func (e *Error) IsInfrastructure() bool { return e.Reason == NotStarted || e.Reason == Starved }

func tooLong(limit time.Duration) *Error {
	return &Error{Reason: TimedOut, Message: fmt.Sprintf("the script was stopped: it ran longer than %s", limit)}
}
