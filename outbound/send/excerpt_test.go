package send_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

const secretURL = "https://hooks.example/services/T00/B00/x7Gh2?token=qu3ry&a=b"

func excerptOf(t *testing.T, body string) string {
	t.Helper()
	return excerptFor(t, newSubscription(secretURL), body)
}

func excerptFor(t *testing.T, s *eventhook.Subscription, body string) string {
	t.Helper()
	s.Signing = append(s.Signing, eventhook.SigningSecret{Secret: eventhook.NewSecret(olderSecret)})
	return newSenderOver(answering(500, body), "", time.Now).Send(t.Context(), sendingOf(s, newEvent(), 1)).Excerpt
}

func TestExcerpts(t *testing.T) {
	for _, c := range []struct{ claim, body, want string }{
		{"nothing", "", ""},
		{"a text", `{"error":"größe"}`, `{"error":"größe"}`},
		{"lines", " a\r\nb\n\tc\n", "a b  c"},
		{"control characters of terminals", "\x1b[31mred\x07\x00\u009b", "[31mred"},
		{"bidirectional control characters", "a\u202eb\u200bc\ufeff", "abc"},
		{"bytes", "a\xff\xfeb", "a\uFFFDb"},
		{"the Authorization header", "no such " + authHeader, "no such [redacted]"},
		{"the token of the Authorization header", `{"token":"t0p-s3cret"}`, `{"token":"[redacted]"}`},
		{"the secret", currentSecret + olderSecret, "[redacted][redacted]"},
		{"the URL", "at " + secretURL + ":", "at [redacted]:"},
		{"the URL's path, as in errors of Express", "Cannot POST /services/T00/B00/x7Gh2", "Cannot POST [redacted]"},
		{"a query value of the URL", "no qu3ry, a and b", "no [redacted], a and b"},
	} {
		if got := excerptOf(t, c.body); got != c.want {
			t.Errorf("%s: got %q, want %q", c.claim, got, c.want)
		}
	}
}

func TestExcerptHidesABasicPassword(t *testing.T) {
	s := newSubscription("https://hooks.example")
	s.AuthHeader = eventhook.NewSecret("basic dXM6aHVzaC1odXNo") // us:hush-hush
	for body, want := range map[string]string{
		"no basic dXM6aHVzaC1odXNo": "no [redacted]", "no dXM6aHVzaC1odXNo": "no [redacted]", "no us:hush-hush": "no [redacted]", "password hush-hush is wrong": "password [redacted] is wrong",
	} {
		if got := excerptFor(t, s, body); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	for _, authorization := range []string{"", "x", "Basic", "Basic ", "Basic !", "Basic dXM6", "token a/b"} {
		s.AuthHeader = eventhook.NewSecret(authorization)
		if got := excerptFor(t, s, "just a text"); got != "just a text" && authorization != "x" {
			t.Errorf("auth header %q: got the excerpt %q", authorization, got)
		}
	}
}

func TestExcerptsAreBounded(t *testing.T) {
	for claim, body := range map[string]string{
		"long": strings.Repeat("x", 1<<20), "not ASCII": strings.Repeat("ü", 1<<20), "an odd number of bytes": "x" + strings.Repeat("ü", 1<<20),
		"bytes": strings.Repeat("\xff", 1<<20), "bytes, one by one": strings.Repeat("\xffa", 1<<20), "controls": strings.Repeat("\x00", 1<<20), "lines": strings.Repeat("\n", 1<<20),
	} {
		got := excerptOf(t, body)
		if len(got) > eventhook.MaxExcerpt || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%s: got %d bytes, %q", claim, len(got), got)
		}
		if claim == "long" && len(got) != eventhook.MaxExcerpt {
			t.Errorf("%s: got %d bytes, want the maximum length", claim, len(got))
		}
	}
}

// A secret at the end of the excerpt is hidden even if the excerpt cuts it.
func TestExcerptHidesPartsOfSecrets(t *testing.T) {
	for before := range 1100 {
		for _, secret := range []string{authHeader, secretURL} {
			body := strings.Repeat("x", before) + strings.Repeat(secret, 200)
			checkNoSecret(t, "cut", excerptOf(t, body), secret[:len(secret)/2])
		}
	}
}
