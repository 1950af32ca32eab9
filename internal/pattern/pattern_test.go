package pattern_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

var usualCases = []struct{ name, pattern, text string }{
	{"prefix", `^pi_`, "pi_3MtwBwLkdIwHu7ix28a3tqPa"},
	{"anchored", `^[a-z]+_[A-Za-z0-9]{8,40}$`, "cus_NffrFeUfNV2Hib"},
	{"suffix", `@example\.com$`, "somebody.else@example.com"},
	{"none", `@example\.com$`, "somebody.else@elsewhere.org"},
	{"words", `(?i)\b(refund|dispute|chargeback)\b`, "The customer asks for a Refund of the last invoice."},
	{"alternatives", `^(invoice|charge|customer)\.(created|updated)$`, "customer.updated"},
	{"literal", `refund`, "The customer asks for a refund of the last invoice."},
	{"class", `[0-9]{4}-[0-9]{2}`, "on 2026-03-01T12:00:00Z"},
}

func BenchmarkMatch(b *testing.B) {
	for _, c := range usualCases {
		re := regexp.MustCompile(c.pattern)
		p, err := pattern.Compile(c.pattern, pattern.Usual)
		if err != nil {
			b.Fatal(err)
		}
		m := meter.New(b.Context(), 1<<60, nil)
		b.Run(c.name+"/ours", func(b *testing.B) {
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

// BenchmarkSteps tells how long a step takes.
func BenchmarkSteps(b *testing.B) {
	for _, c := range worstCases {
		b.Run(c.name, func(b *testing.B) {
			p, err := pattern.Compile(c.pattern, pattern.Usual)
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

func TestX(t *testing.T) { fmt.Println() }
