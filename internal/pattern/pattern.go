// Package pattern compiles and matches regular expressions that tenants write,
// in the syntax of package regexp.
//
// A pattern is bounded before it is compiled, by its length and by the number
// of instructions that it would compile to, and afterwards by the instructions
// that it has. Matching counts each instruction that is applied to a character
// against a meter and stops when the meter does, so its time is known whatever
// the pattern and the text are.
//
// Package regexp offers neither: it does not say how many threads a match runs,
// cannot be interrupted within a text, and builds further programs of its own
// when it compiles one. Only whether a text matches is asked here, so that the
// matcher needs no captures and no order of preference.
package pattern

import (
	"fmt"
	"regexp/syntax"
	"unsafe"
)

// Limits bound a pattern.
type Limits struct {
	Bytes        int // of its text
	Instructions int // of its program
	Memory       int // bytes that its program holds
}

// DefaultLimits are the limits for patterns in filters, expressions and verifiers.
var DefaultLimits = Limits{Bytes: 1000, Instructions: 2000, Memory: 128 << 10}

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	text       string
	insts      []syntax.Inst
	start      uint32
	isAnchored bool   // it matches at the start of a text only
	hasContext bool   // it asks where in the text it is: ^, $, \b
	prefix     string // of all matches, where that can be searched for
	isLiteral  bool   // the prefix is all of it
}

// SizeError reports that a pattern exceeds its limits.
type SizeError struct{ message string }

func (e *SizeError) Error() string { return e.message }

// Compile compiles a pattern. The error is a *syntax.Error or a *SizeError; its
// text may be shown to the author of the pattern.
func Compile(text string, limits Limits) (*Pattern, error) {
	if len(text) > limits.Bytes {
		return nil, &SizeError{fmt.Sprintf("is longer than %d bytes", limits.Bytes)}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if leastSize(parsed, limits.Instructions) > limits.Instructions {
		return nil, tooLarge(limits)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > limits.Instructions {
		return nil, tooLarge(limits)
	}
	p := newPattern(text, program)
	if n := p.Memory(); n > limits.Memory {
		return nil, &SizeError{fmt.Sprintf("compiles to %d bytes, at most %d are allowed", n, limits.Memory)}
	}
	return p, nil
}

func tooLarge(limits Limits) error {
	return &SizeError{fmt.Sprintf("is too large when its repetitions are counted out: at most %d instructions are allowed", limits.Instructions)}
}

func newPattern(text string, program *syntax.Prog) *Pattern {
	p := &Pattern{text: text, insts: program.Inst, start: uint32(program.Start)}
	p.isAnchored = program.StartCond()&syntax.EmptyBeginText != 0
	for i := range p.insts {
		p.hasContext = p.hasContext || p.insts[i].Op == syntax.InstEmptyWidth
	}
	if prefix, isAll := program.Prefix(); !p.isAnchored {
		p.prefix, p.isLiteral = prefix, isAll && !p.hasContext
	}
	return p
}

// leastSize is at most the number of instructions that a regular expression
// compiles to, and is found without compiling it. Beyond most it may be any
// number that is larger.
func leastSize(re *syntax.Regexp, most int) int {
	size := 0
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpEmptyMatch, syntax.OpConcat:
	default:
		size = 1
	}
	for _, sub := range re.Sub {
		if size += leastSize(sub, most); size > most {
			return size
		}
	}
	if re.Op == syntax.OpRepeat {
		size = (size - 1) * max(re.Min, re.Max, 1)
	}
	return size
}

// String returns the source of the pattern.
func (p *Pattern) String() string { return p.text }

// Instructions is the size of the program.
func (p *Pattern) Instructions() int { return len(p.insts) }

// Memory is how many bytes the program holds. Instructions of one repetition
// share their character class.
func (p *Pattern) Memory() int {
	bytes := len(p.text) + len(p.insts)*int(unsafe.Sizeof(syntax.Inst{}))
	seen := map[*rune]bool{}
	for i := range p.insts {
		if runes := p.insts[i].Rune; len(runes) > 0 && !seen[&runes[0]] {
			seen[&runes[0]] = true
			bytes += cap(runes) * int(unsafe.Sizeof(rune(0)))
		}
	}
	return bytes
}
