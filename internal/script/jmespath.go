package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jmespath-community/go-jmespath"
	"github.com/jmespath-community/go-jmespath/pkg/functions"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"

	"github.com/eventhook/eventhook"
)

// maxExpressions limits the compiled expressions that a child caches.
const maxExpressions = 256

// expressions caches compiled JMESPath expressions.
type expressions struct {
	compiled map[string]expression
}

func newExpressions() *expressions {
	return &expressions{compiled: map[string]expression{}}
}

func (x *expressions) do(j job) ([]byte, *Error) {
	program, fault := x.compile(j.Source)
	if fault != nil || j.check {
		return nil, fault
	}
	value, err := decode(j.input)
	if err != nil {
		return nil, &Error{Reason: Failed, Message: "the event is not valid JSON"}
	}
	result, err := program.search(value)
	if err != nil {
		return nil, &Error{Reason: Failed, Message: textOf(err)}
	}
	return encode(result)
}

// encode returns the JSON of a result.
func encode(result any) ([]byte, *Error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		return nil, &Error{Reason: Failed, Message: "its result is not JSON"}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (x *expressions) compile(source string) (expression, *Error) {
	if program, ok := x.compiled[source]; ok {
		return program, nil
	}
	program, err := compileJMESPath(source)
	if err != nil {
		fault := &Error{Reason: Broken, Message: textOf(err)}
		if at, ok := errors.AsType[jmespath.SyntaxError](err); ok {
			fault.Line, fault.Column = placeAt(source, at.Offset)
		}
		if f, ok := errors.AsType[unknownFunctionError](err); ok {
			fault.Line, fault.Column = f.placeIn(source)
		}
		return expression{}, fault
	}
	if len(x.compiled) >= maxExpressions {
		clear(x.compiled)
	}
	x.compiled[source] = program
	return program, nil
}

// functionNames holds the known functions. The library reports an unknown function only when it is
// called.
var functionNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, f := range functions.GetDefaultFunctions() {
		names[f.Name] = true
	}
	return names
})

func compileJMESPath(source string) (expression, error) {
	tree, err := parsing.NewParser().Parse(source)
	if err != nil {
		return expression{}, err
	}
	if err := checkFunctions(tree); err != nil {
		return expression{}, err
	}
	return expression{ordered(tree)}, nil
}

func checkFunctions(node parsing.ASTNode) error {
	if node.NodeType == parsing.ASTFunctionExpression {
		if name := fmt.Sprint(node.Value); !functionNames()[name] {
			return unknownFunctionError(name)
		}
	}
	for _, child := range node.Children {
		if err := checkFunctions(child); err != nil {
			return err
		}
	}
	return nil
}

// unknownFunctionError reports a call of an unknown function, whose name it is.
type unknownFunctionError string

func (f unknownFunctionError) Error() string { return "unknown function " + string(f) }

// quoted matches quoted identifiers, strings and literals.
var quoted = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\"|`(?:[^`\\\\]|\\\\.)*`")

// placeIn returns the position of the function's first call. It searches the source, since the parser
// keeps no positions.
func (f unknownFunctionError) placeIn(source string) (line, column int) {
	bare := quoted.ReplaceAllStringFunc(source, func(s string) string { return strings.Repeat(" ", len(s)) })
	at := regexp.MustCompile(`\b` + regexp.QuoteMeta(string(f)) + `\s*\(`).FindStringIndex(bare)
	if at == nil {
		return 0, 0
	}
	return placeAt(source, at[0])
}

// parserTerms matches texts of the parser that name its tokens, and its texts of an expression that
// ends too early.
var parserTerms = regexp.MustCompile(`TOK|tQuoted|tColon|lbracket|Incomplete expression`)

// textOf returns the text of an error without the parser's terms and Go type names.
func textOf(err error) string {
	const maxText = 500
	text := err.Error()
	if at, ok := errors.AsType[jmespath.SyntaxError](err); ok && parserTerms.MatchString(text) {
		if at.Offset >= len(strings.TrimRight(at.Expression, " \t\r\n")) {
			return "the expression ends too early"
		}
		return "the expression is not valid at this position"
	}
	if before, types, ok := strings.Cut(text, "[]functions.JpType{"); ok {
		text = before + strings.TrimSuffix(types, "}")
	}
	return eventhook.Truncate(eventhook.SanitizeText(text), maxText)
}

// placeAt converts a byte offset to a line and a column in characters.
func placeAt(text string, offset int) (line, column int) {
	before := text[:min(max(offset, 0), len(text))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// decode decodes JSON for JMESPath, which calculates in float64. A number that float64 cannot
// represent stays a json.Number, which can be passed on but not compared.
func decode(input []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return withNumbers(value), nil
}

func withNumbers(value any) any {
	switch x := value.(type) {
	case map[string]any:
		for name, member := range x {
			x[name] = withNumbers(member)
		}
	case []any:
		for i, element := range x {
			x[i] = withNumbers(element)
		}
	case json.Number:
		if f, ok := exactly(string(x)); ok {
			return f
		}
	}
	return value
}

// exactly converts a number to float64 and reports whether formatting it yields the same digits.
// This always holds for up to 15 digits.
func exactly(number string) (float64, bool) {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	digits := strings.Trim(strings.ReplaceAll(strings.TrimPrefix(mantissa, "-"), ".", ""), "0")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || (f == 0 && digits != "") {
		return 0, false
	}
	return f, len(digits) <= 15
}
