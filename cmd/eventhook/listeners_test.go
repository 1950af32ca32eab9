package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/httpguard/httpguardtest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// The read timeout is an hour: the test times out if an answer waits for the body.
func TestBothListenersRefusePromptly(t *testing.T) {
	i := startInstance(t, pgtest.New(t), "EVENTHOOK_SERVER_READ_TIMEOUT=1h", "EVENTHOOK_SERVER_IDLE_TIMEOUT=1h")
	public := strings.TrimPrefix(i.url, "http://")
	management := strings.TrimSuffix(strings.TrimPrefix(i.metrics, "http://"), "/metrics")
	const both = "Host: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /info HTTP/1.1\r\nHost: x\r\n\r\n"
	const unsent = "Host: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	for _, c := range []struct {
		address, request string
		want             int
	}{
		{public, "POST " + ingest.Path("acme", "github") + " HTTP/1.1\r\n" + both, 400},
		{management, "GET /info HTTP/1.1\r\n" + both, 400},
		{public, "POST " + ingest.Path("acme", "absent") + " HTTP/1.1\r\n" + unsent, 404},
		{public, "POST /absent HTTP/1.1\r\n" + unsent, 404},
		{public, "POST /api/tenants/acme/eventhook/sources HTTP/1.1\r\n" + unsent, 401},
		{public, "POST " + ingest.Path("acme", "github") + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", 413},
		{management, "POST /info HTTP/1.1\r\n" + unsent, 405},
	} {
		t.Run(strings.Fields(c.request)[1], func(t *testing.T) {
			t.Parallel()
			got := httpguardtest.Send(t, c.address, c.request)
			if len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprint(c.want, " ")) {
				t.Errorf("%q: got %q, want %d and the end of the connection", c.request, got, c.want)
			}
		})
	}
}
