package payload_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

func mustParse(t *testing.T, s string) payload.Path {
	t.Helper()
	p, err := payload.ParsePath(s)
	if err != nil {
		t.Fatalf("ParsePath(%q): %v", s, err)
	}
	return p
}

func TestBodyPaths(t *testing.T) {
	const absent = "<absent>"
	for _, c := range []struct{ claim, body, path, text, raw string }{
		{"a string", `{"a":"x"}`, "body.a", "x", `"x"`},
		{"a number", `{"a":-1.50e3}`, "body.a", "-1.50e3", `-1.50e3`},
		{"beyond 2^53", `{"a":9007199254740993}`, "body.a", "9007199254740993", `9007199254740993`},
		{"beyond 64 bits", `{"a":123456789012345678901234567890}`, "body.a", "123456789012345678901234567890", `123456789012345678901234567890`},
		{"beyond float64", `{"a":1e999}`, "body.a", "1e999", `1e999`},
		{"true", `{"a":true}`, "body.a", absent, `true`},
		{"false", `{"a":false}`, "body.a", absent, `false`},
		{"null", `{"a":null}`, "body.a", absent, `null`},
		{"an object", `{"a":{"b":1}}`, "body.a", absent, `{"b":1}`},
		{"an array", `{"a":[1]}`, "body.a", absent, `[1]`},
		{"an empty string", `{"a":""}`, "body.a", absent, `""`},
		{"no member", `{"a":1}`, "body.b", absent, absent},
		{"names are case-sensitive", `{"a":1}`, "body.A", absent, absent},
		{"below a string", `{"a":"x"}`, "body.a.b", absent, absent},
		{"deep", `{"a":{"b":[0,{"c":"x"}]}}`, "body.a.b.1.c", "x", `"x"`},
		{"an element of the root", `["x","y"]`, "body.1", "y", `"y"`},
		{"an index above the last", `["x"]`, "body.1", absent, absent},
		{"a negative index", `["x"]`, "body.-1", absent, absent},
		{"an index with a leading zero", `["x","y"]`, "body.01", absent, absent},
		{"an index that overflows", `["x"]`, "body.18446744073709551616", absent, absent},
		{"a member of an array", `["x"]`, "body.a", absent, absent},
		{"a numeric member name", `{"0":"x","01":"y"}`, "body.0", "x", `"x"`},
		{"a numeric member name with a leading zero", `{"0":"x","01":"y"}`, "body.01", "y", `"y"`},
		{"a repeated member", `{"a":"x","a":"y"}`, "body.a", "x", `"x"`},
		{"an escaped name", `{"\u0061":"x"}`, "body.a", "x", `"x"`},
		{"an escaped string", `{"a":"\u00e9\n"}`, "body.a", "é\n", `"\u00e9\n"`},
		{"NUL in a string", `{"a":"x\u0000y"}`, "body.a", "x\x00y", `"x\u0000y"`},
		{"text that is not JSON", `hello`, "body.a", absent, absent},
		{"an empty body", ``, "body.a", absent, absent},
	} {
		t.Run(c.claim, func(t *testing.T) {
			v, p := payload.New(nil, http.Header{}, "application/json", []byte(c.body)), mustParse(t, c.path)
			if got, ok := v.Text(p); ok != (c.text != absent) || ok && got != c.text {
				t.Errorf("Text: got %q, %t; want %s", got, ok, c.text)
			}
			if got, ok := v.Raw(p); ok != (c.raw != absent) || ok && string(got) != c.raw {
				t.Errorf("Raw: got %s, %t; want %s", got, ok, c.raw)
			}
		})
	}
}

func TestJoinedPathsAndHashes(t *testing.T) {
	const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // printf x | sha256sum
	header := http.Header{"X-Kind": {"issue"}, "X-Empty": {""}}
	for _, c := range []struct{ claim, body, path, want string }{
		{"two values of the body", `{"a":"x","b":7}`, "body.a + body.b", "x.7"},
		{"header and body", `{"a":"x"}`, "header.x-kind + body.a", "issue.x"},
		{"three", `{"a":"x"}`, "body.a + header.x-kind + body.a", "x.issue.x"},
		{"an absent value", `{"a":"x"}`, "body.a + body.b", ""},
		{"an empty value", `{"a":"x"}`, "header.x-empty + body.a", ""},
		{"a name with a plus", `{"a + c":"x"}`, "body.a + c", "x"},
		{"a name with a plus, joined", `{"a + c":"x","b":1}`, "body.a + c + body.b", "x.1"},
		{"the body's hash", `x`, "sha256.body", sum},
		{"joined with the hash", `x`, "header.x-kind + sha256.body", "issue." + sum},
	} {
		v, p := payload.New(nil, header, "application/json", []byte(c.body)), mustParse(t, c.path)
		if got, ok := v.Text(p); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: Text returned %q, %t, want %q", c.claim, got, ok, c.want)
		}
		if raw, ok := v.Raw(p); ok != (c.want != "") || (ok && c.path != "body.a + c" && string(raw) != `"`+c.want+`"`) {
			t.Errorf("%s: Raw returned %s, %t, want %q", c.claim, raw, ok, c.want)
		}
	}
	for _, wrong := range []string{"sha256", "sha256.header", "body.a + body.", "header. + body.a", "sha256.body.x"} {
		if p, err := payload.ParsePath(wrong); err == nil {
			t.Errorf("%q is parsed as %v", wrong, p)
		}
	}
	if got := mustParse(t, "body.a + header.x-kind").Headers(); len(got) != 1 || got[0] != "X-Kind" {
		t.Errorf("headers of a joined path are %v, want X-Kind", got)
	}
}

// Characters with a meaning in gjson's syntax are literal names of members, and match
// nothing in arrays.
func TestGJSONSyntaxIsLiteral(t *testing.T) {
	for _, name := range []string{
		"*", "?", "a*", "a?", "*a*", "#", "#a", "a#", "##", "|", "a|b", "@", "@this", "@reverse", "@pretty:{}", "!", `!"x"`, "{", "{a}", "[", "[0]", "#(a=1)",
		"#(a=1)#", `\`, `\\`, `a\`, `"`, `'`, "$", "%", "&", "~", "~true", ":", "0:", " ", "-", "_", "a b", "é", "日", "1e3", "-0", "+1", "<>", "1|0", "0#",
	} {
		t.Run(name, func(t *testing.T) {
			quoted := quote(name)
			decoys := `"zz":"wrong","a":"wrong","ab":"wrong"`
			bodies := map[string]string{
				"body." + name:        `{` + decoys + `,` + quoted + `:"right"}`,
				"body.in." + name:     `{"in":{` + decoys + `,` + quoted + `:"right"}}`,
				"body." + name + ".b": `{` + decoys + `,` + quoted + `:{"c":"wrong","b":"right"}}`,
				"body.1." + name:      `["wrong",{` + decoys + `,` + quoted + `:"right"}]`,
			}
			for path, body := range bodies {
				if got, ok := payload.New(nil, http.Header{}, "", []byte(body)).Text(mustParse(t, path)); got != "right" || !ok {
					t.Errorf("%s in %s: got %q, %t; want right", path, body, got, ok)
				}
			}
			for _, body := range []string{`{"zz":"wrong","a":{"b":"wrong"},"b":1}`, `["wrong",{"a":1}]`, `[[1,2],[3]]`, `"wrong"`, `7`} {
				if name == "a" {
					continue
				}
				for _, path := range []string{"body." + name, "body." + name + ".b", "body." + name + ".0", "body.a." + name} {
					if got, ok := payload.New(nil, http.Header{}, "", []byte(body)).Raw(mustParse(t, path)); ok {
						t.Errorf("%s in %s: got %s, want nothing", path, body, got)
					}
				}
			}
		})
	}
}

func TestBadPathsAreRefused(t *testing.T) {
	for _, s := range []string{"", "body", "header.", "body..a", "query.a", "body.\x00"} {
		if p, err := payload.ParsePath(s); eventhook.KindOf(err) != eventhook.KindInvalid || !p.IsZero() {
			t.Errorf("ParsePath(%q): got %v, %v; want KindInvalid", s, p, err)
		}
	}
	if list, err := payload.ParsePaths([]string{"body.a", "b"}); err == nil {
		t.Errorf("ParsePaths: got %v, want an error", list)
	}
	for _, s := range []string{"body.a", "body.#", "header.x"} {
		if mustParse(t, s).IsZero() {
			t.Errorf("%q parsed: got IsZero, want not", s)
		}
	}
}

func TestFirstText(t *testing.T) {
	header := http.Header{"X-Topic": {"from header"}}
	for _, c := range []struct{ paths, body, want string }{
		{"body.a body.b", `{"a":"1","b":"2"}`, "1"},
		{"body.a body.b", `{"a":null,"b":2}`, "2"},
		{"body.a header.x-topic body.b", `{"a":"","b":2}`, "from header"},
		{"body.a", `{}`, ""},
		{"", `{}`, ""},
	} {
		paths, err := payload.ParsePaths(strings.Fields(c.paths))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := payload.New(nil, header, "", []byte(c.body)).FirstText(paths)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s in %s: got %q, %t; want %q", c.paths, c.body, got, ok, c.want)
		}
	}
}
