package panics_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/internal/panics"
)

func TestCount(t *testing.T) {
	before := panics.Total(panics.Schema)
	panics.Count(panics.Schema)
	if got := panics.Total(panics.Schema) - before; got != 1 {
		t.Errorf("counted %d panics, want 1", got)
	}
	for _, p := range panics.Places() {
		if p.String() == "" {
			t.Errorf("the place %d has no name", p)
		}
	}
}

// A panic of a goroutine under Guarded is one line of JSON, and the process ends.
func TestAPanicUnderGuardedIsALineOfTheLog(t *testing.T) {
	if os.Getenv("PANIC") != "" {
		panics.EndProcess(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
		var group sync.WaitGroup
		group.Go(panics.Guarded(func() { panic("on\npurpose") }))
		group.Wait()
		t.Fatal("the process goes on")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "PANIC=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	_ = cmd.Run()
	var line struct{ Msg, Panic, Stack string }
	if err := json.Unmarshal([]byte(stderr.String()), &line); err != nil || cmd.ProcessState.ExitCode() != 1 || line.Panic != "on\npurpose" ||
		!strings.Contains(line.Stack, "panics_test.go") {
		t.Errorf("exit code %d and %s, want 1 and one line of JSON with the panic and its stack", cmd.ProcessState.ExitCode(), stderr.String())
	}
}

// uncounted lists the files that call recover and count no panic of the gateway.
var uncounted = map[string]string{
	"internal/panics/panics.go":                     "ends the process",
	"worker/outcome.go":                             "panics of the handlers of a worker",
	"internal/script/engine.go":                     "runs in a child process, whose failure the gateway counts as a failed script",
	"internal/httpguard/httpguardtest/transport.go": "tests only",
}

func TestEveryRecoverCounts(t *testing.T) {
	root := "../.."
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root, d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || uncounted[filepath.ToSlash(name)] != "":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		recovers, counts := calls(file)
		if found += recovers; recovers > counts {
			t.Errorf("%s calls recover %d times and panics.Count %d times, want a count for each", name, recovers, counts)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("found %d calls of recover, error %v", found, err)
	}
}

// calls counts the calls of recover and of panics.Count in a file.
func calls(file *ast.File) (recovers, counts int) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			if f.Name == "recover" {
				recovers++
			}
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok && x.Name == "panics" && (f.Sel.Name == "Count" || f.Sel.Name == "Recovered") {
				counts++
			}
		}
		return true
	})
	return recovers, counts
}
