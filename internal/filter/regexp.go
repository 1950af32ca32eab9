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

// Bounds of regular expressions, beside those of pattern.DefaultLimits.
const (
	mostRegexps      = 20 // in one filter
	mostSearched     = 64 << 10
	mostRegexpMemory = 1 << 20 // of all in one filter, compiled
)

// compileRegexp compiles a regular expression, or says what is wrong with it.
func compileRegexp(s string) (*pattern.Pattern, string) {
	p, err := pattern.Compile(s, pattern.DefaultLimits)
	if err != nil {
		return nil, whyNoRegexp(s, err)
	}
	return p, ""
}

// whyNoRegexp says what is wrong with a regular expression, and where.
func whyNoRegexp(s string, err error) string {
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

// bare matches what a parenthesis in it means nothing in: an escaped
// character, and a class.
var bare = regexp.MustCompile(`(?s)\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]`)

// unbalanced is where the parenthesis stands that has no other, -1 if there is
// none.
func unbalanced(s string) int {
	s = bare.ReplaceAllStringFunc(s, func(part string) string { return strings.Repeat(" ", len(part)) })
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
