package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/schema"
)

func TestValidate(t *testing.T) {
	const payment = `{"type":"object","required":["amount"],"properties":{"amount":{"type":"number","minimum":1},"currency":{"enum":["usd","eur"]},
		"items":{"type":"array","items":{"$ref":"#/$defs/item"}},"note":{"pattern":"^x"}},"additionalProperties":{"type":"string"},"$defs":{"item":{"required":["id"]}}}`
	for _, c := range []struct{ claim, schema, data, want string }{
		{"valid data", payment, `{"amount":1,"currency":"usd","items":[{"id":1}],"note":"x","more":"y"}`, ""},
		{"not an object", payment, `[]`, "data: type"},
		{"a missing member", payment, `{}`, "data: required"},
		{"the wrong type", payment, `{"amount":"secret"}`, "data.amount: type"},
		{"below the minimum", payment, `{"amount":0.5}`, "data.amount: minimum"},
		{"not in the enum", payment, `{"amount":1,"currency":"gbp"}`, "data.currency: enum"},
		{"behind a reference", payment, `{"amount":1,"items":[{"id":1},{}]}`, "data.items.1: required"},
		{"a pattern", payment, `{"amount":1,"note":"secret"}`, "data.note: pattern"},
		{"an additional member", payment, `{"amount":1,"more":2}`, "data.more: type"},
		{"an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"email"}}}`, `{"a":"b"}`, "data.a: format"},
		{"a schema that is false", `false`, `1`, "data: "},
		{"a schema that is empty", `{}`, `null`, ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s, err := schema.Compile([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := s.Validate(nil, []byte(c.data)); got != c.want || err != nil {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
			}
		})
	}
}

func TestCheckReportsOneFaultPerMistake(t *testing.T) {
	const types = "value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'"
	const draft7 = `{"$schema":"http://json-schema.org/draft-07/schema#",`
	for _, c := range []struct {
		claim, schema string
		want          []string
	}{
		{"a valid schema", `{"type":["string","null"]}`, nil},
		{"no schema", `1`, []string{": got number, want boolean or object"}},
		{"an unknown type", `{"properties":{"a":{"type":"foo"}}}`, []string{"properties.a.type: " + types + ", or got string, want array"}},
		{"an unknown type in a list", `{"type":["string","foo"]}`, []string{"type.1: " + types}},
		{"no type", `{"type":[]}`, []string{"type: " + types + ", or minItems: got 0, want 1"}},
		{"a schema in a list", draft7 + `"items":[{},{"type":"foo"}]}`, []string{"items.1.type: " + types + ", or got string, want array"}},
		{"neither a schema nor a list", draft7 + `"items":5}`, []string{"items: got number, want boolean or object, or got number, want array"}},
	} {
		var got []string
		for _, f := range schema.Check([]byte(c.schema)) {
			got = append(got, f.Location+": "+f.Message)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", c.claim, diff)
		}
	}
}

// The author of a schema must not be able to cause unbounded work.
func TestValidationsAreBounded(t *testing.T) {
	chain := func(n int, step string) string {
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"d%d":`+step, i, i+1))
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + fmt.Sprintf(`,"d%d":{"type":"string"}}}`, n)
	}
	many := func(n int, element string) string {
		return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
	}
	properties := make([]string, 5000)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%d":1`, i)
	}
	patterns := make([]string, 500)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(`"(a|b)*x%d":{}`, i)
	}
	numbers := make([]string, 2000)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("%d.5", i)
	}
	for _, c := range []struct {
		claim, schema, data string
		want                error
	}{
		{"references that double the work at each level", chain(60, `{"anyOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`), `1`, schema.ErrTooMuch},
		{"the same below not", strings.Replace(chain(60, `{"anyOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`), `{"$ref":"#/$defs/d0"`, `{"not":{"$ref":"#/$defs/d0"}`, 1), `1`, schema.ErrTooMuch},
		{"recursive references", `{"oneOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60), schema.ErrTooMuch},
		{"many patterns for many names", `{"patternProperties":{` + strings.Join(patterns, ",") + `}}`, `{` + strings.Join(properties, ",") + `}`, schema.ErrTooMuch},
		{"many numbers in a long enum", `{"items":{"enum":[` + strings.Join(numbers, ",") + `]}}`, `[` + many(10_000, "7") + `]`, schema.ErrTooMuch},
		{"a large string", `{}`, `"` + strings.Repeat("x", 65<<10) + `"`, schema.ErrTooLarge},
		{"deep data", `{}`, strings.Repeat("[", 100) + strings.Repeat("]", 100), schema.ErrTooLarge},
		{"a number of a million digits", `{"maximum":1}`, `1e1000000`, schema.ErrTooLarge},
		{"invalid JSON", `{}`, `{`, schema.ErrTooLarge},
		{"typical data", `{"items":{"enum":["` + strings.Join(numbers[:200], `","`) + `"]}}`, `[` + many(2000, `"7.5"`) + `]`, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s, err := schema.Compile([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			if fault, err := s.Validate(nil, []byte(c.data)); !errors.Is(err, c.want) || fault != "" {
				t.Errorf("got %q, %v; want %v", fault, err, c.want)
			}
		})
	}
}
