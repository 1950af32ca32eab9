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

// WantInOrder fails the test unless got contains the texts in this order.
func WantInOrder(t *testing.T, got string, texts ...string) {
	t.Helper()
	rest := got
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("got:\n%s\nwant %q in it, after the texts before it in %q", got, text, texts)
		}
		rest = after
	}
}

// Run calls run with the arguments and returns its exit code and output.
func Run(run func(args []string, stdout, stderr io.Writer) int, args ...string) Output {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return Output{code, stdout.String(), stderr.String()}
}
