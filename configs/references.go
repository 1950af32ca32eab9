package configs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

var variable = regexp.MustCompile(`\$\$|\$\{[^}]*\}`)

// filePrefix begins a secret that stands in a file of its own.
const filePrefix = "file:"

// references puts in what the texts of a file of tenants refer to: ${NAME} is
// a variable, anywhere; file:PATH is what a file holds, where a secret stands.
// It remembers what it has put in, so that no fault shows it.
type references struct {
	env     func(string) (string, bool)
	dir     string // that relative paths begin in
	faults  *eventhook.Faults
	used    []string        // a text and what stands for it, in turn
	literal map[string]bool // texts that name no file though they begin so
}

// replace puts the variables into all texts of a document.
func (r *references) replace(n *yaml.Node) {
	for _, child := range n.Content {
		r.replace(child)
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return
	}
	written := n.Value
	n.Value = variable.ReplaceAllStringFunc(written, func(match string) string {
		if match == "$$" {
			return "$"
		}
		value, wrong := r.lookup(match[2 : len(match)-1])
		if wrong != "" {
			r.faults.Add(fmt.Sprintf("line %d", n.Line), "%s", wrong)
			return match
		}
		r.hides(value, match)
		return value
	})
	if strings.HasPrefix(n.Value, filePrefix) && !strings.HasPrefix(written, filePrefix) {
		r.literal[n.Value] = true // a variable's text is never taken for a path
	}
}

func (r *references) lookup(name string) (value, wrong string) {
	value, ok := r.env(name)
	switch {
	case !ok || value == "":
		return "", fmt.Sprintf("the variable %s is not set", name)
	case !utf8.ValidString(value):
		return "", fmt.Sprintf("the variable %s is not UTF-8", name)
	}
	return value, ""
}

// secret is what a secret at a place stands for. Of a file, white space at its
// end does not count: editors and shells leave it there.
func (r *references) secret(at, text string) string {
	path, isFile := strings.CutPrefix(text, filePrefix)
	if !isFile || r.literal[text] {
		return text
	}
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(r.dir, path)
	}
	secret, wrong := readSecret(full)
	if wrong != "" {
		r.faults.Add(at, "the file %q %s", path, wrong)
		return text
	}
	r.hides(secret, text)
	return secret
}

func readSecret(path string) (secret, wrong string) {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return "", unreadable(err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	secret = strings.TrimRightFunc(string(raw), unicode.IsSpace)
	switch {
	case err != nil:
		return "", unreadable(err)
	case len(raw) > most:
		return "", fmt.Sprintf("holds more than %d bytes", most)
	case secret == "":
		return "", "is empty"
	case !utf8.ValidString(secret):
		return "", "holds no UTF-8"
	}
	return secret, ""
}

// unreadable says why without the path, which the system spells in full.
func unreadable(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Sprintf("cannot be read: %v", err)
}

func (r *references) hides(text, shown string) {
	quoted := strconv.Quote(text)
	r.used = append(r.used, text, shown, quoted[1:len(quoted)-1], shown)
}

// hide takes what was put in out of the faults: messages quote what they
// refuse, and it may be a secret at the wrong place.
func (r *references) hide() {
	hidden := strings.NewReplacer(r.used...)
	for i := range *r.faults {
		(*r.faults)[i].Message = hidden.Replace((*r.faults)[i].Message)
	}
}
