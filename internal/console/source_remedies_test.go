package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// constants returns the values of the constants of a type in a file of Go.
func constants(t *testing.T, file, typeName string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != typeName {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, _ := strconv.Unquote(literal.Value)
			values = append(values, text)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants of the type %s", file, typeName)
	}
	return values
}

func TestEveryReasonHasARemedy(t *testing.T) {
	accepted := map[string]bool{"accepted": true, "duplicate": true, "handshake": true}
	for _, reason := range append(constants(t, "../../verify/verify.go", "Reason"), constants(t, "../../ingest/outcome.go", "Outcome")...) {
		if r := remedies[reason]; !accepted[reason] && (r.Title == "" || r.Text == "") {
			t.Errorf("the reason %q has no remedy", reason)
		}
	}
}

func TestUnknownReasonIsShownAsItIs(t *testing.T) {
	if got := remedyOf("new_reason"); got.Title != "new_reason" || got.Text == "" {
		t.Errorf("remedy, got %+v, want the reason as title", got)
	}
}
