package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Pool runs programs in at most so many processes, which it starts when they
// are needed and keeps until its own process ends. Who comes when all are busy
// waits; a run ends for certain, so that nobody waits for ever. Safe for
// concurrent use.
type Pool struct {
	slots chan *process // nil for one that is not running
	limit time.Duration
}

// NewPool makes a pool. It starts nothing yet.
func NewPool(processes int) *Pool {
	p := &Pool{slots: make(chan *process, processes), limit: TimeLimit}
	for range processes {
		p.slots <- nil
	}
	return p
}

// Run runs a program over an input, which is JSON. The error is an *Error.
// Nothing is left of a run for the next one to find.
func (p *Pool) Run(program Program, input []byte) (json.RawMessage, error) {
	return p.do(job{Program: program, input: input})
}

// Check compiles a program. The error is an *Error.
func (p *Pool) Check(program Program) error {
	_, err := p.do(job{Program: program, check: true})
	return err
}

func (p *Pool) do(j job) (json.RawMessage, error) {
	if most := j.Kind.Limit(); len(j.Source) > most {
		return nil, &Error{Reason: Broken, Message: fmt.Sprintf("is %d bytes long, at most %d are allowed", len(j.Source), most)}
	}
	worker := <-p.slots
	defer func() { p.slots <- worker }()
	if worker == nil {
		var err error
		if worker, err = start(); err != nil {
			return nil, &Error{Reason: Lost, Message: "no process could be started to run it"}
		}
	}
	j.limit = p.limit
	output, fault, err := worker.do(j)
	if err == nil && fault == nil {
		return output, nil
	}
	if err != nil {
		// It hangs, or it is gone. Whoever did that waits for the next one.
		worker.kill()
		worker, _ = start()
		fault = p.lost(err)
	}
	return nil, fault
}

func (p *Pool) lost(err error) *Error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return tooLong(p.limit)
	}
	return &Error{Reason: Lost, Message: "the process that ran it ended; it may have used too much memory"}
}

// Close ends the processes that are not busy. A pool can be used again.
func (p *Pool) Close() {
	for range cap(p.slots) {
		select {
		case worker := <-p.slots:
			if worker != nil {
				worker.kill()
			}
			p.slots <- nil
		default:
		}
	}
}
