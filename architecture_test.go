package eventhook_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const architecturePage = "docs/architecture.md"

// packageRow matches a row of the tables of packages: name, responsibility, imports.
var packageRow = regexp.MustCompile("(?m)^\\| (?:root package )?`([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")

// A prefix applies to all names after it, up to the next prefix: `internal/`: `batch`, `wake`.
var importedName = regexp.MustCompile("`([^`]+)`(:?)")

func TestArchitecturePageListsEveryPackageWithItsImports(t *testing.T) {
	documented := map[string][]string{}
	for _, row := range packageRow.FindAllStringSubmatch(readPage(t), -1) {
		name, imports := row[1], row[2]
		if allowed, isPackage := allowedImports[packagePath(name)]; isPackage {
			documented[packagePath(name)] = importsOfRow(imports)
			if slices.Contains(allowed, everything) {
				documented[packagePath(name)] = []string{imports}
			}
		}
	}
	want := map[string][]string{}
	for name, allowed := range allowedImports {
		want[name] = slices.Sorted(slices.Values(allowed))
		if slices.Contains(allowed, everything) {
			want[name] = []string{"all packages"}
		}
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("tables of %s (-allowedImports +page):\n%s", architecturePage, diff)
	}
}

func importsOfRow(text string) (names []string) {
	prefix := ""
	for _, m := range importedName.FindAllStringSubmatch(text, -1) {
		if isPrefix := m[2] == ":"; isPrefix {
			prefix = m[1]
		} else {
			names = append(names, packagePath(prefix+m[1]))
		}
	}
	slices.Sort(names)
	return names
}

// packagePath returns the path of a package that the page names.
func packagePath(name string) string {
	if name == "eventhook" {
		return root
	}
	return name
}

func TestArchitecturePageNamesExistingTestsAndFiles(t *testing.T) {
	tests := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page := readPage(t)
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !tests[m[1]] {
			t.Errorf("%s names the test %s, which does not exist", architecturePage, m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z_/]+/[a-z_]+\\.(?:go|yaml))`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("%s names a file: %v", architecturePage, err)
		}
	}
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(architecturePage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
