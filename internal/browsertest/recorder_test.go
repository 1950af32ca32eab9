package browsertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// recorder is a test whose failures do not fail the test that runs it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	skipped  string
	cleanups []func()
}

// failuresOf runs a test with its cleanups and returns its failures.
func failuresOf(t *testing.T, test func(testing.TB)) []string {
	t.Helper()
	r := &recorder{TB: t}
	r.run(func() { test(r) })
	for _, cleanup := range slices.Backward(r.cleanups) {
		r.run(cleanup)
	}
	if r.skipped != "" {
		t.Skip(r.skipped)
	}
	return r.failures
}

// run waits for a function, which Fatal may end.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Context() context.Context  { return context.Background() }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)         { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.fail(fmt.Sprintf(f, a...)) }

func (r *recorder) Fatal(args ...any) {
	r.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, a ...any) {
	r.fail(fmt.Sprintf(f, a...))
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}
