package input

import (
	"io"
	"os"
	"strings"
)

// ReadFile reads the named file, or stdin to its end if the name is "-".
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// TextOrFile returns the content of FILE if value is "@FILE", else value.
func TextOrFile(value string) (string, error) {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	raw, err := os.ReadFile(name)
	return string(raw), err
}
