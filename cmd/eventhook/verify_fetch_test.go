package main

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/verify"
)

// TestVerifyFetchesOnlyWhenTold names a key set where nothing may be fetched
// from, so that trying is told and nobody is asked.
func TestVerifyFetchesOnlyWhenTold(t *testing.T) {
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
			t.Errorf("told to fetch: %t: got %+v, want no key found, and the fetch on stderr if it was tried", fetch, got)
		}
	}
}
