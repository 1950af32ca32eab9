package script

import (
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/panics"
)

// Evaluator evaluates JMESPath expressions in the process of its caller, without the round trip
// to a script process. It evaluates only expressions of which canCount is true, and a meter stops
// an evaluation before its cost exceeds the meter's limit. A script process runs all other
// expressions, and a process must have run an expression once before: the parser is not metered.
// The result is the one of a process, byte by byte. Safe for concurrent use.
type Evaluator struct {
	expressions *lru.Cache[string, *expression] // by source; nil for an expression of which canCount is false
}

// NewEvaluator returns an Evaluator that caches up to size expressions.
func NewEvaluator(size int) *Evaluator {
	expressions, err := lru.New[string, *expression](size)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Evaluator{expressions}
}

// Learn adds an expression that a process has run successfully within its limits.
func (x *Evaluator) Learn(source string) {
	if x.expressions.Contains(source) {
		return
	}
	var learned *expression
	if e, err := compileJMESPath(source); err == nil && canCount(e.tree) {
		learned = &expression{counting(e.tree)}
	}
	x.expressions.Add(source, learned)
}

// Evaluate evaluates an expression over a JSON input. ok is false if a process must run the
// expression: it was not learned, its cost cannot be counted or exceeds the limit of the meter,
// or the evaluation failed. If m has stopped for another reason than its limit, the caller must
// not run the expression in a process either.
func (x *Evaluator) Evaluate(m *meter.Meter, source string, input []byte) (result json.RawMessage, ok bool) {
	e, _ := x.expressions.Get(source)
	if e == nil {
		return nil, false
	}
	defer func() {
		if recover() != nil { // the library has panicked, as it would in the process
			panics.Count(panics.Script)
			result, ok = nil, false
		}
	}()
	if m.Use(decodeSteps(input)+stepsOf(e.tree)) != nil {
		return nil, false
	}
	value, err := decode(input)
	if err != nil {
		return nil, false
	}
	value, err = e.searchWith(counter{m}, value)
	if err != nil || m.Err() != nil || useSize(m, value) != nil {
		return nil, false
	}
	output, fault := encode(value)
	return output, fault == nil
}
