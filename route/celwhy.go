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

// reads reports whether the expression asks for a variable, such as body.
func (x *expression) reads(variable string) bool {
	tree := celast.NavigateAST(x.ast.NativeRep())
	return len(celast.MatchDescendants(tree, func(e celast.NavigableExpr) bool {
		return e.Kind() == celast.IdentKind && e.AsIdent() == variable
	})) > 0
}

// why says where and over what an evaluation failed, for people. The library
// names neither the place nor, of an operator, what it was given, so that it
// evaluates once more, and watches.
func (x *expression) why(s *subject, err error) string {
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
	culprit := culpritIn(celast.NavigateAST(x.ast.NativeRep()), state)
	if better := whyKinds(culprit, state, message); better != "" {
		message = better
	}
	place := x.ast.NativeRep().SourceInfo().GetStartLocation(culprit.ID())
	if place.Line() < 1 {
		return message
	}
	return fmt.Sprintf("line %d, column %d: %s", place.Line(), place.Column()+1, message)
}

// exceededBy returns the problem of an evaluation that exceeded a limit of CEL, nil for any other error. The same event
// exceeds the cost and the memory again. The time depends on the machine, so that a retry may help.
func exceededBy(err error) *problem {
	stopped, ok := errors.AsType[interpreter.EvalCancelledError](err)
	switch {
	case isTime(err):
		return &problem{text: fmt.Sprintf("it takes longer than %s", mostEvalTime), transient: true}
	case !ok:
		return nil
	case stopped.Cause == interpreter.MemoryLimitExceeded:
		return &problem{text: fmt.Sprintf("it holds more than %s elements and characters", spaced(mostExpressionSize))}
	}
	return &problem{text: fmt.Sprintf("it costs more than %s steps", spaced(mostExpressionCost))}
}

// isTime reports whether an evaluation ended at its limit of time, or with the context of its meter.
func isTime(err error) bool {
	stopped, ok := errors.AsType[interpreter.EvalCancelledError](err)
	return ok && stopped.Cause == interpreter.ContextCancelled || errors.Is(err, interpreter.InterruptError{})
}

// spaced is a number below 10^9 with spaces between its thousands.
func spaced(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%d %03d %03d", n/1_000_000, n/1_000%1_000, n%1_000)
	case n >= 1_000:
		return fmt.Sprintf("%d %03d", n/1_000, n%1_000)
	}
	return fmt.Sprint(n)
}

// culpritIn is the innermost expression, from one that failed on, that failed
// by itself and not because a part of it did. Variables only carry on what
// failed elsewhere.
func culpritIn(e celast.NavigableExpr, state interpreter.EvalState) celast.NavigableExpr {
	for _, part := range e.Children() {
		if value, known := state.Value(part.ID()); known && types.IsError(value) && part.Kind() != celast.IdentKind {
			return culpritIn(part, state)
		}
	}
	return e
}

// whyKinds says which operator or function does not work with the kinds of
// values that it met, "" where the message has said what was wrong.
func whyKinds(e celast.NavigableExpr, state interpreter.EvalState, message string) string {
	if e.Kind() == celast.SelectKind {
		if kind := kindOf(e.AsSelect().Operand(), state); kind != "" && kind != "map" {
			return fmt.Sprintf("%s has no member %s", kind, e.AsSelect().FieldName())
		}
	}
	if e.Kind() == celast.ComprehensionKind {
		if kind := kindOf(e.AsComprehension().IterRange(), state); kind != "" && kind != "list" && kind != "map" {
			return fmt.Sprintf("%s is neither a list nor a map to go through", kind)
		}
	}
	if e.Kind() == celast.CallKind && isUnfit(e.AsCall(), state, message) {
		if kinds := kindsOf(e.AsCall(), state); kinds != "" {
			return fmt.Sprintf("%s does not work with %s", nameOf(e.AsCall().FunctionName()), kinds)
		}
	}
	return ""
}

// isUnfit reports whether a call failed for the kinds of its values. To the
// library, what has no members at all has just not the one.
func isUnfit(call celast.CallExpr, state interpreter.EvalState, message string) bool {
	if call.FunctionName() == celoperators.Index && strings.HasPrefix(message, "no such key") {
		kind := kindOf(call.Args()[0], state)
		return kind != "" && kind != "map"
	}
	return strings.HasPrefix(message, "no such overload")
}

// kindOf is the type of what an expression came to, "" where that is unknown:
// not everything is evaluated.
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

// nameOf is a function as it is written.
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
