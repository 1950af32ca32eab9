// Package panics handles panics in one of two ways. A place that can continue recovers, counts the
// panic here, so that a metric shows the defect that the recovery hides, and logs it. A goroutine
// whose panic leaves the memory of the gateway in an unknown state runs under Guarded, which logs
// the panic in the format of the log and ends the process; the leases of the instance expire. Safe
// for concurrent use.
package panics

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// Place is the part of the program that recovered.
type Place int

// The places.
const (
	Request      Place = iota // a request to the public listener
	Route                     // a route: its filters, transform and targets
	Subscription              // the filter of a subscription
	Schema                    // the schema of an event type
	Script                    // an expression of a tenant
	Delivery                  // an attempt at a delivery
	Loop                      // a background loop
	Load                      // a value of a cache, such as a tenant's configuration or a sender's keys
	places
)

var names = [places]string{"request", "route", "subscription", "schema", "script", "delivery", "loop", "load"}

func (p Place) String() string { return names[p] }

// Places returns all places.
func Places() (all []Place) {
	for p := range places {
		all = append(all, p)
	}
	return all
}

var counts [places]atomic.Int64

// Count counts a panic.
func Count(p Place) { counts[p].Add(1) }

// Total returns the number of panics of a place since the start of the process.
func Total(p Place) int64 { return counts[p].Load() }

// process is the log of the process; nil outside of a gateway.
var process atomic.Pointer[slog.Logger]

// EndProcess lets a panic under Guarded be logged and end the process. Without it, such a panic
// continues.
func EndProcess(log *slog.Logger) { process.Store(log) }

// exitPanicked is the exit code of a gateway that failed. It is not Go's code for a panic, 2, with
// which the gateway reports a wrong configuration: service managers do not restart it then.
const exitPanicked = 1

// Guarded returns a function that calls run, for a goroutine without a recover of its own.
func Guarded(run func()) func() {
	return func() {
		defer End()
		run()
	}
}

// End must be deferred. It logs a panic and ends the process; see EndProcess.
func End() {
	log := process.Load()
	if log == nil {
		return
	}
	if reason := recover(); reason != nil {
		log.Error("the gateway panicked and ends", "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
		os.Exit(exitPanicked)
	}
}

// Recovered counts and logs a panic after which the gateway continues. It omits the value of the
// panic, which may quote a payload.
func Recovered(p Place, reason any) error {
	Count(p)
	if log := process.Load(); log != nil {
		log.Error("the gateway recovered from a panic", "place", p.String(), "panic", fmt.Sprintf("%T", reason), "stack", string(debug.Stack()))
	}
	return fmt.Errorf("an internal error: panic in %s", p)
}
