package route

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

// Limits of expressions.
const (
	maxExpressionBytes = 16 << 10
	maxExpressionNodes = 5_000
	maxExpressionDepth = 100
	maxExpressionCost  = 100_000 // CEL's cost units, about a step each
	maxExpressionSize  = 1 << 20 // elements and characters in memory, added up over the evaluation
)

// environment declares CEL's standard library and the variables headers, body, cloudevent and event.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.DynType),
		cel.Variable("cloudevent", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpressionBytes),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.ParserErrorRecoveryLimit(10),
		cel.ExpressionNodeLimit(maxExpressionNodes),
	)
})

// expression is a compiled filter_expression. It is safe for concurrent use.
type expression struct {
	program  cel.Program
	ast      *cel.Ast
	hasLoops bool
	memory   int // approximate size in bytes
}

// compileExpression compiles a CEL expression and returns all its faults, with line and column.
func compileExpression(text string) (*expression, eventhook.Faults) {
	var faults eventhook.Faults
	if len(text) > maxExpressionBytes {
		faults.Add("", "is %d bytes long, at most %d are allowed", len(text), maxExpressionBytes)
		return nil, faults
	}
	env, err := environment()
	if err != nil {
		faults.Add("", "expressions cannot be compiled")
		return nil, faults
	}
	ast, issues := env.Compile(text)
	for _, issue := range issues.Errors() {
		faults.Add("", "%s", issueText(issue))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		faults.Add("", "line 1, column 1: is of type %s, and must be bool", t)
		return nil, faults
	}
	program, patterns, err := program(ast, cel.OptOptimize)
	if wrong, ok := errors.AsType[*patternError](err); ok {
		place := ast.NativeRep().SourceInfo().GetStartLocation(wrong.at)
		faults.Add("", "line %d, column %d: %s", place.Line(), place.Column()+1, wrong)
		return nil, faults
	}
	if err != nil {
		faults.Add("", "cannot be used: %s", eventhook.Truncate(err.Error(), 500))
		return nil, faults
	}
	loops := celast.MatchDescendants(celast.NavigateAST(ast.NativeRep()), celast.KindMatcher(celast.ComprehensionKind))
	memory := expressionMemory + nodes(ast)*nodeMemory + patterns.memory
	return &expression{program: program, ast: ast, hasLoops: len(loops) > 0, memory: memory}, nil
}

// The approximate size of a compiled expression, in bytes: a constant and a part for each node.
const (
	expressionMemory = 30 << 10
	nodeMemory       = 400
)

func nodes(ast *cel.Ast) int {
	return len(celast.MatchDescendants(celast.NavigateAST(ast.NativeRep()), celast.AllMatcher()))
}

// program plans the evaluation of a compiled expression within the limits.
func program(ast *cel.Ast, option cel.EvalOption) (cel.Program, *constantPatterns, error) {
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
	patterns := &constantPatterns{byText: map[string]*pattern.Pattern{}}
	planned, err := env.Program(ast, cel.EvalOptions(option), cel.CostLimit(maxExpressionCost), cel.MemoryLimit(maxExpressionSize),
		cel.CostTracking(costs{}), cel.InterruptCheckFrequency(interruptCheckInterval), cel.CustomDecoratorV2(patterns.decorateMatches))
	return planned, patterns, err
}

// issueText describes a fault that the compiler found, with line and column. CEL has no position
// for an expression that nests too deep.
func issueText(issue *cel.Error) string {
	text := eventhook.Truncate(eventhook.SanitizeText(describeSyntaxError(issue.Message)), 500)
	switch line, column := issue.Location.Line(), issue.Location.Column(); {
	case strings.Contains(issue.Message, "recursion limit exceeded"):
		return fmt.Sprintf("nests too deep: at most %d levels are allowed", maxExpressionDepth)
	case line < 1 || column < 0:
		return text
	default:
		return fmt.Sprintf("line %d, column %d: %s", line, column+1, text)
	}
}

// activation provides the variables of an expression and computes each on first use.
type activation struct {
	*subject
	began   time.Time
	lookups int // how many variables were looked up
}

// Parent implements cel.Activation.
func (a *activation) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation. It stops an evaluation that takes too long in the way in
// which CEL stops one at its own limits.
func (a *activation) ResolveName(name string) (any, bool) {
	if a.lookups++; a.lookups%8 == 0 && time.Since(a.began) > maxEvalTime {
		panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "it takes too long"})
	}
	switch name {
	case "headers":
		return a.headerMap(), true
	case "event":
		return a.eventMap(), true
	case "body":
		return orError(a.decoded())
	case "cloudevent":
		return orError(a.decodedCloudEvent())
	case meterName:
		return a.Meter, true
	}
	return nil, false
}

func orError(value any, err error) (any, bool) {
	if err != nil {
		return types.NewErr("%s", err), true
	}
	return value, true
}

// matches evaluates the expression. An evaluation error, such as a missing member, counts as false.
// If reasons is not nil and the expression does not match, matches adds the reason. An evaluation
// that exceeds a limit of CEL is a problem. If the subject's meter stops, matches returns false,
// and the caller must check the meter.
func (x *expression) matches(s *subject, reasons *filter.Reasons) (bool, *problem) {
	value, _, err := x.eval(x.program, s)
	if s.Meter.Err() != nil {
		return false, nil //nolint:nilerr // as documented, the route does not match
	}
	if exceeded := exceededBy(err); exceeded != nil {
		return false, exceeded
	}
	if err == nil && value == types.True {
		return true, nil
	}
	switch {
	case reasons == nil:
	case err != nil:
		reasons.Add("filter_expression: %s", x.explainFailure(s, err))
	case value == types.False:
		reasons.Add("filter_expression is false")
	default:
		reasons.Add("filter_expression is of type %s, and must be bool", value.Type().TypeName())
	}
	return false, nil
}

// eval evaluates a program of the expression and takes the steps of its cost from the meter. The
// steps are known only afterwards; until then CEL's cost limit bounds the evaluation. CEL's cost
// model omits some work, such as listing the keys of a map or measuring the size of a value, so
// there is also a time limit. If an evaluation takes much of that time, the time beyond its cost is
// charged as well. It is taken from the tenant's share only and not from the limit of the event:
// time depends on the machine, and that limit must not.
func (x *expression) eval(program cel.Program, s *subject) (ref.Val, *cel.EvalDetails, error) {
	if err := s.Meter.Use(evalSteps); err != nil {
		return nil, nil, err
	}
	a := &s.eval
	*a = activation{subject: s, began: time.Now()}
	value, details, err := x.run(program, a)
	steps := maxExpressionCost * stepsPerCost
	if details != nil && details.ActualCost() != nil {
		steps = int(min(maxExpressionCost, *details.ActualCost())) * stepsPerCost
	}
	if stopped := s.Meter.Spend(steps); stopped != nil {
		return nil, nil, stopped
	}
	took := time.Since(a.began)
	if isLong := took > maxEvalTime/4; isLong || isTime(err) {
		if stopped := s.Meter.SpendTime(took - time.Duration(steps)*meter.StepTime); stopped != nil {
			return nil, nil, stopped
		}
	}
	return value, details, err
}

// run evaluates a program. An expression without loops looks up variables often, and each lookup
// checks the time limit, so only an expression with loops needs a timeout.
func (x *expression) run(program cel.Program, a *activation) (ref.Val, *cel.EvalDetails, error) {
	if !x.hasLoops {
		return program.Eval(a)
	}
	ctx, cancel := context.WithTimeout(a.Meter.Context(), maxEvalTime)
	defer cancel()
	return program.ContextEval(ctx, a)
}

const (
	evalSteps              = 50 // steps of starting an evaluation
	interruptCheckInterval = 8  // loop iterations between two checks of the context
)

// maxEvalTime is the time limit of one evaluation. Tests of the other limits raise it.
var maxEvalTime = time.Second
