package web

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSONIsIndented(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"members":         {`{"b":[1,{"a":null}],"a":"x, {y}: \"z\""}`, "{\n  \"b\": [\n    1,\n    {\n      \"a\": null\n    }\n  ],\n  \"a\": \"x, {y}: \\\"z\\\"\"\n}"},
		"empty":           {`[ { } , [ ], ""]`, "[\n  {},\n  [],\n  \"\"\n]"},
		"spaces":          {"\n{ \"a\" :\t1 }\r\n", "{\n  \"a\": 1\n}"},
		"exact numbers":   {`[12345678901234567890,1e2]`, "[\n  12345678901234567890,\n  1e2\n]"},
		"a value":         {`true`, `true`},
		"text":            {"{not json", "{not json"},
		"text of a latin": {"caf\xe9", "caf\uFFFD"},
		"two documents":   {`{} {}`, `{} {}`},
	} {
		if got := Pretty([]byte(c.raw)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestIndentedTextIsBounded(t *testing.T) {
	const depth = 9_990
	for name, raw := range map[string]string{
		"deep lists":    strings.Repeat("[", depth) + strings.Repeat("]", depth),
		"deep objects":  strings.Repeat(`{"$and":[`, depth/2) + `{"a":1}` + strings.Repeat("]}", depth/2),
		"wide at depth": strings.Repeat("[", 24) + strings.Repeat("1,", 32<<10) + "1" + strings.Repeat("]", 24),
		"a long text":   `"` + strings.Repeat("é", 1<<20) + `"`,
		"no JSON":       strings.Repeat("é", 1<<20),
		"binary":        strings.Repeat("a\xff", 1<<20),
	} {
		got := Pretty([]byte(raw))
		if len(got) > TextLimit || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, of valid UTF-8: %v, want at most %d", name, len(got), utf8.ValidString(got), TextLimit)
		}
		if isCut := strings.HasSuffix(got, cutNote); isCut != (len(got) > TextLimit-len(cutNote)-utf8.UTFMax) {
			t.Errorf("%s: %d bytes, tells that it is cut: %v", name, len(got), isCut)
		}
	}
}

func TestIndentingALargeDocumentTakesLittleMemory(t *testing.T) {
	large := []byte("[" + strings.Repeat("1,", 4<<20) + "1]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = Pretty(large)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("indenting %d bytes allocates %d, want at most 1 MiB", len(large), got)
	}
}

func TestDeepLevelsAreNotIndented(t *testing.T) {
	got := Pretty([]byte(strings.Repeat("[", 30) + "1,2" + strings.Repeat("]", 30)))
	if want := strings.Repeat("  ", 24) + "[[[[[[1,2]]]]]]\n"; !strings.Contains(got, want) || len(got) > 2_000 {
		t.Errorf("got %d bytes, want the line %q in\n%s", len(got), want, got)
	}
}

func TestTextOfAFormIsNeverCut(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", TextLimit) + `"}`
	if got := Editable([]byte(long)); got != long {
		t.Errorf("a long document has %d bytes, want its own %d", len(got), len(long))
	}
	if got, want := Editable([]byte(`{"a":1}`)), "{\n  \"a\": 1\n}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzPretty checks that a text is bounded and valid, and that an indented document means the same.
func FuzzPretty(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{}],"b":"\u00e9\\"}`, "[[[]]]", " [ 1 , 2 ] ", "{", "\xff\xfe", `"\""`, strings.Repeat("[", 60) + strings.Repeat("]", 60)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		pretty := Pretty(raw)
		if len(pretty) > TextLimit || !utf8.ValidString(pretty) {
			t.Fatalf("Pretty of %d bytes has %d, of valid UTF-8: %v", len(raw), len(pretty), utf8.ValidString(pretty))
		}
		const limit = 40
		if text, _ := Indent(raw, limit); len(text) > limit {
			t.Fatalf("Indent of %d bytes has %d, want at most %d", len(raw), len(text), limit)
		}
		if strings.HasSuffix(pretty, cutNote) || !json.Valid(raw) || !utf8.Valid(raw) {
			return
		}
		var want, got bytes.Buffer
		if json.Compact(&want, raw) != nil || json.Compact(&got, []byte(pretty)) != nil || got.String() != want.String() {
			t.Fatalf("Pretty(%q), got %q", raw, pretty)
		}
	})
}
