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

// Bounds of expressions.
const (
	mostExpressionBytes = 16 << 10
	mostExpressionNodes = 5_000
	mostExpressionDepth = 100
	mostExpressionCost  = 100_000 // CEL's units, about a step each
	mostExpressionSize  = 1 << 20 // elements and characters held, counted over the whole evaluation
)

// environment is what expressions know: CEL's standard library, and headers,
// body, cloudevent and event.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.DynType),
		cel.Variable("cloudevent", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(mostExpressionBytes),
		cel.ParserRecursionLimit(mostExpressionDepth),
		cel.ParserErrorRecoveryLimit(10),
		cel.ExpressionNodeLimit(mostExpressionNodes),
	)
})

// expression is a filter_expression, compiled; safe for concurrent use.
type expression struct {
	program  cel.Program
	ast      *cel.Ast
	hasLoops bool
	memory   int // about how many bytes it holds
}

// compileExpression compiles CEL. Whatever is wrong with it is told at once,
// by line and column.
func compileExpression(text string) (*expression, eventhook.Faults) {
	var faults eventhook.Faults
	if len(text) > mostExpressionBytes {
		faults.Add("", "is %d bytes long, at most %d are allowed", len(text), mostExpressionBytes)
		return nil, faults
	}
	env, err := environment()
	if err != nil {
		faults.Add("", "expressions cannot be compiled")
		return nil, faults
	}
	ast, issues := env.Compile(text)
	for _, issue := range issues.Errors() {
		faults.Add("", "%s", complaint(issue))
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

// About how many bytes a compiled expression holds: any, and for each of its nodes.
const (
	expressionMemory = 30 << 10
	nodeMemory       = 400
)

func nodes(ast *cel.Ast) int {
	return len(celast.MatchDescendants(celast.NavigateAST(ast.NativeRep()), celast.AllMatcher()))
}

// program plans the evaluation of what was compiled, within its bounds.
func program(ast *cel.Ast, how cel.EvalOption) (cel.Program, *constants, error) {
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
	patterns := &constants{byText: map[string]*pattern.Pattern{}}
	planned, err := env.Program(ast, cel.EvalOptions(how), cel.CostLimit(mostExpressionCost), cel.MemoryLimit(mostExpressionSize),
		cel.CostTracking(costs{}), cel.InterruptCheckFrequency(loopsAtOnce), cel.CustomDecoratorV2(patterns.decorateMatches))
	return planned, patterns, err
}

// complaint is what the compiler finds fault with, for people, and where, if it
// knows: of what nests too deep it does not.
func complaint(issue *cel.Error) string {
	switch line, column := issue.Location.Line(), issue.Location.Column(); {
	case strings.Contains(issue.Message, "recursion limit exceeded"):
		return fmt.Sprintf("nests too deep: at most %d levels are allowed", mostExpressionDepth)
	case line < 1 || column < 0:
		return eventhook.Truncate(issue.Message, 500)
	default:
		return fmt.Sprintf("line %d, column %d: %s", line, column+1, eventhook.Truncate(issue.Message, 500))
	}
}

// activation gives an expression what it asks for, and works it out only then.
type activation struct {
	*subject
	began time.Time
	asked int // how often a variable was asked for
}

// Parent implements cel.Activation.
func (a *activation) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation. It ends an evaluation that takes too long, as CEL ends it at its limits.
func (a *activation) ResolveName(name string) (any, bool) {
	if a.asked++; a.asked%8 == 0 && time.Since(a.began) > mostEvalTime {
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

// holds evaluates the expression. An error, such as a member that is missing,
// counts as false. If why is not nil, holds adds the reason. An evaluation that
// exceeds a limit of CEL is a problem. When the subject's meter stops, holds
// returns false: the caller has to ask the meter.
func (x *expression) holds(s *subject, why *filter.Reasons) (bool, *problem) {
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
	case why == nil:
	case err != nil:
		why.Add("filter_expression: %s", x.why(s, err))
	case value == types.False:
		why.Add("filter_expression is false")
	default:
		why.Add("filter_expression is of type %s, and must be bool", value.Type().TypeName())
	}
	return false, nil
}

// eval evaluates a program of the expression and uses the steps of its cost. The cost limit bounds what one
// evaluation does before they are used. CEL's model of costs leaves out some work, such as listing the keys of a map
// or measuring the memory of a value, so there is a limit of time, too. Time beyond the cost is the share's alone:
// how long an evaluation takes depends on the machine, and the limit of the event must not.
func (x *expression) eval(program cel.Program, s *subject) (ref.Val, *cel.EvalDetails, error) {
	if err := s.Meter.Use(evalSteps); err != nil {
		return nil, nil, err
	}
	a := &s.eval
	*a = activation{subject: s, began: time.Now()}
	value, details, err := x.run(program, a)
	steps := mostExpressionCost * stepsPerCost
	if details != nil && details.ActualCost() != nil {
		steps = int(min(mostExpressionCost, *details.ActualCost())) * stepsPerCost
	}
	if stopped := s.Meter.Spend(steps); stopped != nil {
		return nil, nil, stopped
	}
	if took := time.Since(a.began); took > mostEvalTime/4 || isTime(err) {
		if stopped := s.Meter.SpendTime(took - time.Duration(steps)*meter.StepTime); stopped != nil {
			return nil, nil, stopped
		}
	}
	return value, details, err
}

// run evaluates a program. Only what has loops can run for long between two questions for a variable.
func (x *expression) run(program cel.Program, a *activation) (ref.Val, *cel.EvalDetails, error) {
	if !x.hasLoops {
		return program.Eval(a)
	}
	ctx, cancel := context.WithTimeout(a.Meter.Context(), mostEvalTime)
	defer cancel()
	return program.ContextEval(ctx, a)
}

const (
	evalSteps   = 50 // of beginning an evaluation
	loopsAtOnce = 8  // turns of a loop between two looks at the context
)

// mostEvalTime is the limit of one evaluation. Tests of the other limits raise it.
var mostEvalTime = time.Second
