// Package script runs the JavaScript and JMESPath of tenants. The engines give a
// program no way to a file, the network or another program. They run in
// processes of their own, which have no secret and no open file but the pipes
// on which they answer, and can be killed. On Linux these processes gain no
// privileges, their memory and files are limited, and a filter of system calls
// refuses files, sockets and programs even to code that broke out of an engine.
// Where the kernel or the container refuses the filter, such code could do what
// the gateway's user may; see Confinement.
//
// An engine inside the gateway's process could not be stopped for certain: both
// engines can spend any time in one native call, such as a search in an array
// of 2^53 elements, and can take all memory.
//
// A program that imports this package starts itself again as such a process;
// see child.go.
package script

import (
	"fmt"
	"time"
)

// Kind says what a program is written in, and what it answers.
type Kind byte

// The kinds of programs.
const (
	Filter    Kind = 'f' // JavaScript with a function filter(event); answers true or false
	Transform Kind = 't' // JavaScript with a function transform(event); answers JSON
	JMESPath  Kind = 'j' // a JMESPath expression over a JSON value; answers JSON
)

// What a run may take.
const (
	TimeLimit   = 100 * time.Millisecond
	MemoryLimit = 32 << 20 // bytes, of JavaScript
	OutputLimit = 1 << 20  // bytes of JSON
	SourceLimit = 64 << 10 // bytes, of JavaScript

	ExpressionLimit = 16 << 10 // bytes, of JMESPath: its parser recurses
)

// Program is what somebody wrote.
type Program struct {
	Kind   Kind
	Source string
}

// Reason says why a run has no answer.
type Reason byte

// The reasons.
const (
	Broken     Reason = 'b' // the program is none: it does not compile, or has no such function, or one that answers later
	Failed     Reason = 'x' // it threw, or answered what is not JSON
	TooMuch    Reason = 'm' // it took more memory or depth than it may, or answered too much
	TimedOut   Reason = 't' // it took longer than TimeLimit
	Lost       Reason = 'l' // its process ended while it ran
	NotStarted Reason = 'u' // nothing could be started to run it
	Starved    Reason = 's' // as TimedOut, but the machine had other things to do for more than half of it
)

// Limit is how long a source may be, in bytes.
func (k Kind) Limit() int {
	if k == JMESPath {
		return ExpressionLimit
	}
	return SourceLimit
}

// Error says why a run has no answer. It may be shown to whoever wrote the
// program; a Message can quote what the program read.
type Error struct {
	Reason  Reason
	Message string
	Line    int // 1 for the first; 0 where it is not known
	Column  int
}

// Error implements error: the place, where it is known, and the message.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Transient reports whether the same run may succeed another time: the time
// it takes depends on the machine, and a process can be ended by others.
func (e *Error) Transient() bool {
	return e.Reason == TimedOut || e.Reason == Lost || e.IsInfrastructure()
}

// IsInfrastructure reports whether the program has nothing to do with it.
func (e *Error) IsInfrastructure() bool { return e.Reason == NotStarted || e.Reason == Starved }

func tooLong(limit time.Duration) *Error {
	return &Error{Reason: TimedOut, Message: fmt.Sprintf("it was stopped: it ran longer than %s", limit)}
}
