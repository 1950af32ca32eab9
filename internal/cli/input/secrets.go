package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// secretFlags say where secrets are. The plain one is for trying things out:
// shells remember what they ran, and every process of the machine may see it.
type Secrets struct {
	plain, names, files []string
}

const maxSecret = 64 << 10

func (f *Secrets) AddTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.names, "secret-env", nil, "environment variable that holds a secret; may be repeated")
	flags.StringArrayVar(&f.files, "secret-file", nil, "file that holds a secret, - for standard input; may be repeated")
	flags.StringArrayVar(&f.plain, "secret", nil, "a secret; may be repeated (your shell will remember it: prefer the others)")
}

// given reports whether any is.
func (f *Secrets) Given() bool { return len(f.plain)+len(f.names)+len(f.files) > 0 }

// read returns the secrets: of variables, of files, and plain ones. No error
// holds one.
func (f *Secrets) Read(stdin io.Reader) ([]string, error) {
	var secrets []string
	for _, name := range f.names {
		text := os.Getenv(name)
		if text == "" {
			return nil, fmt.Errorf("--secret-env: the variable %s is not set", name)
		}
		secrets = append(secrets, text)
	}
	for _, name := range f.files {
		text, err := readSecretFile(name, stdin)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, text)
	}
	for _, text := range f.plain {
		if text == "" {
			return nil, errors.New("--secret is empty")
		}
		secrets = append(secrets, text)
	}
	return secrets, nil
}

// readSecretFile reads a secret without the line end that editors leave.
func readSecretFile(name string, stdin io.Reader) (string, error) {
	raw, err := ReadFile(name, io.LimitReader(stdin, maxSecret))
	if err != nil {
		return "", fmt.Errorf("--secret-file: %w", err)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" {
		return "", fmt.Errorf("--secret-file: %s is empty", name)
	}
	return text, nil
}

// one is the secret where there can be only one.
func (f *Secrets) ReadOne(stdin io.Reader) (string, error) {
	texts, err := f.Read(stdin)
	switch {
	case err != nil:
		return "", err
	case len(texts) > 1:
		return "", errors.New("there can be one secret only; rotate-secret gives another")
	}
	return texts[0], nil
}

// again is the first of the flags as they were given, for another command. A
// plain secret is not repeated.
func (f *Secrets) Repeat() string {
	switch {
	case len(f.names) > 0:
		return " --secret-env " + f.names[0]
	case len(f.files) > 0:
		return " --secret-file " + f.files[0]
	case len(f.plain) > 0:
		return " --secret whsec_…"
	case os.Getenv(SecretVariable) != "":
		return " --secret-env " + SecretVariable
	}
	return ""
}
