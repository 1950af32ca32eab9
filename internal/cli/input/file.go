package input

import (
	"io"
	"os"
	"strings"
)

// readFileOrStdin reads the file of a name, or stdin if the name is "-".
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// textOrFile returns the content of the file for a value "@FILE", else the value itself.
func TextOrFile(value string) (string, error) {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	raw, err := os.ReadFile(name)
	return string(raw), err
}
