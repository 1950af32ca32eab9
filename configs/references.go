package configs

import (
	"context"
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
	"github.com/eventhook/eventhook/route"
)

// variable matches $$, a reference, and the beginning of a reference that is not closed.
var variable = regexp.MustCompile(`\$\$|\$\{[^}]*\}?`)

// filePrefix starts a secret that is stored in a file.
const filePrefix = "file:"

// references replaces the references in a file of tenants: ${NAME} in any text by a
// variable, and file:PATH in a secret by the content of a file. It records the
// replaced values, so that hide can remove them from faults.
type references struct {
	env     func(string) (string, bool) // nil: nothing is resolved, and a secret that is a reference is a fault
	dir     string                      // base of relative paths
	faults  *eventhook.Faults
	used    []string        // pairs for strings.NewReplacer: a value and its reference
	literal map[string]bool // texts with filePrefix that came from variables and are not paths
	check   CheckRoute
	err     error // the first error of check
}

// CheckRoute returns all faults of a route's filters and transform, as route.Check does. A transform
// and a filter of a subscription have the same syntax, and are checked as those of a route.
type CheckRoute func(eventhook.Route) (eventhook.Faults, error)

// checkHere checks a route in a process that does nothing else.
func checkHere(r eventhook.Route) (eventhook.Faults, error) {
	return route.Check(context.Background(), eventhook.TenantID{}, r)
}

// conditions adds the faults of a route's filters and transform. After an error it checks none.
func (r *references) conditions(at string, of eventhook.Route) {
	if r.err != nil || of.Filter == nil && of.FilterExpression == "" && of.FilterFunction == "" && of.Transform == nil {
		return
	}
	faults, err := r.check(of)
	r.faults.Merge(at, faults)
	r.err = err
}

// replace replaces the variables in all texts of a document.
func (r *references) replace(n *yaml.Node) {
	if r.env == nil {
		return
	}
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
		name, isClosed := strings.CutSuffix(match[2:], "}")
		if !isClosed {
			r.faults.Add(fmt.Sprintf("line %d", n.Line), "the reference %s has no closing brace; write $$ for a single $", nameOf(match))
			return match
		}
		value, wrong := r.lookup(name)
		if wrong != "" {
			r.faults.Add(fmt.Sprintf("line %d", n.Line), "%s", wrong)
			return match
		}
		r.record(value, match)
		return value
	})
	if strings.HasPrefix(n.Value, filePrefix) && !strings.HasPrefix(written, filePrefix) {
		r.literal[n.Value] = true // the value of a variable is never a path
	}
}

// nameOf returns the beginning of an unclosed reference: a secret may follow it.
func nameOf(match string) string {
	name := match[2:]
	if end := strings.IndexFunc(name, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }); end >= 0 {
		name = name[:end] + "…"
	}
	return "${" + name
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

// secret returns the secret that the text at a path refers to. White space at the
// end of a file is removed, because editors and shells add it.
func (r *references) secret(at, text string) string {
	if r.env == nil {
		if secretReference.MatchString(text) {
			r.faults.Add(at, "is a reference, which only the client resolves (eventhook apply): send the secret itself")
		}
		return text
	}
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
	r.record(secret, text)
	return secret
}

func readSecret(path string) (secret, wrong string) {
	const maxBytes = 64 << 10
	raw, wrong := readAtMost(path, maxBytes)
	secret = strings.TrimRightFunc(string(raw), unicode.IsSpace)
	switch {
	case wrong != "":
		return "", wrong
	case secret == "":
		return "", "is empty"
	case !utf8.ValidString(secret):
		return "", "is not UTF-8"
	}
	return secret, ""
}

// readAtMost reads a file, which may be a pipe, of at most maxBytes. If it cannot, wrong is
// the reason.
func readAtMost(path string, maxBytes int64) (raw []byte, wrong string) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }()
	raw, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case int64(len(raw)) > maxBytes:
		return nil, fmt.Sprintf("has more than %d bytes", maxBytes)
	}
	return raw, ""
}

// unreadable returns the cause of a file error without the full path.
func unreadable(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Sprintf("cannot be read: %v", err)
}

func (r *references) record(text, shown string) {
	quoted := strconv.Quote(text)
	r.used = append(r.used, text, shown, quoted[1:len(quoted)-1], shown)
}

// hide replaces the recorded values in the faults by their references: a fault may
// quote a value, which may be a secret in the wrong field.
func (r *references) hide() {
	hidden := strings.NewReplacer(r.used...)
	for i := range *r.faults {
		(*r.faults)[i].Message = hidden.Replace((*r.faults)[i].Message)
	}
}
