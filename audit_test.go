package eventhook_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		claim, before, after string
		want                 []string
	}{
		{"nothing changes", `{"a":1,"b":{"c":[1,2]}}`, `{"b":{"c":[1,2]},"a":1}`, nil},
		{"a member", `{"a":1}`, `{"a":2}`, []string{"a"}},
		{"one member added and one removed", `{"a":1}`, `{"b":1}`, []string{"a", "b"}},
		{"a nested member", `{"a":{"b":1,"c":1}}`, `{"a":{"b":1,"c":2}}`, []string{"a.c"}},
		{"a list is compared as a whole", `{"a":[1,{"b":2}]}`, `{"a":[1,{"b":3}]}`, []string{"a"}},
		{"a member in an empty object", `{"a":{}}`, `{"a":{"b":{}}}`, []string{"a", "a.b"}},
		{"an added empty object", `{}`, `{"a":{}}`, []string{"a"}},
		{"a dot in a name does not separate members", `{"a.b":1}`, `{"a":{"b":1}}`, []string{`["a.b"]`, "a.b"}},
		{"a quote in a name is escaped", `{"a":{"\"].b":1}}`, `{"a":{"\"]":{"b":1}}}`, []string{`a["\"]"].b`, `a["\"].b"]`}},
		{"an added null", `{}`, `{"a":null}`, []string{"a"}},
		{"an object becomes a list", `{"a":{}}`, `{"a":[]}`, []string{"a"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			changes, err := eventhook.Diff(json.RawMessage(c.before), json.RawMessage(c.after))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range changes {
				got = append(got, change.Field)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// An empty diff means that no change is stored, so objects that differ must have one.
func TestDiffIsEmptyOnlyForEqualObjects(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "a.b", "", ".", `"`, "[", `["a"]`, "$gt"})
	leaf := rapid.SampledFrom([]any{nil, true, "x", []any{}, map[string]any{}})
	object := rapid.MapOfN(name, rapid.OneOf(leaf, rapid.Map(rapid.MapOfN(name, leaf, 0, 3), func(m map[string]any) any { return m })), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		before, after := object.Draw(t, "before"), object.Draw(t, "after")
		changes, err := eventhook.Diff(before, after)
		if err != nil {
			t.Fatal(err)
		}
		if equal := reflect.DeepEqual(before, after); equal != (len(changes) == 0) {
			t.Fatalf("got %d changes from %#v to %#v", len(changes), before, after)
		}
	})
}
