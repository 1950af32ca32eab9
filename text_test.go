package eventhook_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

func TestSanitizeText(t *testing.T) {
	for _, c := range []struct{ claim, in, want string }{
		{"empty stays", "", ""},
		{"text stays", "naïve 日本 🎣", "naïve 日本 🎣"},
		{"the replacement character stays", "a\uFFFDb", "a\uFFFDb"},
		{"NUL is escaped", "a\x00b", `a\x00b`},
		{"an invalid byte is escaped", "a\xffb", `a\xffb`},
		{"an incomplete character is escaped", "\xe2\x82", `\xe2\x82`},
		{"valid text around it stays", "é\xffé", `é\xffé`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := eventhook.SanitizeText(c.in); got != c.want {
				t.Errorf("SanitizeText(%q): got %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestNormalizeKeyKeepsKeysDifferent(t *testing.T) {
	long := strings.Repeat("k", eventhook.MaxKeyBytes)
	seen := map[string]string{}
	for _, in := range []string{
		"", "a", "A", "a ", "a\x00", "a\x00\x00", `a\x00`, "a\xff", `a\xff`, "a\xfe", "a\uFFFD",
		long, long + "k", long + "l", long + "\x00", long + `\x00`, long + "\xff",
		strings.Repeat("é", 127), strings.Repeat("é", 128), strings.Repeat("\xff", 63), strings.Repeat("\xff", 64),
	} {
		key := eventhook.NormalizeKey(in)
		if other, taken := seen[key]; taken {
			t.Errorf("%q and %q: got the same key %q, want different keys", in, other, key)
		}
		seen[key] = in
		checkStorable(t, "Key", in, key)
		if again := eventhook.NormalizeKey(key); again != key {
			t.Errorf("NormalizeKey(%q) again: got %q, want %q", in, again, key)
		}
	}
	if got := eventhook.NormalizeKey(long); got != long {
		t.Errorf("NormalizeKey of %d bytes: got %q, want it unchanged", len(long), got)
	}
}

func TestTruncateEndsAtACharacter(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"aé", 2, "a"},
		{"aé", 3, "aé"},
		{"日本", 5, "日"},
		{"日本", 2, ""},
		{"🎣!", 4, "🎣"},
		{"🎣!", 3, ""},
	} {
		if got := eventhook.Truncate(c.in, c.n); got != c.want {
			t.Errorf("Truncate(%q, %d): got %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestSanitizeLabelEndsAtACharacter(t *testing.T) {
	for _, c := range []struct{ claim, in, want string }{
		{"a short label", "push", "push"},
		{"a label of the maximum length", strings.Repeat("x", 255), strings.Repeat("x", 255)},
		{"a longer label is truncated", strings.Repeat("x", 256), strings.Repeat("x", 255)},
		{"a character is not split", strings.Repeat("x", 254) + "é", strings.Repeat("x", 254)},
		{"invalid bytes count as escaped", strings.Repeat("\xff", 100), strings.Repeat(`\xff`, 63) + `\xf`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := eventhook.SanitizeLabel(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzSanitizedTextIsStorable(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "\xff\xfe", "é\x80", strings.Repeat("日", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := eventhook.SanitizeText(s)
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			t.Errorf("SanitizeText(%q): got %q, want UTF-8 without NUL", s, text)
		}
		if utf8.ValidString(s) && !strings.Contains(s, "\x00") && text != s {
			t.Errorf("SanitizeText(%q): got %q, want it unchanged", s, text)
		}
		if again := eventhook.SanitizeText(text); again != text {
			t.Errorf("SanitizeText(%q): got %q, want the same", text, again)
		}
		checkStorable(t, "Key", s, eventhook.NormalizeKey(s))
		checkStorable(t, "Label", s, eventhook.SanitizeLabel(s))
	})
}

func checkStorable(t *testing.T, what, in, got string) {
	t.Helper()
	if len(got) > eventhook.MaxKeyBytes || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
		t.Errorf("%s(%q): got %q, want at most %d bytes of UTF-8 without NUL", what, in, got, eventhook.MaxKeyBytes)
	}
}
