package main

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
type secretFlags struct {
	plain, names, files []string
}

const mostSecret = 64 << 10

func (f *secretFlags) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.names, "secret-env", nil, "environment variable that holds a secret; may be repeated")
	flags.StringArrayVar(&f.files, "secret-file", nil, "file that holds a secret, - for standard input; may be repeated")
	flags.StringArrayVar(&f.plain, "secret", nil, "a secret; may be repeated (your shell will remember it: prefer the others)")
}

// given reports whether any is.
func (f *secretFlags) given() bool { return len(f.plain)+len(f.names)+len(f.files) > 0 }

// read returns the secrets: of variables, of files, and plain ones. No error
// holds one.
func (f *secretFlags) read(stdin io.Reader) ([]string, error) {
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
	raw, err := readFileOrStdin(name, io.LimitReader(stdin, mostSecret))
	if err != nil {
		return "", fmt.Errorf("--secret-file: %w", err)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" {
		return "", fmt.Errorf("--secret-file: %s is empty", name)
	}
	return text, nil
}
