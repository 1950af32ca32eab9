package cli

import (
	"strings"
	"testing"
)

func TestWrongFlagsOfListenAreRefused(t *testing.T) {
	startFakeGateway(t, 500, "{}")
	for args, want := range map[string]string{
		"":                              "set --forward",
		"--forward ftp://x":             "--forward",
		"--forward http://x/#a":         "--forward",
		"--print --type a*":             "--type",
		"--print -H x":                  "--header",
		"--print --header A:\x00":       "--header",
		"--print --timeout 0s":          "--timeout",
		"--print --count -1":            "--count",
		"--print --replay 1 --since 1h": "--replay",
		"--print --replay 1 --type a":   "--replay",
		"--print --output yaml":         "--output",

		"--print --replay latest a b":         "--replay latest",
		"--print --replay latest --type a":    "--replay latest",
		"--print --replay latest --count 3":   "--replay latest",
		"--print --replay latest --since 10m": "--replay",
	} {
		got := runCommand(append([]string{"listen"}, strings.Fields(args)...)...)
		if got.Code != ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%q: got %+v, want exit code %d and %q", args, got, ExitUsage, want)
		}
	}
}

func TestListenInTheFutureIsRefused(t *testing.T) {
	startFakeGateway(t, 200, `{"items":[]}`)
	got := runCommand("listen", "--print", "--since", "9999-01-01T00:00:00Z", "--timeout", "1s")
	if got.Code != ExitUsage || !strings.Contains(got.Stderr, "is in the future") {
		t.Errorf("got %+v, want exit code %d and the future", got, ExitUsage)
	}
}

func TestListenNamesTheSourceThatDoesNotExist(t *testing.T) {
	startFakeGateway(t, 404, `{"title":"Not Found","status":404,"detail":"no such source"}`)
	if got := runCommand("listen", "--print", "shop", "crm"); got.Code != ExitFailed || !strings.Contains(got.Stderr, `source "shop": `) {
		t.Errorf("got %+v, want the name of the source", got)
	}
}

func TestAHeaderWithoutAColonIsNotPrinted(t *testing.T) {
	startFakeGateway(t, 500, "{}")
	got := runCommand("listen", "--print", "--header", "Authorization Bearer hush")
	if got.Code != ExitUsage || strings.Contains(got.Stderr, "hush") {
		t.Errorf("got %+v, want exit code %d without the credentials", got, ExitUsage)
	}
}

func TestALineEndsWithCRLFOnARawTerminal(t *testing.T) {
	var b strings.Builder
	if n, err := (rawWriter{&b}).Write([]byte("a\nb\n")); n != 4 || err != nil || b.String() != "a\r\nb\r\n" {
		t.Errorf("got %q, %d, %v", b.String(), n, err)
	}
}
