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

// keepText returns what a file of the data folder holds. If there is none, it
// makes it, readable by its owner only, with what fresh gives. Of two
// processes that make it at once, both get the first one's.
func ReadOrCreate(dir, name string, fresh func() string) (text string, made bool, err error) {
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(raw)), false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read %s: %w", name, err)
	}
	text = fresh()
	if err := writeOnce(path, text+"\n"); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return ReadOrCreate(dir, name, fresh)
		}
		return "", false, fmt.Errorf("make %s: %w", name, err)
	}
	return text, true, nil
}

// writeOnce makes a whole file or none; fs.ErrExist if there is one.
func writeOnce(path, text string) error {
	temp, err := writeTemp(path, text)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	return os.Link(temp, path)
}

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

// secrets are the texts that ${NAME} stands for in an applied file: from the
// environment, else from the data folder, where those nobody has are made.
type Secrets struct {
	dir  string
	mu   sync.Mutex
	kept map[string]string
}

const secretsFile = "secrets.env"

// openSecrets reads what was made before. Without a folder nothing is made.
func OpenSecrets(dir string) (*Secrets, error) {
	s := &Secrets{dir: dir, kept: map[string]string{}}
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
			s.kept[name] = value
		}
	}
	return s, nil
}

// lookup is the text of a name. It never fails, so that every reference of a
// file can be replaced; save keeps what it made.
func (s *Secrets) Lookup(name string) (string, bool) {
	if v, ok := os.LookupEnv(name); ok && v != "" {
		return v, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.kept[name]; ok {
		return v, true
	}
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	s.kept[name] = hex.EncodeToString(raw)
	return s.kept[name], true
}

func (s *Secrets) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for name, value := range s.kept {
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	path := filepath.Join(s.dir, secretsFile)
	temp, err := writeTemp(path, b.String())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", secretsFile, err)
	}
	return nil
}
