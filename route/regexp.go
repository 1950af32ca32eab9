package route

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Bounds of regular expressions. They take time and memory by the size of what
// they compile to, and (a{1000}){1000} is not long.
const (
	mostRegexpBytes = 1000
	mostRegexpSize  = 1000 // instructions
	mostRegexps     = 20   // in one filter
	mostSearched    = 64 << 10
)

// compileRegexp compiles a regular expression, or says what is wrong with it.
func compileRegexp(s string) (*regexp.Regexp, string) {
	if len(s) > mostRegexpBytes {
		return nil, fmt.Sprintf("is longer than %d bytes", mostRegexpBytes)
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err.Error()
	}
	if regexpSize(parsed) > mostRegexpSize {
		return nil, "is too large when its repetitions are counted out"
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err.Error()
	}
	return re, ""
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
	return min(size, mostRegexpSize+1)
}
