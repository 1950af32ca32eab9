package script

import (
	"maps"
	"slices"

	"github.com/jmespath-community/go-jmespath/pkg/functions"
	"github.com/jmespath-community/go-jmespath/pkg/interpreter"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// expression is a compiled JMESPath expression. It reads the members of objects in the order
// of their names, so that the same input always has the same result. The library reads them
// in random order.
type expression struct{ tree parsing.ASTNode }

func (x expression) search(value any) (any, error) { return x.searchWith(orderedFunctions, value) }

func (x expression) searchWith(f interpreter.FunctionCaller, value any) (any, error) {
	return interpreter.NewInterpreter(value, f, nil).Execute(x.tree, value)
}

// projectedValues is a function that expressions cannot name. It returns the values of an
// object, and null for any other value.
const projectedValues = "#values"

var (
	object           = []functions.ArgSpec{{Types: []functions.JpType{functions.JpObject}}}
	orderedFunctions = interpreter.NewFunctionCaller(append(functions.GetDefaultFunctions(),
		functions.FunctionEntry{Name: "keys", Arguments: object, Handler: membersBy(func(name string, _ any) any { return name })},
		functions.FunctionEntry{Name: "values", Arguments: object, Handler: membersBy(func(_ string, value any) any { return value })},
		functions.FunctionEntry{Name: "items", Arguments: object,
			Handler: membersBy(func(name string, value any) any { return []any{name, value} })},
		functions.FunctionEntry{Name: projectedValues, Arguments: []functions.ArgSpec{{Types: []functions.JpType{functions.JpAny}}},
			Handler: membersBy(func(_ string, value any) any { return value })},
		sortByOfCopy(),
	)...)
)

// sortByOfCopy returns the function sort_by without its effect on its argument, which can be a
// literal of an expression that runs again.
func sortByOfCopy() functions.FunctionEntry {
	list := functions.GetDefaultFunctions()
	entry := list[slices.IndexFunc(list, func(f functions.FunctionEntry) bool { return f.Name == "sort_by" })]
	sortBy := entry.Handler
	entry.Handler = func(arguments []any) (any, error) {
		elements, _ := arguments[0].([]any) // the caller has checked the type
		return sortBy([]any{slices.Clone(elements), arguments[1]})
	}
	return entry
}

// membersBy returns a function that lists the members of an object in the order of their
// names.
func membersBy(element func(name string, value any) any) functions.JpFunction {
	return func(arguments []any) (any, error) {
		members, ok := arguments[0].(map[string]any)
		if !ok {
			return nil, nil //nolint:nilnil // null
		}
		list := make([]any, 0, len(members))
		for _, name := range slices.Sorted(maps.Keys(members)) {
			list = append(list, element(name, members[name]))
		}
		return list, nil
	}
}

// ordered replaces the wildcards over objects in an expression by list projections over
// their values in order.
func ordered(node parsing.ASTNode) parsing.ASTNode {
	for i := range node.Children {
		node.Children[i] = ordered(node.Children[i])
	}
	if node.NodeType == parsing.ASTValueProjection {
		node.NodeType = parsing.ASTProjection
		node.Children[0] = parsing.ASTNode{NodeType: parsing.ASTFunctionExpression, Value: projectedValues,
			Children: []parsing.ASTNode{node.Children[0]}}
	}
	return node
}
