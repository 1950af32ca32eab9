package payload_test

import (
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/internal/payload"
)

const block = "Host: hooks.example\r\nX-GitHub-Event: push\r\nX-Two: first\r\nx-two: second\r\nX-Empty:\r\nX-Space:   padded \t\r\nX-Colon: a:b\r\nX-Bytes: a\xff\"\r\n"

func TestHeaderBlockGet(t *testing.T) {
	for _, c := range []struct{ claim, name, want string }{
		{"the same case", "X-GitHub-Event", "push"},
		{"lower case", "x-github-event", "push"},
		{"upper case", "X-GITHUB-EVENT", "push"},
		{"the first line", "HOST", "hooks.example"},
		{"the first of two", "X-Two", "first"},
		{"empty", "X-Empty", ""},
		{"surrounding space is removed", "X-Space", "padded"},
		{"colons in the value", "X-Colon", "a:b"},
		{"bytes that are not UTF-8", "X-Bytes", "a\xff\""},
		{"missing", "X-Missing", ""},
		{"a prefix of a name", "X-GitHub", ""},
		{"a longer name", "X-GitHub-Events", ""},
		{"a value", "push", ""},
		{"no name", "", ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := payload.HeaderBlock(block).Get(c.name); got != c.want {
				t.Errorf("Get(%q): got %q, want %q", c.name, got, c.want)
			}
		})
	}
}

func TestHeaderBlocksRecordTheVerification(t *testing.T) {
	for _, want := range []payload.Verification{{"v1", 2, 3}, {"jwt", 0, 0}, {"none", 0, 0}, {"sha256", 1, 1}} {
		b := want.Append(payload.HeaderBlock(block))
		if got, ok := b.Verification(); got != want || !ok {
			t.Errorf("got %+v, %t; want %+v", got, ok, want)
		}
		for name := range b.All() {
			if name == payload.VerifiedField {
				t.Error("All yields the verification")
			}
		}
	}
	for _, text := range []string{"", block, "X-Verified: v1 1/1\r\n"} {
		if got, ok := payload.HeaderBlock(text).Verification(); ok || got != (payload.Verification{}) {
			t.Errorf("%q: got %+v, %t; want none", text, got, ok)
		}
	}
}

func TestMalformedHeaderBlocks(t *testing.T) {
	for _, b := range []string{"", "\r\n", "X-A", "X-A\r\n", ":\r\n", "\r\n\r\nX-B: y", "X-A : v\r\n"} {
		if got := payload.HeaderBlock(b).Get("X-A"); got != "" {
			t.Errorf("%q: got %q, want nothing", b, got)
		}
	}
}

func TestHeaderPaths(t *testing.T) {
	request := http.Header{"Host": {"hooks.example"}, "X-Github-Event": {"push"}, "X-Two": {"first", "second"}, "X-Empty": {""}, "X-Bytes": {"a\xff\""}}
	for kind, header := range map[string]payload.Header{"request": request, "stored": payload.HeaderBlock(block)} {
		for _, c := range []struct{ path, text, raw string }{
			{"header.X-GitHub-Event", "push", `"push"`},
			{"header.x-github-event", "push", `"push"`},
			{"header.X-GITHUB-EVENT", "push", `"push"`},
			{"header.x-two", "first", `"first"`},
			{"header.x-bytes", "a\xff\"", `"a` + "\uFFFD" + `\""`},
			{"header.x-empty", "", ""},
			{"header.x-missing", "", ""},
		} {
			v, p := payload.New(nil, header, "", nil), mustParse(t, c.path)
			if got, ok := v.Text(p); got != c.text || ok != (c.text != "") {
				t.Errorf("%s, %s: got %q, %t; want %q", kind, c.path, got, ok, c.text)
			}
			if got, ok := v.Raw(p); ok != (c.raw != "") || ok && string(got) != c.raw {
				t.Errorf("%s, %s: got raw %s, %t; want %s", kind, c.path, got, ok, c.raw)
			}
		}
	}
}
