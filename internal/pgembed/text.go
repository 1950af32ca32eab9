package pgembed

import (
	"bytes"
	"io"
	"os"
	"strings"
)

const tailSize = 2048

// logTail returns the end of what the postmaster has written since its launch.
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
	return lastLines(b)
}

// lastLines returns the end of an output.
func lastLines(b []byte) string {
	if len(b) > tailSize {
		b = b[len(b)-tailSize:]
	}
	return string(bytes.TrimSpace(b))
}

// quoteList writes a path as a list of one, as PostgreSQL reads lists.
func quoteList(path string) string {
	return `"` + strings.ReplaceAll(path, `"`, `""`) + `"`
}
