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

// runner runs what tenants wrote.
type runner func(program script.Program, input []byte) (json.RawMessage, error)

// Scripts run in as many processes as there are processors, and what people
// try out in one of its own, so that it delays no event. The processes belong
// to this one, as its threads do; the first run starts them.
var (
	processing = script.NewPool(max(2, runtime.GOMAXPROCS(0)), script.TimeLimit)
	trying     = newTrials(script.NewPool(1, script.TimeLimit))
)

// runAccepted runs a program for an event that was accepted. Nobody takes that
// back, so there is nothing to wait for but its turn.
func runAccepted(program script.Program, input []byte) (json.RawMessage, error) {
	return processing.Run(context.Background(), program, input)
}

// problem is why a route cannot do its part for an event. Its text may be
// shown. A transient one may be gone when the event is tried again.
type problem struct {
	text      string
	transient bool
}

func (p *problem) Error() string { return p.text }

func newProblem(part string, err error) *problem {
	const most = 1000
	p := &problem{text: eventhook.Truncate(eventhook.SanitizeText(fmt.Sprintf("%s: %s", part, messageOf(err))), most)}
	if e, ok := errors.AsType[*script.Error](err); ok {
		p.transient = e.Transient()
	}
	return p
}

// runScript runs a program over an input that is made when it is needed.
func (s *subject) runScript(part string, program script.Program, input func() ([]byte, error)) (json.RawMessage, error) {
	if s.isOverdue() {
		return nil, &problem{transient: true, text: fmt.Sprintf("%s: not run, since the routes of its source took longer than %s for this event", part, mostThinking)}
	}
	in, err := input()
	if err != nil {
		return nil, newProblem(part, err)
	}
	return s.runMetered(program, in)
}

// longestRun is when a process is killed at the latest.
const longestRun = 3 * script.TimeLimit

// runMetered takes the time limit of a run from the tenant's share before it,
// and settles afterwards for the time that the run took, at most longestRun: the
// rest was waiting for a process.
func (s *subject) runMetered(program script.Program, in []byte) (json.RawMessage, error) {
	if err := s.Meter.UseTime(script.TimeLimit); err != nil {
		return nil, err
	}
	began := time.Now()
	out, err := s.run(program, in)
	took := min(time.Since(began), longestRun)
	s.Meter.ReturnTime(script.TimeLimit - took)
	if over := took - script.TimeLimit; over > 0 && err == nil {
		err = s.Meter.UseTime(over)
	}
	return out, err
}

// stopped is the problem of a part of a route during which the meter stopped
// the evaluation. No retry can help if it takes too many steps.
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

// of returns the problem with the names of the route and of its part that has it.
func (p *problem) of(route, part string) *problem {
	return &problem{text: fmt.Sprintf("route %q %s: %s", eventhook.Truncate(route, 200), part, p.text), transient: p.transient}
}

// filterFunction asks a route's filter_function. One that throws says no, as
// an expression that fails does. One that cannot be run, or has to be stopped,
// says nothing: the route has a problem.
func (s *subject) filterFunction(source string, why *filter.Reasons) (bool, *problem) {
	const part = "filter_function"
	out, err := s.runScript(part, script.Program{Kind: script.Filter, Source: source}, s.scriptInput)
	if err == nil {
		matched := string(out) == "true"
		if !matched && why != nil {
			why.Add("%s returned nothing that is true", part)
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

// transforms are the kinds of programs by the type of transform.
var transforms = map[string]script.Kind{
	eventhook.TransformJMESPath:   script.JMESPath,
	eventhook.TransformJavaScript: script.Transform,
}

// transform makes what targets get. One that was run and failed, or had to be
// stopped, would fail again; one that could not be run may be another time.
func (s *subject) transform(t *eventhook.Transform) (json.RawMessage, *problem) {
	const part = "transform"
	kind, ok := transforms[t.Type]
	if !ok {
		return nil, &problem{text: fmt.Sprintf("%s: %q is no type of transform", part, t.Type)}
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
