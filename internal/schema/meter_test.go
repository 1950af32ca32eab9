package schema_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/schema"
)

// attack5 returns a schema with n regular expressions; 1600 of them fit into 32 KiB.
func attack5(n int, expression string) []byte {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"%x":{"pattern":"%s"}`, i, fmt.Sprintf(expression, i)))
	}
	return []byte(`{"properties":{` + strings.Join(parts, ",") + `}}`)
}

// Attack 5: four of these at once took 3.7 GB.
func TestPatternsOfASchemaAreBounded(t *testing.T) {
	for claim, raw := range map[string][]byte{
		"many instructions": attack5(900, `\\pL{0,999}%x`),
		"many classes":      []byte(`{"pattern":"` + strings.Repeat(`\\pL\\PN`, 500) + `"}`),
		"as properties":     []byte(`{"patternProperties":{"\\pL{0,900}!":{},"\\pL{0,901}!":{},"\\pL{0,902}!":{},"\\pL{0,903}!":{},"\\pL{0,904}!":{},"\\pL{0,905}!":{}}}`),
	} {
		t.Run(claim, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			faults := schema.Check(raw)
			runtime.ReadMemStats(&after)
			if len(faults) != 1 || !strings.Contains(faults[0].Message, "allowed") {
				t.Errorf("got %v, want one that they are too large", faults)
			}
			const maxAlloc = 64 << 20
			if got := after.TotalAlloc - before.TotalAlloc; got > maxAlloc {
				t.Errorf("got %d bytes allocated, want at most %d", got, maxAlloc)
			}
			if _, err := schema.Compile(raw); err == nil {
				t.Error("Compile: got no error, want one")
			}
		})
	}
}

func TestTypicalPatternsOfASchemaAreAccepted(t *testing.T) {
	for claim, raw := range map[string][]byte{
		"300 patterns":      attack5(300, `^[a-z]{1,8}-%x$`),
		"one, 1300 times":   []byte(`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"[a-z]{9}"},`, 1300), ",") + `]}`),
		"one of 2000 bytes": []byte(`{"pattern":"` + strings.Repeat("abcdefgh|", 200) + `"}`),
	} {
		if faults := schema.Check(raw); len(faults) > 0 {
			t.Errorf("%s: got %v, want no faults", claim, faults)
		}
	}
}

// costlyValidations returns schemas and data that would take seconds without a limit.
func costlyValidations() map[string][2]string {
	letters := `"` + strings.Repeat("a", 60_000) + `"`
	names := make([]string, 3000)
	for i := range names {
		names[i] = fmt.Sprintf(`"aaaaaaaaaaaa%d":1`, i)
	}
	return map[string][2]string{
		"a pattern":                       {`{"pattern":"(\\pL{2}){0,300}!"}`, letters},
		"patterns of names":               {`{"patternProperties":{"(\\pL{2}){0,300}!":{}},"propertyNames":{"pattern":"(\\pL{2}){0,300}?"}}`, `{` + strings.Join(names, ",") + `}`},
		"patterns as the data":            {`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"regex"}}`, `[` + strings.TrimSuffix(strings.Repeat(`"\\pL{0,900}",`, 4000), ",") + `]`},
		"unique lists of unique elements": {`{"uniqueItems":true,"items":{"uniqueItems":true}}`, `[` + strings.TrimSuffix(strings.Repeat(`[[1e300,2],[1e-300,1]],`, 2000), ",") + `]`},
	}
}

func TestValidationsStopAtTheLimit(t *testing.T) {
	for claim, c := range costlyValidations() {
		t.Run(claim, func(t *testing.T) {
			s, err := schema.Compile([]byte(c[0]))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a schema can be used again after an error
				m := meter.New(t.Context(), meter.EventLimit, nil)
				mayFinish := strings.Contains(claim, " of ") // within the limit
				if _, err := s.Validate(m, []byte(c[1])); !mayFinish && !errors.Is(err, schema.ErrTooMuch) || m.Err() != nil || m.Steps() > 6_000_000 {
					t.Errorf("got %v after %d steps, want ErrTooMuch", err, m.Steps())
				}
			}
			m := meter.New(t.Context(), 400_000, nil)
			if _, err := s.Validate(m, []byte(c[1])); !errors.Is(err, meter.ErrLimit) && !errors.Is(err, schema.ErrTooMuch) || m.Steps() > 400_000 {
				t.Errorf("got %v after %d steps, want ErrLimit or ErrTooMuch", err, m.Steps())
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Validate(meter.New(ctx, meter.EventLimit, nil), []byte(c[1])); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
	}
}

// Regular expressions in the data, with the format regex, do not count toward the limits of the schema.
func TestPatternsInDataDoNotCountForTheSchema(t *testing.T) {
	s, err := schema.Compile([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if fault, err := s.Validate(meter.New(t.Context(), meter.EventLimit, nil), fmt.Appendf(nil, `"a{%d}"`, i+500)); fault != "" || err != nil {
			t.Fatalf("check %d: got %q, %v; want no fault", i+1, fault, err)
		}
	}
}

// BenchmarkSteps measures the duration of a step of each costly validation.
func BenchmarkSteps(b *testing.B) {
	for claim, c := range costlyValidations() {
		b.Run(claim, func(b *testing.B) {
			s, err := schema.Compile([]byte(c[0]))
			if err != nil {
				b.Fatal(err)
			}
			steps := 0
			for b.Loop() {
				m := meter.New(b.Context(), meter.EventLimit, nil)
				_, _ = s.Validate(m, []byte(c[1]))
				steps += m.Steps()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}

// FuzzSchema checks the steps of validations.
func FuzzSchema(f *testing.F) {
	for _, c := range costlyValidations() {
		f.Add([]byte(c[0]), []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, raw, data []byte) {
		if len(schema.Check(raw)) > 0 {
			return
		}
		s, err := schema.Compile(raw)
		if err != nil {
			return
		}
		m := meter.New(t.Context(), meter.EventLimit, nil)
		_, err = s.Validate(m, data)
		if m.Steps() > 6_000_000 || m.Err() != nil {
			t.Errorf("%q on %d bytes: got %d steps, %v, %v", raw, len(data), m.Steps(), err, m.Err())
		}
		t.Logf("%d steps for each byte", m.Steps()/(len(data)+1))
	})
}
