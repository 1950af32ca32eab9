package script

import (
	"bytes"
	"encoding/json"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"

	"github.com/eventhook/eventhook/internal/meter"
)

// Costs of an Evaluator in steps of package meter; see BenchmarkEvaluate.
const (
	stepsPerByte = 1  // of a text, or of JSON that is decoded
	stepsPerNode = 20 // of an expression, and of a value that is decoded, read or encoded
)

// Limits of expressions that an Evaluator accepts. They bound its stack and its cache.
const (
	maxDepth = 64
	maxNodes = 500
)

// canCount reports whether a counter can bound the cost of an expression. This is so if each node
// of the expression costs a constant time, or a time in proportion to the sizes of its operands,
// which a counter adds up before the node is evaluated. Not accepted are variables, which few
// expressions have, and functions that take an expression, sort, or build a text whose length does
// not follow from the sizes of their arguments; for join, joinedSize is the missing part.
func canCount(tree parsing.ASTNode) bool {
	nodes := 0
	var check func(n parsing.ASTNode, depth int) bool
	check = func(n parsing.ASTNode, depth int) bool {
		nodes++
		switch n.NodeType {
		case parsing.ASTCurrentNode, parsing.ASTRootNode, parsing.ASTIdentity, parsing.ASTLiteral, parsing.ASTField, parsing.ASTIndex,
			parsing.ASTSubexpression, parsing.ASTIndexExpression, parsing.ASTPipe, parsing.ASTMultiSelectList,
			parsing.ASTMultiSelectHash, parsing.ASTKeyValPair,
			parsing.ASTAndExpression, parsing.ASTOrExpression, parsing.ASTNotExpression, parsing.ASTArithmeticExpression,
			parsing.ASTArithmeticUnaryExpression:
		case parsing.ASTProjection, parsing.ASTFilterProjection, parsing.ASTFlatten, parsing.ASTSlice, parsing.ASTComparator: // see counting
		case parsing.ASTFunctionExpression:
			if name, _ := n.Value.(string); !countedFunctions[name] {
				return false
			}
		default:
			return false
		}
		for _, child := range n.Children {
			if nodes > maxNodes || depth == maxDepth || !check(child, depth+1) {
				return false
			}
		}
		return true
	}
	return check(tree, 1)
}

// countedFunctions have a cost in proportion to the sizes of their arguments, except join.
var countedFunctions = map[string]bool{
	"abs": true, "avg": true, "ceil": true, "contains": true, "ends_with": true, "floor": true, "items": true, join: true,
	"keys": true, "length": true, "lower": true, "max": true, "merge": true, "min": true, "not_null": true, "reverse": true,
	"starts_with": true, "sum": true, "to_array": true, "to_number": true, "to_string": true, "type": true, "upper": true,
	"values": true, projectedValues: true,
}

const join = "join"

// Functions that counting inserts into an expression. Each returns its last argument. Expressions
// cannot name them.
const (
	countSteps    = "#steps"    // counts the number of steps in its first argument
	countElements = "#elements" // counts the elements of a list and of the lists in it, or the characters of a text
	countSize     = "#size"     // counts the whole value
)

// counting returns an expression with calls of the functions of a counter: before each element of a
// projection is evaluated, and before a list is flattened, a list or text sliced, or a
// value compared.
func counting(n parsing.ASTNode) parsing.ASTNode {
	for i := range n.Children {
		n.Children[i] = counting(n.Children[i])
	}
	switch n.NodeType {
	case parsing.ASTProjection:
		n.Children[1] = afterSteps(stepsOf(n.Children[1]), n.Children[1])
	case parsing.ASTFilterProjection:
		n.Children[2] = afterSteps(stepsOf(n.Children[1])+stepsOf(n.Children[2]), n.Children[2])
	case parsing.ASTFlatten:
		n.Children[0] = callOf(countElements, n.Children[0])
	case parsing.ASTIndexExpression:
		if n.Children[1].NodeType == parsing.ASTSlice {
			n.Children[0] = callOf(countElements, n.Children[0])
		}
	case parsing.ASTComparator:
		n.Children[0] = callOf(countSize, n.Children[0])
	default: // costs the steps of its nodes
	}
	return n
}

// stepsOf returns the steps of evaluating each node of an expression once.
func stepsOf(n parsing.ASTNode) int {
	steps := stepsPerNode
	for _, child := range n.Children {
		steps += stepsOf(child)
	}
	return steps
}

func afterSteps(steps int, n parsing.ASTNode) parsing.ASTNode {
	count := callOf(countSteps, parsing.ASTNode{NodeType: parsing.ASTLiteral, Value: steps},
		parsing.ASTNode{NodeType: parsing.ASTCurrentNode})
	return parsing.ASTNode{NodeType: parsing.ASTPipe, Children: []parsing.ASTNode{count, n}}
}

func callOf(function string, arguments ...parsing.ASTNode) parsing.ASTNode {
	return parsing.ASTNode{NodeType: parsing.ASTFunctionExpression, Value: function, Children: arguments}
}

// counter calls the functions of an expression after it has counted their cost.
type counter struct{ *meter.Meter }

// CallFunction implements interpreter.FunctionCaller. After an error of the meter, the expression
// has no result; the interpreter ignores some errors of functions, so the caller checks the meter.
func (c counter) CallFunction(name string, arguments []any) (any, error) {
	last := len(arguments) - 1
	switch name {
	case countSteps:
		steps, _ := arguments[0].(int) // set by afterSteps
		return arguments[last], c.Use(steps)
	case countElements:
		return arguments[last], c.Use(elementsOf(arguments[0]) * stepsPerNode)
	case countSize:
		return arguments[last], useSize(c.Meter, arguments[0])
	case join:
		if err := c.Use(joinedSize(arguments)); err != nil {
			return nil, err
		}
	}
	for _, a := range arguments {
		if err := useSize(c.Meter, a); err != nil {
			return nil, err
		}
	}
	return orderedFunctions.CallFunction(name, arguments)
}

// joinedSize returns the size of all separators that join adds.
func joinedSize(arguments []any) int {
	if len(arguments) < 2 { //nolint:mnd // the function refuses it
		return 0
	}
	separator, _ := arguments[0].(string)
	list, _ := arguments[1].([]any)
	return len(separator) * len(list)
}

func elementsOf(value any) int {
	switch x := value.(type) {
	case string:
		return len(x)
	case []any:
		n := len(x)
		for _, element := range x {
			if inner, ok := element.([]any); ok {
				n += len(inner)
			}
		}
		return n
	}
	return 0
}

// decodeSteps returns the steps of decoding JSON. Each value but the first one follows a comma, a
// colon or a bracket.
func decodeSteps(input []byte) int {
	values := bytes.Count(input, []byte{','}) + bytes.Count(input, []byte{'['}) + bytes.Count(input, []byte{'{'})
	return stepsPerByte*len(input) + 2*stepsPerNode*values //nolint:mnd // a value is decoded, and its numbers are converted
}

// useSize takes the steps for reading a value once. Parts that several places share count at each
// place, because a function or the encoder reads them at each. It stops at the limit of the meter.
func useSize(m *meter.Meter, value any) error {
	var err error
	switch x := value.(type) {
	case string:
		return m.Use(stepsPerNode + stepsPerByte*len(x))
	case json.Number:
		return m.Use(stepsPerNode + stepsPerByte*len(x))
	case []any:
		err = m.Use(stepsPerNode)
		for i := 0; i < len(x) && err == nil; i++ {
			err = useSize(m, x[i])
		}
	case map[string]any:
		err = m.Use(stepsPerNode)
		for name, member := range x {
			if err == nil {
				err = m.Use(stepsPerNode + stepsPerByte*len(name))
			}
			if err != nil {
				return err
			}
			err = useSize(m, member)
		}
	default:
		err = m.Use(stepsPerNode)
	}
	return err
}
