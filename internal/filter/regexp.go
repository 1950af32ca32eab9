package filter

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// MostRegexpSize bounds regular expressions, in instructions: they take time and
// memory by the size of what they compile to, and (a{1000}){1000} is not long.
const MostRegexpSize = 1000

// Other bounds of regular expressions.
const (
	mostRegexpBytes = 1000
	mostRegexps     = 20 // in one filter
	mostSearched    = 64 << 10
)

// compileRegexp compiles a regular expression, or says what is wrong with it.
func compileRegexp(s string) (*regexp.Regexp, string) {
	if len(s) > mostRegexpBytes {
		return nil, fmt.Sprintf("is longer than %d bytes", mostRegexpBytes)
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, whyNoRegexp(s, err)
	}
	if regexpSize(parsed) > MostRegexpSize {
		return nil, "is too large when its repetitions are counted out"
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err.Error()
	}
	return re, ""
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

// regexpSize is about how many instructions a regular expression compiles to;
// whatever is beyond the bound is the same.
func regexpSize(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += regexpSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, MostRegexpSize+1)
}
