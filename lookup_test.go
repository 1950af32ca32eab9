package eventhook_test

import (
	"testing"

	"github.com/eventhook/eventhook"
)

func TestPastedTextIsTrimmed(t *testing.T) {
	for pasted, want := range map[string]string{
		" abc\n": "abc", `"abc",`: "abc", "'a b'": "a b", "`abc`": "abc", "“abc”": "abc", "\u00a0abc\ufeff": "abc", ` "" `: "", `a"b`: `a"b`,
	} {
		if got := eventhook.LookupText(pasted); got != want {
			t.Errorf("%q: got %q, want %q", pasted, got, want)
		}
	}
}
