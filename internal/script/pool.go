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
// prefers the process that was used last, and ends processes that were idle for idleLimit. It is
// safe for concurrent use.
type Pool struct {
	slots chan struct{} // one element for each current run
	limit time.Duration
	after func(time.Duration, func()) // like time.AfterFunc

	mu               sync.Mutex
	idle             []idleProcess // the last one was used last
	isSweepScheduled bool          // a sweep is scheduled
}

type idleProcess struct {
	*process
	since time.Time
}

// idleLimit is how long an idle process is kept.
const idleLimit = 3 * time.Minute

// NewPool returns a pool with a time limit for each run. It starts no process.
func NewPool(processes int, limit time.Duration) *Pool {
	return &Pool{slots: make(chan struct{}, processes), limit: limit, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// Run runs a program over a JSON input. The error is an *Error, or ctx's if ctx ended before a
// process was free; a run that has started is not interrupted by ctx. Runs share no state.
func (p *Pool) Run(ctx context.Context, program Program, input []byte) (json.RawMessage, error) {
	return p.do(ctx, job{Program: program, input: input})
}

// Check compiles a program. Its errors are those of Run.
func (p *Pool) Check(ctx context.Context, program Program) error {
	_, err := p.do(ctx, job{Program: program, check: true})
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
	j.limit = p.limit
	worker, output, fault, err := p.send(j)
	if worker == nil {
		return nil, &Error{Reason: NotStarted, Message: "no process could be started to run it"}
	}
	if err != nil {
		// The process hangs or has ended. This caller waits for its replacement, not the next one.
		worker.kill()
		worker, _ = start()
		fault = p.lost(err)
	}
	p.keep(worker)
	if fault != nil {
		return nil, fault
	}
	return output, nil
}

// send runs a job in a process and returns the process, nil if none could be started. If an idle
// process ended before it received the whole job, for example because the system was short of
// memory, or could not start the job, send repeats the job once in a new process: the program is
// not the cause.
func (p *Pool) send(j job) (worker *process, output []byte, fault *Error, err error) {
	if worker = p.take(); worker != nil {
		output, fault, err = worker.do(j)
		if isUnbegun := fault != nil && fault.Reason == NotStarted; !isUnbegun && !errors.Is(err, errUnsent) {
			return worker, output, fault, err
		}
		worker.kill()
	}
	if worker, err = start(); err != nil {
		return nil, nil, nil, err
	}
	output, fault, err = worker.do(j)
	return worker, output, fault, err
}

func (p *Pool) lost(err error) *Error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return tooLong(p.limit)
	}
	return &Error{Reason: Lost, Message: "the process that ran it ended; it may have used too much memory"}
}

// take returns the idle process that was used last, nil if there is none.
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

// keep returns a process to the pool.
func (p *Pool) keep(worker *process) {
	if worker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleProcess{worker, time.Now()})
	p.sweepLater()
}

// sweep ends the processes that were idle for idleLimit.
func (p *Pool) sweepLater() {
	if !p.isSweepScheduled && len(p.idle) > 0 {
		p.isSweepScheduled = true
		p.after(idleLimit, func() { p.sweep(time.Now()) })
	}
}

// sweep ends the processes that nobody has used for idleLimit.
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
