package eventhook_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// evaluators maps each library and package that evaluates code of tenants
// (expressions, patterns, schemas, paths, scripts) to the packages that may import
// it. The importing packages count the work with a meter or limit it by constants. A
// package added here needs a budget.
var evaluators = map[string][]string{
	"regexp": {
		"configs", "ingest", "internal/filter", "internal/payload", "internal/pattern", "internal/pgembed", "internal/schema",
		"internal/pg", // parses its own SQL when the program starts
		"internal/script", "verify", "worker",
		"internal/cli", "internal/cli/input", // constant patterns, in commands
		"targets", "consumers", // constant patterns of settings
	},
	"cel.dev/cel-go/":                          {"route"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"internal/schema"},
	"github.com/tidwall/gjson":                 {"bench", "internal/cli/receive", "internal/filter", "internal/payload", "route", "verify"},
	"modernc.org/quickjs":                      {"internal/script"},
	"github.com/jmespath-community/":           {"internal/script"},
	module + "/internal/script":                {"bench", "cmd/eventhook", "outbound/transform", "route"}, // cmd/eventhook checks whether scripts are confined
	module + "/internal/filter":                {"outbound/match", "route"},
	module + "/internal/schema":                {"internal/api", "outbound/match"},
	module + "/internal/pattern":               {"internal/filter", "internal/schema", "route", "verify"},
}

// unmetered lists the calls that pass no meter to a function with a meter parameter,
// or create a meter without a tenant's share, each with its reason.
var unmetered = map[string]string{
	"ingest: New":               "an empty body, of a request that was refused",
	"ingest: meter.New":         "looks up the idempotency key and the event type of a verified request, within the limit of one event",
	"internal/api: New":         "renders a stored body for a response: looks up no path",
	"internal/payload: New":     "renders the data of a CloudEvent, which the caller's meter has counted",
	"outbound/match: meter.New": "a system event is small, and gets ten slices for each filter",
	"targets: New":              "renders a stored body for a request, and looks up at most two paths for a message; the plan of the event rendered the same body within the budget",
	"verify: New":               "parses a JSON body or a form once, before any expression of the tenant",
	"verify: meter.New":         "reserves steps, within a limit of its own",
	"bench: New":                "is not part of the product",
}

func TestTenantCodeRunsWithinABudget(t *testing.T) {
	if found := budgets(t, os.DirFS(".")); len(found) > 0 {
		t.Errorf("evaluations without a budget, got:\n%s\nwant none: take a meter with the tenant's share (internal/cpushare)", strings.Join(found, "\n"))
	}
}

func TestMissingBudgetsAreReported(t *testing.T) {
	const held = "package filter\n\nfunc (f *Filter) Holds(m *meter.Meter, s string) bool { return true }\n"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("package x\n" + text)} }
	for _, c := range []struct {
		claim string
		file  *fstest.MapFile
		want  []string
	}{
		{"a library of expressions in another package", file("import \"regexp\""), []string{"shop/x.go: imports regexp"}},
		{"a package of such a library", file("import \"cel.dev/cel-go/cel\""), []string{"shop/x.go: imports cel.dev/cel-go/cel"}},
		{"a call without a meter", file("var _ = f.Holds(nil, \"\")"), []string{"shop/x.go:2:9: Holds has no meter"}},
		{"a meter without a share", file("var _ = meter.New(ctx, 1, nil)"), []string{"shop/x.go:2:9: meter.New has no meter"}},
		{"a meter that is reset without a share", file("func f() { m.Reset(ctx, 1, nil) }"), []string{"shop/x.go:2:12: meter.New has no meter"}},
		{"a meter with a share", file("var _ = f.Holds(meter.New(ctx, 1, share), \"\")"), nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			tree := fstest.MapFS{"internal/filter/filter.go": {Data: []byte(held)}, "shop/x.go": c.file, "shop/x_test.go": file("var _ = f.Holds(nil, \"\")")}
			if diff := cmp.Diff(c.want, budgets(t, tree)); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
		})
	}
}

// budgets returns the places that evaluate code of tenants without a budget.
func budgets(t *testing.T, tree fs.FS) (found []string) {
	t.Helper()
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		files[name], err = parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	metered := map[string][]int{} // the positions of the meter parameters by function name
	for _, f := range files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				metered[fn.Name.Name] = append(metered[fn.Name.Name], meters(fn)...)
			}
		}
	}
	for name, f := range files {
		found = append(found, importsOf(name, f)...)
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if callee := unmeteredCall(call, metered); callee != "" && unmetered[path.Dir(name)+": "+callee] == "" {
					at := set.Position(call.Pos())
					found = append(found, fmt.Sprintf("%s:%d:%d: %s has no meter", name, at.Line, at.Column, callee))
				}
			}
			return true
		})
	}
	slices.Sort(found)
	return found
}

// importsOf returns the imports of evaluators that are not allowed.
func importsOf(name string, f *ast.File) (found []string) {
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		for evaluator, importers := range evaluators {
			if (imported == evaluator || strings.HasSuffix(evaluator, "/") && strings.HasPrefix(imported, evaluator)) && !slices.Contains(importers, path.Dir(name)) {
				found = append(found, fmt.Sprintf("%s: imports %s", name, imported))
			}
		}
	}
	return found
}

// meters returns the positions of the parameters of type *meter.Meter.
func meters(fn *ast.FuncDecl) (positions []int) {
	at := 0
	for _, p := range fn.Type.Params.List {
		names := max(1, len(p.Names))
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if s, ok := star.X.(*ast.SelectorExpr); ok && s.Sel.Name == "Meter" {
				for i := range names {
					positions = append(positions, at+i)
				}
			}
		}
		at += names
	}
	return positions
}

// unmeteredCall returns the name of the called function if the call passes a nil
// meter or creates a meter without a share.
func unmeteredCall(call *ast.CallExpr, metered map[string][]int) string {
	qualifier, name := "", ""
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		name = fn.Name
	case *ast.SelectorExpr:
		name = fn.Sel.Name
		if x, ok := fn.X.(*ast.Ident); ok {
			qualifier = x.Name
		}
	}
	if qualifier == "meter" && name == "New" || name == "Reset" && len(call.Args) == 3 {
		if isNil(call.Args, 2) {
			return "meter.New"
		}
		return ""
	}
	if slices.ContainsFunc(metered[name], func(i int) bool { return isNil(call.Args, i) }) {
		return name
	}
	return ""
}

func isNil(args []ast.Expr, i int) bool {
	if i >= len(args) {
		return false
	}
	id, ok := args[i].(*ast.Ident)
	return ok && id.Name == "nil"
}
