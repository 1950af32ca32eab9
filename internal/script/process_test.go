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

// kept are the processes that a pool has and does not use.
func (p *Pool) kept() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*process
	for _, i := range p.idle {
		list = append(list, i.process)
	}
	return list
}

// newPatientPool is a pool that stops nothing which ends.
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

// A hanging process must be killed.
func TestAProcessThatHangsIsEnded(t *testing.T) {
	pool := NewPool(1, TimeLimit)
	t.Cleanup(pool.Close)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	first := pool.kept()
	if len(first) != 1 || first[0].isEnded() {
		t.Fatalf("got %+v, want a process that is kept", first)
	}
	if _, err := pool.Run(t.Context(), hang, []byte("{}")); err == nil {
		t.Fatal("got an answer, want it stopped")
	}
	if !first[0].isEnded() {
		t.Error("got a process that hangs on, want it ended")
	}
	if second := pool.kept(); len(second) != 1 || second[0] == first[0] || second[0].isEnded() {
		t.Errorf("got %+v, want a new process", second)
	}
	pool.Close()
	if left := pool.kept(); len(left) != 0 {
		t.Errorf("got %d processes after Close, want none", len(left))
	}
}

// The system may end a process that waits, and a tenant is not to blame.
func TestAProcessThatEndedWhileItWaitedIsReplaced(t *testing.T) {
	pool := newPatientPool(t, 1)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	first := pool.kept()[0]
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended // which nobody asked it for: nothing of it stays in the system
	if out, err := pool.Run(t.Context(), fine, []byte("7")); err != nil || string(out) != "7" {
		t.Errorf("got %s, %v; want 7", out, err)
	}
	if second := pool.kept(); len(second) != 1 || second[0] == first {
		t.Errorf("got %+v, want a new process", second)
	}
}

func TestOneRunAfterTheOtherNeedsOneProcess(t *testing.T) {
	pool := newPatientPool(t, 4)
	for range 8 {
		if _, err := pool.Run(t.Context(), fine, []byte("7")); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(pool.kept()); got != 1 {
		t.Errorf("got %d processes, want 1", got)
	}
}

func TestProcessesThatNobodyUsesEnd(t *testing.T) {
	pool := newPatientPool(t, 2)
	var pauses []time.Duration
	pool.after = func(d time.Duration, _ func()) { pauses = append(pauses, d) }
	for range 2 {
		worker, err := start()
		if err != nil {
			t.Fatal(err)
		}
		pool.keep(worker)
	}
	list := pool.kept()
	pool.idle[0].since = pool.idle[1].since.Add(-time.Minute)
	pool.sweep(pool.idle[1].since.Add(idleLimit - time.Second))
	if got := []bool{list[0].isEnded(), list[1].isEnded()}; !slices.Equal(got, []bool{true, false}) {
		t.Errorf("ended: got %t, want the one that was used less lately", got)
	}
	pool.sweep(time.Now().Add(2 * idleLimit))
	if !list[1].isEnded() {
		t.Error("got a process that goes on, want none")
	}
	if want := []time.Duration{idleLimit, idleLimit}; !slices.Equal(pauses, want) {
		t.Errorf("sweeps after %s, want %s: one at a time, as long as there are processes", pauses, want)
	}
}

func TestWhoeverIsGoneDoesNotWait(t *testing.T) {
	pool := newPatientPool(t, 1)
	pool.slots <- struct{}{} // somebody's run
	gone, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			if _, err := pool.Run(gone, fine, []byte("7")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that it was called off", err)
			}
		})
	}
	leave()
	callers.Wait()
	<-pool.slots
	if out, err := pool.Run(t.Context(), fine, []byte("7")); err != nil || string(out) != "7" {
		t.Errorf("the next one: got %s, %v; want 7", out, err)
	}
}

// Who has had too little of the processor is told from who has had his time.
func TestWhoIsStoppedIsToldByWhatHeHasUsed(t *testing.T) {
	for used, want := range map[time.Duration]Reason{-time.Hour: TimedOut, time.Hour: Starved} {
		vm, err := newVM()
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(vm, 20*time.Millisecond)
		r.used += used
		_, fault := r.do(job{Program: Program{Kind: Filter, Source: "function filter() { for (;;); }"}, input: []byte("{}")}, "filter")
		if fault == nil || fault.Reason != want || !fault.Transient() || fault.IsInfrastructure() != (want == Starved) {
			t.Errorf("used %s more: got %+v, want the reason %c", used, fault, want)
		}
		_ = vm.Close()
	}
}

// Nobody pays for a process that has come to its end.
func TestAProcessThatCanBeginNothingIsReplaced(t *testing.T) {
	pool := newPatientPool(t, 1)
	if _, err := pool.Run(t.Context(), fine, []byte("1")); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := writeReply(bufio.NewWriter(&said), nil, &Error{Reason: NotStarted, Message: "no engine could be started"}); err != nil {
		t.Fatal(err)
	}
	tired := pool.kept()[0]
	tired.r = bufio.NewReader(&said)
	if got, err := pool.Run(t.Context(), fine, []byte("2")); string(got) != "2" || err != nil {
		t.Errorf("got %s, %v; want 2, of another process", got, err)
	}
	if list := pool.kept(); len(list) != 1 || list[0] == tired || !tired.isEnded() {
		t.Errorf("got %d processes, the old one among them or alive; want a new one", len(list))
	}
}
