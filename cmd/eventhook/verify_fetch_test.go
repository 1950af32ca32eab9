package main

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/verify"
)

// TestVerifyFetchesKeysOnlyWithFetch uses a key set at an address that may not be
// requested. The refusal on stderr shows that the command tried to fetch it.
func TestVerifyFetchesKeysOnlyWithFetch(t *testing.T) {
	clitest.ClearEnvironment(t)
	args := []string{"verify", "--verifier", `{"type":"jwt","jwks_url":"https://127.0.0.1:1/keys"}`,
		"-H", "Authorization: Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.AAAA"}
	for _, fetch := range []bool{false, true} {
		if fetch {
			args = append(args, "--fetch")
		}
		reason := verify.ReasonKey
		if fetch {
			reason = verify.ReasonUnavailable
		}
		got := runCommand(args...)
		if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, `"error":"`+string(reason)+": ") || strings.Contains(got.Stderr, "127.0.0.1:1") != fetch {
			t.Errorf("--fetch %t: got %+v, want no key, and a failed fetch on stderr only with --fetch", fetch, got)
		}
	}
}
