package filter

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/eventhook/eventhook/internal/pattern"
)

// Limits of regular expressions, in addition to pattern.DefaultLimits.
const (
	maxRegexps       = 20       // regular expressions in one filter
	maxSearchedBytes = 64 << 10 // length of a string that is searched; longer strings do not match
	maxRegexpMemory  = 1 << 20  // compiled size of all regular expressions in one filter, in bytes
)

// compileRegexp compiles a regular expression, or describes its fault.
func compileRegexp(s string) (*pattern.Pattern, string) {
	p, err := pattern.Compile(s, pattern.DefaultLimits)
	if err != nil {
		return nil, describeSyntaxError(s, err)
	}
	return p, ""
}

// describeSyntaxError describes the fault of a regular expression and its position.
func describeSyntaxError(s string, err error) string {
	wrong, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return err.Error()
	}
	at := strings.Index(s, wrong.Expr)
	if wrong.Code == syntax.ErrMissingParen || wrong.Code == syntax.ErrUnexpectedParen {
		at = unbalanced(s)
	}
	text := fmt.Sprintf("%s: `%s`", wrong.Code, wrong.Expr)
	if at < 0 {
		return text
	}
	return fmt.Sprintf("at character %d: %s", utf8.RuneCountInString(s[:at])+1, text)
}

// literals matches the parts of a regular expression in which a parenthesis has no special meaning:
// escaped characters and character classes.
var literals = regexp.MustCompile(`(?s)\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]`)

// unbalanced returns the position of the parenthesis without a counterpart, -1 if there is none.
func unbalanced(s string) int {
	s = literals.ReplaceAllStringFunc(s, func(part string) string { return strings.Repeat(" ", len(part)) })
	var open []int
	for i, c := range s {
		switch {
		case c == '(':
			open = append(open, i)
		case c == ')' && len(open) == 0:
			return i
		case c == ')':
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[len(open)-1]
}
