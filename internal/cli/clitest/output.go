package clitest

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// Output is the result of a command line that ran in this process.
type Output struct {
	Code           int
	Stdout, Stderr string
}

// wantInOrder holds that texts follow one another.
func WantInOrder(t *testing.T, got string, texts ...string) {
	t.Helper()
	rest := got
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("got:\n%s\nwant %q in it, after what comes before it in %q", got, text, texts)
		}
		rest = after
	}
}

// Run runs a command line by calling run and returns its output.
func Run(run func(args []string, stdout, stderr io.Writer) int, args ...string) Output {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return Output{code, stdout.String(), stderr.String()}
}
