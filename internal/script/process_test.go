package script

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	fine = Program{Kind: JMESPath, Source: "@"}
	hang = Program{Kind: Filter, Source: "const filter = () => [].indexOf.call({length: 2 ** 53 - 1}, 1)"}
)

// idleProcesses returns the idle processes of a pool.
func (p *Pool) idleProcesses() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*process
	for _, i := range p.idle {
		list = append(list, i.process)
	}
	return list
}

// newPatientPool returns a pool with a time limit that no terminating program reaches.
func newPatientPool(t *testing.T, processes int) *Pool {
	t.Helper()
	p := NewPool(processes, TimeLimit)
	p.limit = 20 * time.Second
	t.Cleanup(p.Close)
	return p
}

func (p *process) isEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func TestAProcessThatHangsIsKilled(t *testing.T) {
	pool := NewPool(1, TimeLimit)
	t.Cleanup(pool.Close)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	first := pool.idleProcesses()
	if len(first) != 1 || first[0].isEnded() {
		t.Fatalf("got %+v, want one idle process", first)
	}
	if _, err := pool.Run(t.Context(), hang, []byte("{}")); err == nil {
		t.Fatal("got a result, want an error")
	}
	if !first[0].isEnded() {
		t.Error("the process that hangs is running, want it killed")
	}
	if second := pool.idleProcesses(); len(second) != 1 || second[0] == first[0] || second[0].isEnded() {
		t.Errorf("got %+v, want a new process", second)
	}
	pool.Close()
	if left := pool.idleProcesses(); len(left) != 0 {
		t.Errorf("got %d processes after Close, want none", len(left))
	}
}

// The system may end an idle process. The program that is run next must not fail for this reason.
func TestAnIdleProcessThatEndedIsReplaced(t *testing.T) {
	pool := newPatientPool(t, 1)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	first := pool.idleProcesses()[0]
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended // the pool reaps a process that ended by itself
	if out, err := pool.Run(t.Context(), fine, []byte("7")); err != nil || string(out) != "7" {
		t.Errorf("got %s, %v; want 7", out, err)
	}
	if second := pool.idleProcesses(); len(second) != 1 || second[0] == first {
		t.Errorf("got %+v, want a new process", second)
	}
}

func TestSequentialRunsUseOneProcess(t *testing.T) {
	pool := newPatientPool(t, 4)
	for range 8 {
		if _, err := pool.Run(t.Context(), fine, []byte("7")); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(pool.idleProcesses()); got != 1 {
		t.Errorf("got %d processes, want 1", got)
	}
}

func TestIdleProcessesAreEnded(t *testing.T) {
	pool := newPatientPool(t, 2)
	var pauses []time.Duration
	pool.after = func(d time.Duration, _ func()) { pauses = append(pauses, d) }
	for range 2 {
		worker, err := start(lowPriority)
		if err != nil {
			t.Fatal(err)
		}
		pool.keep(worker)
	}
	list := pool.idleProcesses()
	pool.idle[0].since = pool.idle[1].since.Add(-time.Minute)
	pool.sweep(pool.idle[1].since.Add(idleLimit - time.Second))
	if got := []bool{list[0].isEnded(), list[1].isEnded()}; !slices.Equal(got, []bool{true, false}) {
		t.Errorf("ended: got %t, want only the process that was idle for longer", got)
	}
	pool.sweep(time.Now().Add(2 * idleLimit))
	if !list[1].isEnded() {
		t.Error("the second process is running, want it ended")
	}
	if want := []time.Duration{idleLimit, idleLimit}; !slices.Equal(pauses, want) {
		t.Errorf("sweeps after %s, want %s: one sweep at a time while there are idle processes", pauses, want)
	}
}

func TestACancelledCallerStopsWaiting(t *testing.T) {
	pool := newPatientPool(t, 1)
	pool.slots <- struct{}{} // a run of another caller
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			if _, err := pool.Run(ctx, fine, []byte("7")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
	}
	cancel()
	callers.Wait()
	<-pool.slots
	if out, err := pool.Run(t.Context(), fine, []byte("7")); err != nil || string(out) != "7" {
		t.Errorf("the next run: got %s, %v; want 7", out, err)
	}
}

// A run that had a processor for its time limit is distinguished from one that waited for a processor.
func TestTimedOutAndStarvedDifferInProcessorTime(t *testing.T) {
	for offset, want := range map[time.Duration]Reason{-time.Hour: TimedOut, time.Hour: Starved} {
		vm, err := newVM()
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(vm, 20*time.Millisecond)
		r.used += offset // a later start value means less processor time for the run
		_, fault := r.do(job{Program: Program{Kind: Filter, Source: "function filter() { for (;;); }"}, input: []byte("{}")}, "filter")
		if fault == nil || fault.Reason != want || !fault.Transient() || fault.IsInfrastructure() != (want == Starved) {
			t.Errorf("processor time at the start + %s: got %+v, want the reason %c", offset, fault, want)
		}
		_ = vm.Close()
	}
}

// A process that can start no more engines is replaced, and the job is repeated in the new process.
func TestAProcessThatCannotStartAnEngineIsReplaced(t *testing.T) {
	pool := newPatientPool(t, 1)
	if _, err := pool.Run(t.Context(), fine, []byte("1")); err != nil {
		t.Fatal(err)
	}
	var reply bytes.Buffer
	if err := writeReply(bufio.NewWriter(&reply), nil, &Error{Reason: NotStarted, Message: "no engine could be started"}); err != nil {
		t.Fatal(err)
	}
	first := pool.idleProcesses()[0]
	first.r = bufio.NewReader(&reply)
	if got, err := pool.Run(t.Context(), fine, []byte("2")); string(got) != "2" || err != nil {
		t.Errorf("got %s, %v; want 2 from a new process", got, err)
	}
	if list := pool.idleProcesses(); len(list) != 1 || list[0] == first || !first.isEnded() {
		t.Errorf("got %d processes, or the first process is still used or running; want one new process", len(list))
	}
}
