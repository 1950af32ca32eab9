package route

import (
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/eventhook/eventhook"
)

// Bounds of expressions.
const (
	mostExpressionBytes = 16 << 10
	mostExpressionNodes = 5_000
	mostExpressionCost  = 100_000 // CEL's units, about a step each
	mostExpressionSize  = 1 << 20 // elements and characters held at once
)

// environment is what expressions know: CEL's standard library, and headers,
// body and event.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.DynType),
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(mostExpressionBytes),
		cel.ParserRecursionLimit(100),
		cel.ParserErrorRecoveryLimit(10),
		cel.ExpressionNodeLimit(mostExpressionNodes),
		cel.RegexProgramSizeLimit(mostRegexpSize),
	)
})

// expression is a filter_expression, compiled; safe for concurrent use.
type expression struct{ program cel.Program }

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
		faults.Add("", "line %d, column %d: %s", issue.Location.Line(), issue.Location.Column()+1, eventhook.Cut(issue.Message, 500))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		faults.Add("", "line 1, column 1: is of type %s, and must be bool", t)
		return nil, faults
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(mostExpressionCost), cel.MemoryLimit(mostExpressionSize))
	if err != nil {
		faults.Add("", "cannot be used: %s", eventhook.Cut(err.Error(), 500))
		return nil, faults
	}
	return &expression{program: program}, nil
}

// activation gives an expression what it asks for, and works it out only then.
type activation struct{ *subject }

func (a activation) Parent() cel.Activation { return nil }

func (a activation) ResolveName(name string) (any, bool) {
	switch name {
	case "headers":
		return a.headerMap(), true
	case "event":
		return a.eventMap(), true
	case "body":
		body, err := a.decoded()
		if err != nil {
			return types.NewErr("%s", err), true
		}
		return body, true
	}
	return nil, false
}

// holds evaluates the expression. An error, such as a member that is missing,
// is a no. With a why, it says there what was wrong.
func (x *expression) holds(s *subject, why *reasons) bool {
	value, _, err := x.program.Eval(activation{s})
	if err == nil && value == types.True {
		return true
	}
	switch {
	case why == nil:
	case err != nil:
		why.add("filter_expression: %s", eventhook.Cut(err.Error(), 500))
	case value == types.False:
		why.add("filter_expression is false")
	default:
		why.add("filter_expression is of type %s, and must be bool", value.Type().TypeName())
	}
	return false
}
