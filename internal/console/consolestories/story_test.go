package consolestories_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

// The acts of a person at a page.
var (
	confirm = gatewaytest.Confirm
	pasted  = gatewaytest.Copied
)

// push sends a push as GitHub does, and returns the status of the answer.
func push(t *testing.T, url, secret string, body string) int {
	t.Helper()
	sample := send.Sample{Provider: "github"}
	if body != "" {
		sample.Body = []byte(body)
	}
	r, err := sample.Request(t.Context(), url, secret, time.Now())
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
