package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/script"
)

// runner runs a program over an input, as script.Pool.Run does.
type runner func(program script.Program, input []byte) (json.RawMessage, error)

// Scripts of events run in as many processes as there are processors. Scripts that a caller of the
// API tests run in one separate process, so that they delay no event. The first run starts the
// processes.
var (
	eventScripts = script.NewPool(max(2, runtime.GOMAXPROCS(0)), script.RouteLimit)
	testScripts  = newTestRunner(script.NewPool(1, script.RouteLimit))
)

// runForEvent runs a program for an accepted event. It has no context: the run waits for a free
// process and ends at its time limit.
func runForEvent(program script.Program, input []byte) (json.RawMessage, error) {
	return eventScripts.Run(context.Background(), program, input)
}

// problem is why a route cannot be evaluated for an event. Its text may be shown to users. A
// transient problem may be gone on a retry of the event.
type problem struct {
	text      string
	transient bool
}

func (p *problem) Error() string { return p.text }

func newProblem(part string, err error) *problem {
	const maxText = 1000
	p := &problem{text: eventhook.Truncate(eventhook.SanitizeText(fmt.Sprintf("%s: %s", part, messageOf(err))), maxText)}
	if e, ok := errors.AsType[*script.Error](err); ok {
		p.transient = e.Transient()
	}
	return p
}

// runScript runs a program. It calls input only if the program is run.
func (s *subject) runScript(part string, program script.Program, input func() ([]byte, error)) (json.RawMessage, error) {
	if s.isOverdue() {
		return nil, &problem{transient: true, text: fmt.Sprintf("%s: not run, since the routes of its source took longer than %s for this event", part, maxSourceTime)}
	}
	in, err := input()
	if err != nil {
		return nil, newProblem(part, err)
	}
	return s.runMetered(program, in)
}

// maxRunTime is when a process is killed at the latest.
const maxRunTime = 3 * script.TimeLimit

// runMetered takes the time limit of a run from the tenant's share before the run. Afterwards it
// corrects this to the time that the run took. Time beyond maxRunTime is not charged, because the
// run spent it waiting for a process.
func (s *subject) runMetered(program script.Program, in []byte) (json.RawMessage, error) {
	if err := s.Meter.UseTime(script.TimeLimit); err != nil {
		return nil, err
	}
	began := time.Now()
	out, err := s.run(program, in)
	took := min(time.Since(began), maxRunTime)
	s.Meter.ReturnTime(script.TimeLimit - took)
	if over := took - script.TimeLimit; over > 0 && err == nil {
		err = s.Meter.UseTime(over)
	}
	return out, err
}

// stopped returns a problem with the given part of a route if the meter has stopped the evaluation,
// and nil otherwise. A problem with the limit of steps is permanent.
func (s *subject) stopped(route, part string) *problem {
	err := s.Meter.Err()
	if err == nil {
		return nil
	}
	text := err.Error()
	if errors.Is(err, meter.ErrLimit) {
		text = fmt.Sprintf("the evaluation of this event takes more than %s steps", spaced(meter.EventLimit))
	}
	return (&problem{text: text, transient: !errors.Is(err, meter.ErrLimit)}).of(route, part)
}

// of returns the problem with the names of the route and of the part in its text.
func (p *problem) of(route, part string) *problem {
	return &problem{text: fmt.Sprintf("route %q %s: %s", eventhook.Truncate(route, 200), part, p.text), transient: p.transient}
}

// filterFunction runs a route's filter_function. If the function throws, the event does not match,
// as with a failing expression. If the function cannot be run or is stopped, filterFunction returns
// a problem.
func (s *subject) filterFunction(source string, why *filter.Reasons) (bool, *problem) {
	const part = "filter_function"
	out, err := s.runScript(part, script.Program{Kind: script.Filter, Source: source}, s.scriptInput)
	if err == nil {
		matched := string(out) == "true"
		if !matched && why != nil {
			why.Add("%s did not return a true value", part)
		}
		return matched, nil
	}
	if e, ok := errors.AsType[*script.Error](err); ok && e.Reason == script.Failed {
		if why != nil {
			why.Add("%s: %s", part, e.Error())
		}
		return false, nil
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return false, p
	}
	return false, newProblem(part, err)
}

// transforms maps a type of transform to the kind of its program.
var transforms = map[string]script.Kind{
	eventhook.TransformJMESPath:   script.JMESPath,
	eventhook.TransformJavaScript: script.Transform,
}

// transform runs a route's transform and returns its output. If the transform failed or was stopped,
// it would fail again, so the problem is permanent. If it could not be run, the problem is
// transient.
func (s *subject) transform(t *eventhook.Transform) (json.RawMessage, *problem) {
	const part = "transform"
	kind, ok := transforms[t.Type]
	if !ok {
		return nil, &problem{text: fmt.Sprintf("%s: %q is not a type of transform", part, t.Type)}
	}
	input := s.scriptInput
	if kind == script.JMESPath {
		input = s.forScripts
	}
	out, err := s.runScript(part, script.Program{Kind: kind, Source: t.Expression}, input)
	if p, ok := errors.AsType[*problem](err); ok {
		return nil, p
	}
	if err != nil {
		p := newProblem(part, err)
		e, ok := errors.AsType[*script.Error](err)
		p.transient = ok && e.IsInfrastructure()
		return nil, p
	}
	return out, nil
}
