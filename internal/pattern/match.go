package pattern

import (
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/eventhook/eventhook/internal/meter"
)

// machine executes a program as a set of threads, one character at a time, as described in
// https://swtch.com/~rsc/regexp/regexp2.html. A thread is the index of an instruction that reads the
// next character.
type machine struct {
	insts        []syntax.Inst
	now, next    []uint32 // threads at this position and at the next one
	reached      []uint32 // by instruction: the round in which it was added last
	round        uint32   // incremented for each position of each text
	before, here rune     // the characters before and after the position
	work         int      // instructions that were followed since the last Use of the meter
}

var machines = sync.Pool{New: func() any { return &machine{} }}

// Match reports whether a text has a match. It uses a step for each instruction that is applied to a
// character. If the meter stops, Match returns false, and the caller must check the meter.
func (p *Pattern) Match(m *meter.Meter, text string) bool {
	if p.isLiteral {
		return m.UseBytes(len(text)) == nil && strings.Contains(text, p.prefix)
	}
	v, _ := machines.Get().(*machine)
	v.begin(p.insts)
	matched := v.match(p, m, text)
	_ = m.Use(v.work)
	v.insts = nil
	machines.Put(v)
	return matched
}

func (v *machine) begin(insts []syntax.Inst) {
	if n := len(insts); len(v.reached) < n {
		*v = machine{reached: make([]uint32, n), now: make([]uint32, 0, n), next: make([]uint32, 0, n)}
	}
	v.insts, v.work = insts, 0
	v.advance()
}

// advance begins a round for the next position, with no threads.
func (v *machine) advance() {
	v.next = v.next[:0]
	if v.round++; v.round == 0 { // overflow: old values of reached would be mistaken for new ones
		clear(v.reached)
		v.round = 1
	}
}

// none stands for the missing character before and after the text.
const none rune = -1

// useInterval is the number of steps between two calls of the meter.
const useInterval = 500

// match executes the program. Each iteration of its loop is one position in the text; v.next holds the
// threads that have read the character before the position.
func (v *machine) match(p *Pattern, m *meter.Meter, text string) bool {
	at := 0
	v.before = none
	here, width := runeAt(text, 0)
	v.here = here
	for {
		if !p.isAnchored || at == 0 {
			if len(v.next) == 0 && p.prefix != "" { // no match begins before the next prefix
				i := strings.Index(text[at:], p.prefix)
				if m.UseBytes(max(i, 0)) != nil || i < 0 {
					return false
				}
				if i > 0 {
					at += i
					v.before, _ = utf8.DecodeLastRuneInString(text[:at])
					v.here, width = runeAt(text, at)
				}
			}
			if v.add(p.start) {
				return true
			}
		}
		v.now, v.next = v.next, v.now
		if v.work += len(v.now); v.work > useInterval {
			if m.Use(v.work) != nil {
				return false
			}
			v.work = 0
		}
		if v.here == none || len(v.now) == 0 && p.isAnchored {
			return false
		}
		at += width
		v.before = v.here
		v.here, width = runeAt(text, at)
		if v.step() {
			return true
		}
	}
}

func runeAt(text string, at int) (r rune, width int) {
	if at >= len(text) {
		return none, 0
	}
	if c := text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(text[at:])
}

// step lets every thread read the character before the position, and reports whether a thread has
// reached a match.
func (v *machine) step() (matched bool) {
	v.advance()
	for _, at := range v.now {
		if inst := &v.insts[at]; reads(inst, v.before) && v.add(inst.Out) {
			return true
		}
	}
	return false
}

// reads reports whether an instruction reads a character.
func reads(inst *syntax.Inst, r rune) bool {
	switch inst.Op { //nolint:exhaustive // InstRune follows; no other instruction reads a character
	case syntax.InstRune1:
		return r == inst.Rune[0]
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	}
	return inst.MatchRunePos(r) >= 0
}

// add adds the threads that follow from an instruction without reading a character, and reports
// whether a match follows.
func (v *machine) add(at uint32) (matched bool) {
	for v.reached[at] != v.round {
		v.reached[at] = v.round
		v.work++
		inst := &v.insts[at]
		switch inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			if v.add(inst.Out) {
				return true
			}
			at = inst.Arg
		case syntax.InstCapture, syntax.InstNop:
			at = inst.Out
		case syntax.InstEmptyWidth:
			if !inst.MatchEmptyWidth(v.before, v.here) {
				return false
			}
			at = inst.Out
		case syntax.InstFail:
			return false
		default:
			v.next = append(v.next, at)
			return false
		}
	}
	return false
}
