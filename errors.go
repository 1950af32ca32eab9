package eventhook

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what sort of failure an error is. The API turns it into a status
// in one table; an error without a Kind is our own fault (500).
type Kind string

// The kinds of errors.
const (
	KindMalformed    Kind = "malformed"    // cannot be parsed
	KindInvalid      Kind = "invalid"      // parsed, but breaks a rule
	KindUnauthorized Kind = "unauthorized" // no key, or a bad one
	KindForbidden    Kind = "forbidden"    // the key lacks a scope
	KindNotFound     Kind = "not_found"    // absent, or not yours
	KindConflict     Kind = "conflict"     // the state does not allow it
	KindStale        Kind = "stale"        // it has changed since it was read
	KindRateLimited  Kind = "rate_limited" // a limit or quota is used up
	KindUnavailable  Kind = "unavailable"  // load is being shed, or a part is down
)

// Error is an error with two faces: Message may be shown to users and carries
// no secret and no internals; Cause says what went wrong underneath and goes
// to the log only.
type Error struct {
	Kind       Kind
	Message    string
	Faults     []Fault       // every fault of invalid input at once
	RetryAfter time.Duration // for KindRateLimited and KindUnavailable, when known
	Cause      error
}

// Fault is one thing wrong with an input, and where.
type Fault struct {
	Location string
	Message  string
}

// Error holds the cause too; show Message to users instead.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for i, f := range e.Faults {
		b.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0])
		fmt.Fprintf(&b, "%s: %s", f.Location, f.Message)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is match on the kind and message of a sentinel. Whatever is
// not found matches ErrNotFound.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e.Kind == t.Kind && (e.Message == t.Message || t == ErrNotFound)
}

// KindOf returns the kind of the first Error in err's chain, or "".
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// Errors that callers compare with errors.Is.
var (
	// ErrLeaseLost answers a settle or a heartbeat whose lease token is not
	// current: the lease ran out and the work may belong to somebody else.
	ErrLeaseLost = &Error{Kind: KindConflict, Message: "the lease is not current: it ran out, or the work was settled"}
	// ErrStale answers a change that names a version which is not current.
	ErrStale = &Error{Kind: KindStale, Message: "It has changed since you read it: read it again, and repeat the change with its new version."}
	// ErrNotFound answers for what does not exist or belongs to another tenant.
	ErrNotFound = &Error{Kind: KindNotFound, Message: "not found"}
)

// NotFound is a KindNotFound error about a named thing, such as "event".
func NotFound(thing string) error {
	return &Error{Kind: KindNotFound, Message: "no such " + thing}
}

// Faults collects what is wrong with an input, so that all of it can be told
// at once.
type Faults []Fault

// Add notes a fault at a location such as "sources[0].slug".
func (f *Faults) Add(location, format string, args ...any) {
	*f = append(*f, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
}

// Merge adds the faults of a part, each under prefix.
func (f *Faults) Merge(prefix string, part Faults) {
	for _, p := range part {
		switch {
		case prefix == "":
		case p.Location == "":
			p.Location = prefix
		case p.Location[0] == '[':
			p.Location = prefix + p.Location
		default:
			p.Location = prefix + "." + p.Location
		}
		*f = append(*f, p)
	}
}

// Err is nil without faults, else a KindInvalid error that names them all.
func (f Faults) Err(message string) error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Kind: KindInvalid, Message: message, Faults: f}
}
