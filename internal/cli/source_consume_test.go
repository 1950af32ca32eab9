package cli

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

const aConsumingSource = `{"slug":"orders","name":"Orders","ingest_url":"https://gateway.example/in/shop/orders","is_enabled":true,
 "consume":{"type":"kafka","topic":"orders"},"consumer":{"status":"failed","error":"the topic does not exist","since":"2026-01-01T00:00:00Z","lag":12,"instance":null}}`

func TestTheStateOfAConsumerIsPrinted(t *testing.T) {
	for _, c := range []struct {
		command, answer string
		prints          string // texts in this order
	}{
		{"source list", `{"items":[` + aConsumingSource + `],"next_cursor":null}`, "CONSUMER orders yes failed"},
		{"source get orders", aConsumingSource, `consumes "type":"kafka" consumer failed since 2026-01-01T00:00:00Z reason exist waiting 12 messages`},
		{"source create orders --consume {}", aConsumingSource, "eventhook source get orders"},
		{"source url orders", aConsumingSource, "orders consumes messages and has no URL"},
	} {
		t.Run(c.command, func(t *testing.T) {
			startFakeGateway(t, 200, c.answer)
			got := runCommand(strings.Fields(c.command)...)
			clitest.WantInOrder(t, got.Stdout+got.Stderr, strings.Fields(c.prints)...)
			if strings.Contains(got.Stdout, "https://gateway.example") {
				t.Errorf("got:\n%s\nwant no URL of a source that receives no webhooks", got.Stdout)
			}
		})
	}
}
