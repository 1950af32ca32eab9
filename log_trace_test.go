package eventhook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLogLinesAboutAnEventHaveItsTrace reads the source: a call that logs an event or a delivery
// also logs the trace id.
func TestLogLinesAboutAnEventHaveItsTrace(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			names := loggedNames(n)
			if !slices.ContainsFunc(names, func(name string) bool { return name == `"event"` || name == `"delivery"` || name == `"job"` }) {
				return true
			}
			if found++; !slices.Contains(names, `"trace_id"`) {
				t.Errorf("%s logs %s without trace_id", files.Position(n.Pos()), strings.Join(names, ", "))
			}
			return true
		})
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("found %d log lines about an event or a delivery, %v; want more", found, err)
	}
}

// loggedNames returns the literals among the arguments of a call of a logger.
func loggedNames(n ast.Node) (names []string) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "With", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}, method.Sel.Name) {
		return nil
	}
	for _, arg := range call.Args {
		if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			names = append(names, literal.Value)
		}
	}
	return names
}
