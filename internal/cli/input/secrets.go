package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Secrets are the flags --secret-env, --secret-file and --secret. A value of
// --secret is visible in the history of the shell and to every process of the
// host, so it is meant for experiments only.
type Secrets struct {
	plain, names, files []string
}

// maxSecret is the maximum size of a secret on standard input, in bytes.
const maxSecret = 64 << 10

// AddTo defines the flags.
func (f *Secrets) AddTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.names, "secret-env", nil, "environment variable that holds a secret; may be repeated")
	flags.StringArrayVar(&f.files, "secret-file", nil, "file that holds a secret, - for standard input; may be repeated")
	flags.StringArrayVar(&f.plain, "secret", nil, "a secret; may be repeated (the history of your shell will contain it: prefer the other flags)")
}

// Given reports whether one of the flags was given.
func (f *Secrets) Given() bool { return len(f.plain)+len(f.names)+len(f.files) > 0 }

// Read returns the secrets in the order --secret-env, --secret-file, --secret. Its
// errors do not contain a secret.
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

// readSecretFile reads a secret and removes line ends at its end, which editors add.
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

// ReadOne returns the secret if exactly one is given. Call it if Given is true.
func (f *Secrets) ReadOne(stdin io.Reader) (string, error) {
	texts, err := f.Read(stdin)
	switch {
	case err != nil:
		return "", err
	case len(texts) > 1:
		return "", errors.New("only one secret is possible; rotate-secret replaces it")
	}
	return texts[0], nil
}

// Example returns a flag for the same secret in another command line, "" without a
// secret. It never contains the secret.
func (f *Secrets) Example() string {
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
