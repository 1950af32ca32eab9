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
	eachCall(t, func(n ast.Node, at string) {
		names := loggedNames(n)
		if !slices.ContainsFunc(names, func(name string) bool { return name == `"event"` || name == `"delivery"` || name == `"job"` }) {
			return
		}
		if found++; !slices.Contains(names, `"trace_id"`) {
			t.Errorf("%s logs %s without trace_id", at, strings.Join(names, ", "))
		}
	})
	if found < 10 {
		t.Errorf("found %d log lines about an event or a delivery; want more", found)
	}
}

// TestLogLinesNameTenantsBySlug reads the source: the attribute of a tenant is "tenant". Its value
// is a slug, or a TenantID, which the log handler replaces by the slug; never a formatted id.
func TestLogLinesNameTenantsBySlug(t *testing.T) {
	found := 0
	eachCall(t, func(n ast.Node, at string) {
		for _, name := range loggedNames(n) {
			if strings.Contains(name, "tenant_") || strings.Contains(name, "Tenant") {
				t.Errorf("%s logs %s; the attribute of a tenant is tenant", at, name)
			}
		}
		if i := indexOfLiteral(n, `"tenant"`); i >= 0 {
			found++
			if call, ok := n.(*ast.CallExpr).Args[i+1].(*ast.CallExpr); ok && strings.HasSuffix(nameOf(call.Fun), "String") {
				t.Errorf("%s logs the text of a tenant's id; pass the id or the slug", at)
			}
		}
	})
	if found < 8 {
		t.Errorf("found %d log lines about a tenant; want more", found)
	}
}

// eachCall calls do for each call in the source, with its position.
func eachCall(t *testing.T, do func(n ast.Node, at string)) {
	t.Helper()
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
			if _, ok := n.(*ast.CallExpr); ok {
				do(n, files.Position(n.Pos()).String())
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// indexOfLiteral returns the index of a literal among the arguments of a call of a logger, or -1.
func indexOfLiteral(n ast.Node, text string) int {
	if !slices.Contains(loggedNames(n), text) {
		return -1
	}
	return slices.IndexFunc(n.(*ast.CallExpr).Args, func(arg ast.Expr) bool {
		literal, ok := arg.(*ast.BasicLit)
		return ok && literal.Value == text
	})
}

func nameOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
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
