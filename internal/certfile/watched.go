package certfile

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// watched is a value of files. It is replaced when the content of the files changes. Safe for
// concurrent use.
type watched[T any] struct {
	names   []string
	parse   func(contents [][]byte) (*T, error)
	current atomic.Pointer[T]

	mu    sync.Mutex
	sum   [sha256.Size]byte // of the content that was read last
	fault string            // of the last replacement, or ""
}

// read stores the value of the files if their content is new.
func (w *watched[T]) read() (isNew bool, err error) {
	contents := make([][]byte, len(w.names))
	for i, name := range w.names {
		if contents[i], err = readFile(name); err != nil {
			return false, err
		}
	}
	sum := sha256.Sum256(bytes.Join(contents, []byte{0}))
	if sum == w.sum {
		return false, nil
	}
	value, err := w.parse(contents)
	if err != nil {
		return false, err
	}
	w.sum = sum
	w.current.Store(value)
	return true, nil
}

// reload reads the files. isNew is true if the value was replaced. fault is the error if it is
// another one than that of the last call.
func (w *watched[T]) reload() (isNew bool, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isNew, err := w.read()
	if err == nil {
		w.fault = "" // also if the former files are back
		return isNew, nil
	}
	if err.Error() == w.fault {
		return false, nil
	}
	w.fault = err.Error()
	return false, err
}

// maxFileBytes bounds a file.
const maxFileBytes = 1 << 20

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(raw) > maxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFileBytes)
	}
	return raw, err
}
