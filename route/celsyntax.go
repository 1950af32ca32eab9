package route

import "strings"

// Messages of CEL's parser.
const (
	syntaxErrorPrefix = "Syntax error: "
	endOfExpression   = "'<EOF>'"
)

// describeSyntaxError replaces the message of a syntax error, since the messages of CEL's parser name
// its tokens. It returns any other message unchanged.
func describeSyntaxError(message string) string {
	text, isSyntax := strings.CutPrefix(message, syntaxErrorPrefix)
	if !isSyntax {
		return message
	}
	if input, ok := strings.CutPrefix(text, "token recognition error at: "); ok {
		return input + " cannot be read"
	}
	if input, ok := strings.CutPrefix(text, "no viable alternative at input "); ok {
		return input + " is not valid"
	}
	if rest, ok := strings.CutPrefix(text, "missing "); ok {
		missing, before, _ := strings.Cut(rest, " at ")
		if before == endOfExpression {
			return missing + " is missing at the end"
		}
		return missing + " is missing before " + before
	}
	for _, form := range []string{"mismatched input ", "extraneous input "} {
		if rest, ok := strings.CutPrefix(text, form); ok {
			return describeUnexpected(rest)
		}
	}
	return message
}

// describeUnexpected describes input that the parser reports as "'x' expecting {NUM_INT, STRING}". The
// input may contain the word expecting, too.
func describeUnexpected(text string) string {
	input := text
	if i := strings.LastIndex(text, " expecting "); i >= 0 {
		input = text[:i]
	}
	if input == endOfExpression {
		return "the expression ends too early"
	}
	return input + " is not expected here"
}
