// Package pattern compiles and matches regular expressions of tenants, in the syntax of package
// regexp.
//
// The size of a pattern is bounded twice: before it is compiled, by its length and a lower bound of
// its instructions, and afterwards by its actual instructions and memory. A match counts each
// instruction that is applied to a character with a meter, and stops when the meter stops. So the
// time of a match is bounded for every pattern and text.
//
// Package regexp cannot be used for this: a match cannot be interrupted and does not report its
// work, and compiling builds further programs. The matcher of this package reports only whether a
// text matches, so it needs neither captures nor an order of preference.
package pattern

import (
	"fmt"
	"regexp/syntax"
	"unsafe"
)

// Limits are the maximum sizes of a pattern.
type Limits struct {
	Bytes        int // length of the text
	Instructions int // number of instructions of the compiled program
	Memory       int // bytes of the compiled program
}

// DefaultLimits are the limits for patterns in filters, expressions and verifiers.
var DefaultLimits = Limits{Bytes: 1000, Instructions: 2000, Memory: 128 << 10}

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	text       string
	insts      []syntax.Inst
	start      uint32
	isAnchored bool   // it matches at the start of a text only
	hasContext bool   // it has an assertion about the position: ^, $, \b
	prefix     string // common prefix of all matches, for searching; may be empty
	isLiteral  bool   // the pattern is exactly its prefix
}

// SizeError reports that a pattern exceeds its limits.
type SizeError struct{ message string }

func (e *SizeError) Error() string { return e.message }

// Compile compiles a pattern. The error is a *syntax.Error or a *SizeError. Its text may be shown to
// the author of the pattern.
func Compile(text string, limits Limits) (*Pattern, error) {
	if len(text) > limits.Bytes {
		return nil, &SizeError{fmt.Sprintf("is longer than %d bytes", limits.Bytes)}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if minInstructions(parsed, limits.Instructions) > limits.Instructions {
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
	return &SizeError{fmt.Sprintf("is too large: at most %d instructions are allowed, with repetitions expanded", limits.Instructions)}
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

// minInstructions returns a lower bound of the number of instructions of a compiled regular
// expression, without compiling it. If the bound exceeds limit, the result may be any number above
// limit.
func minInstructions(re *syntax.Regexp, limit int) int {
	size := 0
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpEmptyMatch, syntax.OpConcat:
	default:
		size = 1
	}
	for _, sub := range re.Sub {
		if size += minInstructions(sub, limit); size > limit {
			return size
		}
	}
	if re.Op == syntax.OpRepeat { // the compiler copies the operand for each repetition
		operand, repetitions := size-1, max(re.Min, re.Max, 1)
		size = operand * repetitions
	}
	return size
}

// String returns the source of the pattern.
func (p *Pattern) String() string { return p.text }

// Instructions returns the number of instructions of the program.
func (p *Pattern) Instructions() int { return len(p.insts) }

// Memory returns the size of the program in bytes. Copies of an instruction for repetitions share one
// character class.
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
