package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustCut(t *testing.T, raw string) (string, bool) {
	t.Helper()
	out, isCut, err := cut([]byte(raw), maxAnswer)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out) || len(out) > maxAnswer {
		t.Fatalf("got %d bytes, valid %t: %.300q", len(out), json.Valid(out), out)
	}
	return string(out), isCut
}

func TestCutKeepsWhatFits(t *testing.T) {
	for _, raw := range []string{
		`{"id":"1","n":12345678901234567890.10,"ok":true,"none":null,"list":[],"o":{},"text":"a<b>&\"\u2028 ü"}`, `[]`, `"a"`, `null`,
		`{"items":[{"id":"1"},{"id":"2"}],"next_cursor":null}`,
		`{"items":[` + strings.Repeat(`{"id":"0190f0a2"},`, 2000) + `{}],"next_cursor":"x"}`,
	} {
		if got, isCut := mustCut(t, raw); got != raw || isCut {
			t.Errorf("got %.300s, cut %t, want it unchanged: %.300s", got, isCut, raw)
		}
	}
}

func TestCutLimitsFieldsAndKeepsTheOthers(t *testing.T) {
	long, item := strings.Repeat("é", 50_000), `{"a":"`+strings.Repeat("x", 900)+`"},`
	for _, c := range []struct {
		claim, raw string
		want       []string
	}{
		{"a text", `{"id":"1","body":"` + long + `","status":"dead"}`, []string{`{"id":"1","body":"éé`, `of 100000 bytes]"`, `"status":"dead"}`}},
		{"an object", `{"body":{"text":"` + long + `","more":"` + long + `"},"status":"dead"}`, []string{`{"body":{"text":"éé`, `"status":"dead"}`}},
		{"several fields", `{"headers":"` + long + `","body":[` + strings.Repeat(item, 99) + `1],"actions":[` + strings.Repeat(item, 99) + `1],"deliveries":[` +
			strings.Repeat(item, 99) + `1],"status":"dead"}`, []string{`more items are left out]"],"actions":[{`, `more items are left out]"],"deliveries":[{`, `"status":"dead"}`}},
		{"a page", `{"items":[` + strings.Repeat(item, 99) + `{}],"next_cursor":"x"}`, []string{`"},"[`, `more items are left out]"],"next_cursor":"x"}`}},
		{"many members", `{"a":{` + strings.Repeat(`"name":"value",`, 9999) + `"z":1},"b":2}`, []string{`"[cut]":"[`, `more members are left out]"},"b":2}`}},
		{"a text that is long because of its escapes", `{"body":"` + strings.Repeat("\\n", 10_000) + `","status":"dead"}`, []string{`of 10000 bytes]"`, `"status":"dead"}`}},
		{"a large item", `{"items":[{"id":"1","body":"` + long + `"},{"id":"2"}]}`, []string{`of 100000 bytes]"},{"id":"2"}]}`}},
		{"deep nesting", `{"body":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `,"status":"dead"}`, []string{`["[left out]"]`, `"status":"dead"}`}},
		{"control characters", `{"body":"` + strings.Repeat(`\u0000`, 20_000) + `","status":"dead"}`, []string{`\u0000`, `"status":"dead"}`}},
		{"a long name", `{"` + long + `":1,"status":"dead"}`, []string{`{"[cut]":"[2 more members are left out]"}`}},
	} {
		got, isCut := mustCut(t, c.raw)
		if !isCut {
			t.Errorf("%s: got it complete, want it cut", c.claim)
		}
		rest := got
		for _, want := range c.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Fatalf("%s: got %.200s … %s, want %q in it", c.claim, got, got[max(0, len(got)-300):], want)
			}
			rest = after
		}
	}
}

func TestCutCountsWhatIsLeftOut(t *testing.T) {
	const items = 500
	got, _ := mustCut(t, `{"items":[`+strings.Repeat(`{"id":"`+strings.Repeat("x", 500)+`"},`, items-1)+`{}]}`)
	var page struct{ Items []any }
	if err := json.Unmarshal([]byte(got), &page); err != nil {
		t.Fatal(err)
	}
	kept := len(page.Items) - 1
	if want := fmt.Sprintf("[%d more items are left out]", items-kept); page.Items[kept] != want {
		t.Errorf("after %d items: %v, want %s", kept, page.Items[kept], want)
	}
}

func TestCutReportsWhatIsNoJSON(t *testing.T) {
	for _, raw := range []string{``, `{`, `{"a":`, `[1,`, `<html>`, `{"a" 1}`} {
		if out, _, err := cut([]byte(raw), maxAnswer); err == nil {
			t.Errorf("%q: got %q, want an error", raw, out)
		}
	}
}

func TestCutIsValidAndWithinItsLimit(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case kind == 0 && depth > 0:
				return rapid.SliceOfN(value(depth-1), 0, 9).Draw(t, "list")
			case kind == 1 && depth > 0:
				return rapid.MapOfN(rapid.String(), value(depth-1), 0, 9).Draw(t, "object")
			case kind == 2:
				return strings.Repeat(rapid.StringN(0, 9, -1).Draw(t, "text"), rapid.IntRange(0, 900).Draw(t, "times"))
			}
			return rapid.Int().Draw(t, "number")
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := encode(value(3).Draw(t, "value"))
		limit := rapid.IntRange(2*reserve, 8<<10).Draw(t, "limit")
		out, isCut, err := cut(raw, limit)
		if err != nil || !json.Valid(out) || len(out) > limit {
			t.Fatalf("got %d bytes of %d, valid %t, %v", len(out), limit, json.Valid(out), err)
		}
		if !isCut && !bytes.Equal(out, raw) {
			t.Fatalf("got %s, want %s", out, raw)
		}
	})
}
