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

// Pool runs programs in at most so many processes, which it starts when they
// are needed. Who comes when all are busy waits his turn; a run ends for
// certain, so that nobody waits for ever. The process that was used last is
// used first, and one that nobody has used for idleLimit ends. Safe for
// concurrent use.
type Pool struct {
	places chan struct{} // holds one for each run that is under way
	limit  time.Duration
	after  func(time.Duration, func()) // calls back once, later

	mu      sync.Mutex
	idle    []idleProcess // the one used last is the last
	sweeper bool          // a sweep is to come
}

type idleProcess struct {
	*process
	since time.Time
}

// idleLimit is how long a process is kept that nobody uses.
const idleLimit = 3 * time.Minute

// NewPool makes a pool whose runs may each take as long as limit. It starts
// nothing yet.
func NewPool(processes int, limit time.Duration) *Pool {
	return &Pool{places: make(chan struct{}, processes), limit: limit, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// Run runs a program over an input, which is JSON. The error is an *Error, or
// ctx's if ctx ended before the run's turn came; a run that has begun goes on
// to its end. Nothing is left of a run for the next one to find.
func (p *Pool) Run(ctx context.Context, program Program, input []byte) (json.RawMessage, error) {
	return p.do(ctx, job{Program: program, input: input})
}

// Check compiles a program. The error is as Run's.
func (p *Pool) Check(ctx context.Context, program Program) error {
	_, err := p.do(ctx, job{Program: program, check: true})
	return err
}

func (p *Pool) do(ctx context.Context, j job) (json.RawMessage, error) {
	if most := j.Kind.Limit(); len(j.Source) > most {
		return nil, &Error{Reason: Broken, Message: fmt.Sprintf("is %d bytes long, at most %d are allowed", len(j.Source), most)}
	}
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.places }()
	j.limit = p.limit
	worker, output, fault, err := p.send(j)
	if worker == nil {
		return nil, &Error{Reason: NotStarted, Message: "no process could be started to run it"}
	}
	if err != nil {
		// It hangs, or it is gone. Whoever did that waits for the next one.
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

// send has a process do a job, and returns the process: none if none could be
// started. One that had ended before the job reached it, as the system ends
// those that it wants the memory of, or that cannot begin one any more, is
// replaced by a new one, once: whoever wrote the program has nothing to do with
// that.
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

// take returns the process that was used last, or nil.
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

// keep puts a process aside for the next job.
func (p *Pool) keep(worker *process) {
	if worker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleProcess{worker, time.Now()})
	p.sweepLater()
}

// sweepLater sees to it that a sweep comes. The caller holds the lock.
func (p *Pool) sweepLater() {
	if !p.sweeper && len(p.idle) > 0 {
		p.sweeper = true
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
	p.sweeper = false
	p.sweepLater()
	p.mu.Unlock()
	for _, worker := range old {
		worker.kill()
	}
}

// Close ends the processes that are not busy. A pool can be used again.
func (p *Pool) Close() {
	for worker := p.take(); worker != nil; worker = p.take() {
		worker.kill()
	}
}
