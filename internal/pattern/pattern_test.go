package pattern_test

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

var typicalCases = []struct{ name, pattern, text string }{
	{"prefix", `^pi_`, "pi_3MtwBwLkdIwHu7ix28a3tqPa"},
	{"anchored", `^[a-z]+_[A-Za-z0-9]{8,40}$`, "cus_NffrFeUfNV2Hib"},
	{"suffix", `@example\.com$`, "jane.doe@example.com"},
	{"no match", `@example\.com$`, "jane.doe@example.org"},
	{"words", `(?i)\b(refund|dispute|chargeback)\b`, "The customer asks for a Refund of the last invoice."},
	{"alternatives", `^(invoice|charge|customer)\.(created|updated)$`, "customer.updated"},
	{"literal", `refund`, "The customer asks for a refund of the last invoice."},
	{"class", `[0-9]{4}-[0-9]{2}`, "on 2026-03-01T12:00:00Z"},
}

func BenchmarkMatch(b *testing.B) {
	for _, c := range typicalCases {
		re := regexp.MustCompile(c.pattern)
		p, err := pattern.Compile(c.pattern, pattern.DefaultLimits)
		if err != nil {
			b.Fatal(err)
		}
		m := meter.New(b.Context(), 1<<60, nil)
		b.Run(c.name+"/pattern", func(b *testing.B) {
			b.ReportAllocs()
			before := m.Steps()
			for b.Loop() {
				p.Match(m, c.text)
			}
			b.ReportMetric(float64(m.Steps()-before)/float64(b.N), "steps/op")
		})
		b.Run(c.name+"/regexp", func(b *testing.B) {
			for b.Loop() {
				re.MatchString(c.text)
			}
		})
	}
}

var worstCases = []struct{ name, pattern, text string }{
	{"letters", `\pL{0,478}!`, strings.Repeat("a", 65536)},
	{"ideographs", `\pL{0,478}!`, strings.Repeat("中", 20000)},
	{"folded", `(?i)(k{0,400})!`, strings.Repeat("K", 20000)},
	{"bounds", `(\b\w*\b){0,200}!`, strings.Repeat("ab ", 10000)},
	{"empty", `(|a){0,300}!`, strings.Repeat("a", 20000)},
	{"few", `(a|b)*c`, strings.Repeat("a", 65536)},
	{"dots", `(.*.*.*.*x)`, strings.Repeat("a", 65536)},
	{"nowhere", `[^a]b`, strings.Repeat("a", 65536)},
	{"prefixes", `ab{0,300}!`, strings.Repeat("a", 65536)},
}

// BenchmarkSteps measures the duration of a step.
func BenchmarkSteps(b *testing.B) {
	for _, c := range worstCases {
		b.Run(c.name, func(b *testing.B) {
			p, err := pattern.Compile(c.pattern, pattern.DefaultLimits)
			if err != nil {
				b.Fatal(err)
			}
			m := meter.New(b.Context(), 1<<60, nil)
			for b.Loop() {
				p.Match(m, c.text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(m.Steps()), "ns/step")
			b.ReportMetric(float64(m.Steps())/float64(b.N)/float64(len(c.text)), "steps/byte")
		})
	}
}

// Attack 1 of filters: 20 of these patterns took 20 CPU seconds for 65 536 characters.
func TestAMatchStopsAtItsLimit(t *testing.T) {
	for _, c := range worstCases {
		p, err := pattern.Compile(c.pattern, pattern.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		const limit = 200_000
		m := meter.New(t.Context(), limit, nil)
		if p.Match(m, c.text) {
			t.Errorf("%s: got a match, want none", c.name)
		}
		if slack := 500 + 2*p.Instructions(); m.Steps() > limit || m.Err() != nil && m.Steps() < limit-slack {
			t.Errorf("%s: got %d steps (%v), want nearly %d", c.name, m.Steps(), m.Err(), limit)
		}
	}
	p, _ := pattern.Compile(worstCases[0].pattern, pattern.DefaultLimits)
	m := meter.New(t.Context(), meter.EventLimit, nil)
	for range 20 {
		p.Match(m, worstCases[0].text)
	}
	if !errors.Is(m.Err(), meter.ErrLimit) || m.Steps() > meter.EventLimit {
		t.Errorf("20 matches: got %v after %d steps, want ErrLimit within %d", m.Err(), m.Steps(), meter.EventLimit)
	}
}

// ending is a share that cancels a context when its second slice is taken.
type ending struct {
	end   func()
	taken int
}

func (e *ending) Take(int) bool {
	if e.taken++; e.taken == 2 {
		e.end()
	}
	return true
}

func TestAContextEndsAMatchWhileItRuns(t *testing.T) {
	p, _ := pattern.Compile(worstCases[0].pattern, pattern.DefaultLimits)
	ctx, cancel := context.WithCancel(t.Context())
	m := meter.New(ctx, meter.EventLimit, &ending{end: cancel})
	p.Match(m, worstCases[0].text)
	if !errors.Is(m.Err(), context.Canceled) || m.Steps() > 2*meter.Slice {
		t.Errorf("got %v after %d steps, want the context's error within two slices", m.Err(), m.Steps())
	}
}

func TestPatternsAreBounded(t *testing.T) {
	for claim, text := range map[string]string{
		"a long pattern":     strings.Repeat("a", 1001),
		"a repetition":       `(abcdefghij){500}`,
		"nested repetitions": `((ab{0,30}){0,30})`,
		"many large classes": strings.Repeat(`\pL`, 300),
		"many alternatives":  strings.Repeat(`(\pL|\W){9}`, 90),
		"attack 3, a part":   `\pL{0,999}!\pL{0,999}!`,
		"attack 3, whole":    strings.Repeat(`\pL{0,999}!`, 1600),
		"empty repeats":      `(){1000}(){1000}(){1000}`,
	} {
		p, err := pattern.Compile(text, pattern.Limits{Bytes: 1000, Instructions: 1500, Memory: 128 << 10})
		if _, ok := errors.AsType[*pattern.SizeError](err); !ok {
			t.Errorf("%s: got %v (%v), want a SizeError", claim, err, p)
		}
	}
	if _, err := pattern.Compile(`(a`, pattern.DefaultLimits); err == nil {
		t.Error("an unbalanced parenthesis: got no error, want one")
	}
}

// The memory of compiling is bounded, even if the pattern is refused.
func TestCompilingTakesBoundedMemory(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(`\pL`, 333), strings.Repeat(`\pL{0,999}!`, 90), `\pL{0,999}`, strings.Repeat(`(?i)[a-\x{ffff}]`, 58),
		"(" + strings.Repeat(`\PL|`, 240) + ")",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = pattern.Compile(text, pattern.DefaultLimits)
		runtime.ReadMemStats(&after)
		const maxAlloc = 16 << 20
		if got := after.TotalAlloc - before.TotalAlloc; got > maxAlloc {
			t.Errorf("%.20s: got %d bytes, want at most %d", text, got, maxAlloc)
		}
	}
}

// FuzzMatch compares results with package regexp and checks the number of steps.
func FuzzMatch(f *testing.F) {
	for _, c := range typicalCases {
		f.Add(c.pattern, c.text)
	}
	for _, c := range worstCases {
		f.Add(c.pattern, c.text[:min(len(c.text), 300)])
	}
	for _, expression := range []string{`^$`, `$`, `a$`, `(?m)^a$`, `\Aa\z`, `\bé\b`, `\Ba`, `x*`, `(?s).`, `.`, `(?i)straße`, `(?i)k`, `[^a]`, ``, `a|^b`, `(^a|b)c`, `(|a)+$`, `ab(c|$)`, `\pL{2,3}$`, `a\b`} {
		for _, text := range []string{"", "a", "b\na\nb", "ab", "abc", "éa é", "K", "\u212a", "STRASSE", "\xff", "a\xffb", "xab\n", "bc", "cbc"} {
			f.Add(expression, text)
		}
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		p, err := pattern.Compile(expression, pattern.DefaultLimits)
		if err != nil {
			if _, tooLarge := errors.AsType[*pattern.SizeError](err); !tooLarge && utf8.ValidString(expression) {
				if _, err := regexp.Compile(expression); err == nil {
					t.Errorf("%q: got an error, want none: package regexp accepts it", expression)
				}
			}
			return
		}
		m := meter.New(t.Context(), meter.EventLimit, nil)
		got := p.Match(m, text)
		if m.Steps() > meter.EventLimit || m.Steps() > (len(text)+1)*2*p.Instructions()+len(text) {
			t.Errorf("%q against %d bytes: got %d steps of %d instructions", expression, len(text), m.Steps(), p.Instructions())
		}
		t.Logf("%d steps for each byte", m.Steps()/(len(text)+1))
		if m.Err() != nil || m.Steps() > 1_000_000 {
			return // package regexp would take long
		}
		if want := regexp.MustCompile(expression).MatchString(text); got != want {
			t.Errorf("%q against %q: got %t, want %t", expression, text, got, want)
		}
	})
}
