package worker_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestPageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) == 0 {
		t.Error("docs/workers.md has no example in Go")
	}
	for _, b := range blocks {
		if !strings.Contains(string(example), b[1]) {
			t.Errorf("docs/workers.md shows\n%s\nwhich is not in worker/example_test.go", b[1])
		}
	}
}
