package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Pool runs programs in at most a fixed number of processes, which it starts on demand. If all are
// busy, a run waits for one; since every run has a time limit, the wait is bounded. The pool
// prefers the most recently used process, and ends processes that were idle for idleLimit. It is safe
// for concurrent use.
type Pool struct {
	slots    chan struct{} // holds an element for each running job
	limit    time.Duration
	priority priority                    // of its processes
	after    func(time.Duration, func()) // like time.AfterFunc

	mu               sync.Mutex
	idle             []idleProcess // the most recently used process is last
	isSweepScheduled bool
}

type idleProcess struct {
	*process
	since time.Time
}

// idleLimit is the time after which an idle process is ended.
const idleLimit = 3 * time.Minute

// NewPool returns a pool with a time limit for each run. It starts no process.
func NewPool(processes int, limit time.Duration) *Pool {
	return &Pool{slots: make(chan struct{}, processes), limit: limit, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// NewPromptPool returns a pool like NewPool whose processes have the priority of the gateway.
// It is for runs that are short and bounded by a tenant's share of time, because a process
// with a low priority waits for long while the machine is busy.
func NewPromptPool(processes int, limit time.Duration) *Pool {
	p := NewPool(processes, limit)
	p.priority = normalPriority
	return p
}

// Run runs a program over a JSON input. The error is an *Error, or ctx's if ctx ended before a
// process was free; a run that has started is not interrupted by ctx. Runs share no state.
func (p *Pool) Run(ctx context.Context, program Program, input []byte) (json.RawMessage, error) {
	return p.do(ctx, job{Program: program, input: input})
}

// A program that cannot be compiled in time is refused, so a check takes longer than a run may, and a
// check is repeated if the machine gave the process too little time.
const (
	checkLimit = time.Second
	maxChecks  = 3
)

// Check compiles a program. It returns the same errors as Run.
func (p *Pool) Check(ctx context.Context, program Program) (err error) {
	for range maxChecks {
		_, err = p.do(ctx, job{Program: program, check: true})
		if fault, ok := errors.AsType[*Error](err); !ok || !fault.IsInfrastructure() {
			break
		}
	}
	return err
}

func (p *Pool) do(ctx context.Context, j job) (json.RawMessage, error) {
	if limit := j.Kind.Limit(); len(j.Source) > limit {
		return nil, &Error{Reason: Broken, Message: fmt.Sprintf("is %d bytes long, at most %d are allowed", len(j.Source), limit)}
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.slots }()
	if j.limit = p.limit; j.check {
		j.limit = max(p.limit, checkLimit)
	}
	worker, output, fault, err := p.send(j)
	if worker == nil {
		return nil, &Error{Reason: NotStarted, Message: "no process could be started to run it"}
	}
	if err != nil {
		// The process hangs or has ended. Its replacement is started now, so that the next caller does
		// not wait for it.
		fault = lost(worker, err, j.limit)
		worker.kill()
		worker, _ = start(p.priority)
	}
	p.keep(worker)
	if fault != nil {
		return nil, fault
	}
	return output, nil
}

// send runs a job in a process and returns the process, nil if none could be started. If an idle
// process ended before it received the whole job, for example because the system was short of
// memory, or could not start an engine, the program is not the cause. send then repeats the job once
// in a new process.
func (p *Pool) send(j job) (worker *process, output []byte, fault *Error, err error) {
	if worker = p.take(); worker != nil {
		output, fault, err = worker.do(j)
		if hasNotStarted := fault != nil && fault.Reason == NotStarted; !hasNotStarted && !errors.Is(err, errUnsent) {
			return worker, output, fault, err
		}
		worker.kill()
	}
	if worker, err = start(p.priority); err != nil {
		return nil, nil, nil, err
	}
	output, fault, err = worker.do(j)
	return worker, output, fault, err
}

// lost converts an error of a process during a run with a time limit.
func lost(worker *process, err error, limit time.Duration) *Error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		fault := tooLong(limit)
		if worker.jobTime() < limit/2 {
			fault.Reason = Starved
		}
		return fault
	}
	return &Error{Reason: Lost, Message: "the process that ran it ended; it may have used too much memory"}
}

// take removes and returns the most recently used idle process, nil if there is none.
func (p *Pool) take() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	worker := p.idle[last].process
	p.idle[last] = idleProcess{}
	p.idle = p.idle[:last]
	return worker
}

// keep returns a process to the pool. worker may be nil.
func (p *Pool) keep(worker *process) {
	if worker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleProcess{worker, time.Now()})
	p.sweepLater()
}

// sweepLater schedules a sweep if there are idle processes and no sweep is scheduled. The caller holds
// the lock.
func (p *Pool) sweepLater() {
	if !p.isSweepScheduled && len(p.idle) > 0 {
		p.isSweepScheduled = true
		p.after(idleLimit, func() { p.sweep(time.Now()) })
	}
}

// sweep ends the processes that were idle for idleLimit.
func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= idleLimit {
		n++
	}
	old := append([]idleProcess(nil), p.idle[:n]...)
	p.idle = append([]idleProcess(nil), p.idle[n:]...)
	p.isSweepScheduled = false
	p.sweepLater()
	p.mu.Unlock()
	for _, worker := range old {
		worker.kill()
	}
}

// Close ends the idle processes. The pool can be used again.
func (p *Pool) Close() {
	for worker := p.take(); worker != nil; worker = p.take() {
		worker.kill()
	}
}
