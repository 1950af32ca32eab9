package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"crypto/rand"
	"encoding/hex"
)

// ReadOrCreate returns the content of a file in the folder dir. If the file does not
// exist, ReadOrCreate writes the result of generate to it, with the mode 0600. If
// several processes create the file at the same time, all return the content of
// the first. created reports whether this call created the file.
func ReadOrCreate(dir, name string, generate func() string) (text string, created bool, err error) {
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(raw)), false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read %s: %w", name, err)
	}
	text = generate()
	if err := writeOnce(path, text+"\n"); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return ReadOrCreate(dir, name, generate)
		}
		return "", false, fmt.Errorf("create %s: %w", name, err)
	}
	return text, true, nil
}

// writeOnce creates a file atomically. It fails with fs.ErrExist if the file
// exists.
func writeOnce(path, text string) error {
	temp, err := writeTemp(path, text)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	return os.Link(temp, path)
}

// writeTemp writes a temporary file beside path and returns its name.
func writeTemp(path, text string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}

// Secrets are the values of ${NAME} in a file that is applied: the environment
// variable NAME, else a generated secret that Save stores in the data folder. It is
// safe for concurrent use.
type Secrets struct {
	dir       string
	mu        sync.Mutex
	generated map[string]string
}

// secretsFile has a line NAME=SECRET for each generated secret.
const secretsFile = "secrets.env"

// OpenSecrets reads the secrets that an earlier start generated. It does not create
// the folder.
func OpenSecrets(dir string) (*Secrets, error) {
	s := &Secrets{dir: dir, generated: map[string]string{}}
	f, err := os.Open(filepath.Join(dir, secretsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", secretsFile, err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			s.generated[name] = value
		}
	}
	return s, nil
}

// Lookup returns the value of a name; the second result is always true. It generates
// a secret for a name without a value. Call Save to store the generated secrets.
func (s *Secrets) Lookup(name string) (string, bool) {
	if v, ok := os.LookupEnv(name); ok && v != "" {
		return v, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.generated[name]; ok {
		return v, true
	}
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	s.generated[name] = hex.EncodeToString(raw)
	return s.generated[name], true
}

// Save stores the generated secrets in the data folder. It replaces the file atomically.
func (s *Secrets) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for name, value := range s.generated {
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	path := filepath.Join(s.dir, secretsFile)
	temp, err := writeTemp(path, b.String())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", secretsFile, err)
	}
	return nil
}
