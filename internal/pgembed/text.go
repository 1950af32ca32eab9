package pgembed

import (
	"bytes"
	"io"
	"os"
	"strings"
)

const tailSize = 2048

// logTail returns the end of the log that the postmaster has written since its launch.
func (p process) logTail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(p.logFrom, info.Size()-tailSize)
	b, _ := io.ReadAll(io.NewSectionReader(f, from, tailSize))
	return tail(b)
}

// tail returns at most the last tailSize bytes of an output, without surrounding
// white space.
func tail(b []byte) string {
	if len(b) > tailSize {
		b = b[len(b)-tailSize:]
	}
	return string(bytes.TrimSpace(b))
}

// quoteList quotes a path as a list with one element in the syntax of PostgreSQL settings.
func quoteList(path string) string {
	return `"` + strings.ReplaceAll(path, `"`, `""`) + `"`
}
