package route

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	celoperators "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/eventhook/eventhook"
)

// reads reports whether the expression uses a variable, such as body.
func (x *expression) reads(variable string) bool {
	tree := celast.NavigateAST(x.ast.NativeRep())
	return len(celast.MatchDescendants(tree, func(e celast.NavigableExpr) bool {
		return e.Kind() == celast.IdentKind && e.AsIdent() == variable
	})) > 0
}

// explainFailure describes where and why an evaluation failed. CEL's error has neither a position
// nor the operand types of an operator, so explainFailure evaluates once more with state tracking.
func (x *expression) explainFailure(s *subject, err error) string {
	message := eventhook.Truncate(err.Error(), 500)
	program, _, failed := program(x.ast, cel.OptTrackState)
	if failed != nil {
		return message
	}
	value, details, _ := x.eval(program, s)
	if !types.IsError(value) || details == nil {
		return message
	}
	state := details.State()
	culprit := failedPart(celast.NavigateAST(x.ast.NativeRep()), state)
	if better := explainTypes(culprit, state, message); better != "" {
		message = better
	}
	place := x.ast.NativeRep().SourceInfo().GetStartLocation(culprit.ID())
	if place.Line() < 1 {
		return message
	}
	return fmt.Sprintf("line %d, column %d: %s", place.Line(), place.Column()+1, message)
}

// exceededBy returns the problem of an evaluation that exceeded a limit of CEL, nil for any other
// error. The same event exceeds the cost and the memory limit on every attempt. The time depends on
// the machine, so a retry can help.
func exceededBy(err error) *problem {
	stopped, ok := errors.AsType[interpreter.EvalCancelledError](err)
	switch {
	case isTime(err):
		return &problem{text: fmt.Sprintf("it takes longer than %s", maxEvalTime), transient: true}
	case !ok:
		return nil
	case stopped.Cause == interpreter.MemoryLimitExceeded:
		return &problem{text: fmt.Sprintf("it holds more than %s elements and characters", spaced(maxExpressionSize))}
	}
	return &problem{text: fmt.Sprintf("it costs more than %s steps", spaced(maxExpressionCost))}
}

// isTime reports whether an evaluation ended because of its time limit or because the context of
// its meter ended.
func isTime(err error) bool {
	stopped, ok := errors.AsType[interpreter.EvalCancelledError](err)
	return ok && stopped.Cause == interpreter.ContextCancelled || errors.Is(err, interpreter.InterruptError{})
}

// spaced formats a number below 10^9 with spaces between its thousands.
func spaced(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%d %03d %03d", n/1_000_000, n/1_000%1_000, n%1_000)
	case n >= 1_000:
		return fmt.Sprintf("%d %03d", n/1_000, n%1_000)
	}
	return fmt.Sprint(n)
}

// failedPart returns the innermost part of a failed expression that failed by itself and not because
// of one of its own parts. Variables are skipped: a variable only repeats an error of another part.
func failedPart(e celast.NavigableExpr, state interpreter.EvalState) celast.NavigableExpr {
	for _, part := range e.Children() {
		if value, known := state.Value(part.ID()); known && types.IsError(value) && part.Kind() != celast.IdentKind {
			return failedPart(part, state)
		}
	}
	return e
}

// explainTypes names the operator or function that does not accept its operand types. It returns ""
// if the message is already precise.
func explainTypes(e celast.NavigableExpr, state interpreter.EvalState, message string) string {
	if e.Kind() == celast.SelectKind {
		if kind := kindOf(e.AsSelect().Operand(), state); kind != "" && kind != "map" {
			return fmt.Sprintf("%s has no member %s", kind, e.AsSelect().FieldName())
		}
	}
	if e.Kind() == celast.ComprehensionKind {
		if kind := kindOf(e.AsComprehension().IterRange(), state); kind != "" && kind != "list" && kind != "map" {
			return fmt.Sprintf("%s is neither a list nor a map, so it cannot be iterated", kind)
		}
	}
	if e.Kind() == celast.CallKind && failedOnTypes(e.AsCall(), state, message) {
		if kinds := kindsOf(e.AsCall(), state); kinds != "" {
			return fmt.Sprintf("%s does not work with %s", nameOf(e.AsCall().FunctionName()), kinds)
		}
	}
	return ""
}

// failedOnTypes reports whether a call failed because of the types of its operands. CEL reports an
// index into a value without members as a missing key.
func failedOnTypes(call celast.CallExpr, state interpreter.EvalState, message string) bool {
	if call.FunctionName() == celoperators.Index && strings.HasPrefix(message, "no such key") {
		kind := kindOf(call.Args()[0], state)
		return kind != "" && kind != "map"
	}
	return strings.HasPrefix(message, "no such overload")
}

// kindOf returns the type of an expression's value, "" if the expression was not evaluated.
func kindOf(e celast.Expr, state interpreter.EvalState) string {
	if e.Kind() == celast.LiteralKind {
		return e.AsLiteral().Type().TypeName()
	}
	if value, known := state.Value(e.ID()); known && value != nil && !types.IsError(value) {
		return value.Type().TypeName()
	}
	return ""
}

func kindsOf(call celast.CallExpr, state interpreter.EvalState) string {
	args := call.Args()
	if call.FunctionName() == celoperators.Conditional {
		args = args[:1]
	}
	if call.IsMemberFunction() {
		args = append([]celast.Expr{call.Target()}, args...)
	}
	var kinds []string
	for _, a := range args {
		if kind := kindOf(a, state); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, " and ")
}

// nameOf returns a function or operator as it is written in an expression.
func nameOf(function string) string {
	switch function {
	case celoperators.Index:
		return "[ ]"
	case celoperators.Conditional:
		return "? :"
	}
	if sign, ok := celoperators.FindReverse(function); ok && sign != "" {
		return sign
	}
	return function
}
