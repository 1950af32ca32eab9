package eventhook

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind classifies an error. The API maps kinds to status codes in one table. An
// error without a Kind is a fault of the gateway (500).
type Kind string

// The kinds of errors.
const (
	KindMalformed    Kind = "malformed"    // the input cannot be parsed
	KindInvalid      Kind = "invalid"      // the input was parsed and breaks a rule
	KindUnauthorized Kind = "unauthorized" // the API key is missing or invalid
	KindForbidden    Kind = "forbidden"    // the key lacks a scope
	KindNotFound     Kind = "not_found"    // the resource does not exist or belongs to another tenant
	KindConflict     Kind = "conflict"     // the state of the resource does not allow the operation
	KindStale        Kind = "stale"        // the resource changed after it was read
	KindRateLimited  Kind = "rate_limited" // a rate limit or quota is exhausted
	KindUnavailable  Kind = "unavailable"  // the gateway sheds load, or a dependency is down
	KindLoop         Kind = "loop"         // the request went through too many gateways
)

// Error separates the text for users from the cause. Message may be shown to users
// and contains no secret and no internals. Cause is for the log only.
type Error struct {
	Kind       Kind
	Message    string
	Faults     []Fault       // all faults of an invalid input
	RetryAfter time.Duration // for KindRateLimited and KindUnavailable, when known
	Cause      error
}

// Fault is one fault of an input, with its location.
type Fault struct {
	Location string
	Message  string
}

// Error returns the message, the faults and the cause. Show users Message and Faults
// instead.
func (e *Error) Error() string {
	if len(e.Faults) == 0 && e.Cause == nil {
		return e.Message
	}
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(e.Message, "."))
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

// Is reports whether target has the same kind and message. Every error of
// KindNotFound matches ErrNotFound.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e.Kind == t.Kind && (e.Message == t.Message || t == ErrNotFound)
}

// KindOf returns the kind of the first Error in err's chain, or "" without one.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// Sentinel errors for errors.Is.
var (
	// ErrLeaseLost means that the lease token of a settle or heartbeat is not
	// current: the lease expired, and another worker may hold the work.
	ErrLeaseLost = &Error{Kind: KindConflict, Message: "the lease is not current: it expired, or the work was settled"}
	// ErrStale means that an update names a version that is not current.
	ErrStale = &Error{Kind: KindStale, Message: "The resource has changed since it was read: read it again, and repeat the change with its current version."}
	// ErrNotReady means that this instance cannot use the database: its schema or its
	// encryption keys do not fit the program. Another instance may be ready.
	ErrNotReady = &Error{Kind: KindUnavailable, Message: "this instance is not ready; try again"}
	// ErrNotFound means that a resource does not exist or belongs to another tenant.
	ErrNotFound = &Error{Kind: KindNotFound, Message: "not found"}
)

// NotFound returns an error of KindNotFound for a kind of resource, such as "event".
func NotFound(thing string) error {
	return &Error{Kind: KindNotFound, Message: "no such " + thing}
}

// Faults collects the faults of an input, so that a caller sees all of them at once.
type Faults []Fault

// Add appends a fault at a location such as "sources[0].slug".
func (f *Faults) Add(location, format string, args ...any) {
	*f = append(*f, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
}

// Merge appends the faults of a part of the input, with prefix before each location.
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

// Err returns nil if there are no faults, otherwise an error of KindInvalid that
// lists them all.
func (f Faults) Err(message string) error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Kind: KindInvalid, Message: message, Faults: f}
}
