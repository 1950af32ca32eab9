package route

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

// stepsPerCost is the number of steps in one unit of CEL's cost.
const stepsPerCost = 10

// costs estimates calls that CEL's own model treats as constant although they read all of their
// arguments. CEL knows the types of few operands here, since a body can hold any JSON.
type costs struct{}

// Costs in CEL's units.
const (
	bytesPerCost = 100 // bytes read in the time of one unit
	zoneCost     = 500 // loading a time zone by name
)

// CallCost implements interpreter.ActualCostEstimator. It returns nil for calls that CEL's own
// model estimates well.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	cost := 1
	switch {
	case function == overloads.Size, function == operators.Add, overloads.IsTypeConversionFunction(function),
		function == operators.Less, function == operators.LessEquals, function == operators.Greater, function == operators.GreaterEquals:
		for _, arg := range args {
			cost += textCost(arg)
		}
	case (function == operators.Equals || function == operators.NotEquals) && len(args) == 2:
		cost += min(deepCost(args[0].Value()), deepCost(args[1].Value()))
	case (function == operators.In || function == operators.OldIn) && len(args) == 2:
		cost += costOfIn(args[0], args[1])
	case strings.HasPrefix(function, "get") && len(args) == 2:
		cost += zoneCost
	default:
		return nil
	}
	units := uint64(cost)
	return &units
}

func textCost(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v) / bytesPerCost
	case types.Bytes:
		return len(v) / bytesPerCost
	}
	return 0
}

// costOfIn is the cost of comparing a value with each element of a list. A lookup in a map is
// constant.
func costOfIn(v, in ref.Val) int {
	var elements int
	switch list := in.Value().(type) {
	case []any:
		elements = len(list)
	case []ref.Val:
		elements = len(list)
	default:
		return 0
	}
	return elements + min(elements*deepCost(v.Value()), deepCost(in.Value()))
}

// deepCost is the cost of reading a value and everything in it.
func deepCost(v any) int {
	cost := 1
	switch v := v.(type) {
	case string:
		return cost + len(v)/bytesPerCost
	case []byte:
		return cost + len(v)/bytesPerCost
	case []any:
		for _, element := range v {
			cost += deepCost(element)
		}
	case map[string]any:
		for name, member := range v {
			cost += 1 + len(name)/bytesPerCost + deepCost(member)
		}
	case []ref.Val:
		for _, element := range v {
			cost += deepCost(element.Value())
		}
	case map[ref.Val]ref.Val:
		for name, member := range v {
			cost += deepCost(name.Value()) + deepCost(member.Value())
		}
	}
	return cost
}

// meterName is the name under which a call looks up the meter of its evaluation. It is not a valid
// identifier, so no expression can use it.
const meterName = "@meter"

// matchCall is a call of matches() that counts the work of its regular expression.
type matchCall struct {
	call    interpreter.InterpretableCall
	pattern *pattern.Pattern // nil if the regular expression is not a constant
}

// maxPatternMemory limits the size of all constant regular expressions of one expression, in bytes.
const maxPatternMemory = 1 << 20

// constantPatterns holds the constant regular expressions of one expression, each compiled once.
type constantPatterns struct {
	byText map[string]*pattern.Pattern
	memory int
}

func (c *constantPatterns) compile(text string) (*pattern.Pattern, error) {
	if p, ok := c.byText[text]; ok {
		return p, nil
	}
	p, err := pattern.Compile(text, pattern.DefaultLimits)
	if err != nil {
		return nil, err
	}
	if c.memory += p.Memory(); c.memory > maxPatternMemory {
		return nil, fmt.Errorf("makes the regular expressions of the filter_expression too large: at most %d bytes are allowed in compiled form", maxPatternMemory)
	}
	c.byText[text] = p
	return p, nil
}

// decorateMatches replaces each call of matches() with a matchCall. It implements CEL's decorator.
func (c *constantPatterns) decorateMatches(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != overloads.Matches || len(call.Args()) != 2 {
		return i, nil
	}
	m := &matchCall{call: call}
	if constant, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
		text, ok := constant.Value().(types.String)
		if !ok {
			return i, nil
		}
		var err error
		if m.pattern, err = c.compile(string(text)); err != nil {
			return nil, &patternError{call.Args()[1].ID(), err}
		}
	}
	return m, nil
}

// patternError reports that a constant regular expression cannot be compiled.
type patternError struct {
	at  int64 // id of the node
	err error
}

func (e *patternError) Error() string { return "the regular expression " + wrongPattern(e.err) }

// wrongPattern describes a fault of a regular expression as the end of a sentence.
func wrongPattern(err error) string {
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Sprintf("cannot be read: %s: `%s`", wrong.Code, wrong.Expr)
	}
	return err.Error()
}

// ID implements interpreter.Interpretable.
func (c *matchCall) ID() int64 { return c.call.ID() }

// Eval implements interpreter.Interpretable.
func (c *matchCall) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// Exec implements interpreter.InterpretableV2.
func (c *matchCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left, right := c.call.Args()[0].Exec(frame), c.call.Args()[1].Exec(frame)
	for _, v := range []ref.Val{left, right} {
		if types.IsUnknownOrError(v) {
			return v
		}
	}
	text, isText := left.(types.String)
	expression, isExpression := right.(types.String)
	if !isText || !isExpression {
		return types.NewErrWithNodeID(c.ID(), "no such overload: %s", c.call.Function())
	}
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.ID(), c.call, left, right, types.True)
	}
	m := meterOf(frame)
	p, err := c.compiled(m, string(expression))
	if err != nil {
		return types.NewErrWithNodeID(c.ID(), "the regular expression %s", wrongPattern(err))
	}
	matched := p.Match(m, string(text))
	if err := m.Err(); err != nil {
		return types.NewErrWithNodeID(c.ID(), "%s", err)
	}
	return types.Bool(matched)
}

// compileSteps is the number of steps for compiling a regular expression within
// pattern.DefaultLimits.
const compileSteps = 50_000

// compiled returns the constant regular expression, or compiles the one in text.
func (c *matchCall) compiled(m *meter.Meter, text string) (*pattern.Pattern, error) {
	if c.pattern != nil {
		return c.pattern, nil
	}
	if err := m.Use(compileSteps); err != nil {
		return nil, errors.New("is not evaluated: " + err.Error())
	}
	return pattern.Compile(text, pattern.DefaultLimits)
}

// meterOf returns the meter of an evaluation.
func meterOf(vars interpreter.Activation) *meter.Meter {
	v, _ := vars.ResolveName(meterName)
	m, _ := v.(*meter.Meter)
	return m
}
