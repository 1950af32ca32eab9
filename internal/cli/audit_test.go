package cli

import (
	"strings"
	"testing"
)

func TestAuditListNamesTheActor(t *testing.T) {
	for actor, want := range map[string]string{
		`{"type":"admin","name":"admin key"}`:              "  admin key  ",
		`{"type":"admin_on_behalf_of","name":"admin key"}`: "  admin key  ",
		`{"type":"api_key","id":"k1","name":"ci"}`:         "  key ci  ",
		`{"type":"operator","name":"command line"}`:        "  operator  ",
		`{"type":"system","name":"eventhook"}`:             "  system  ",
	} {
		startFakeGateway(t, 200, `{"items":[{"at":"2026-01-01T00:00:00Z","tenant":"shop","action":"route.updated","resource":{"name":"r"},"source_ip":"192.0.2.1",
			"changes":[{"field":"priority"}],"actor":`+actor+`}],"next_cursor":null}`)
		if got := runCommand("audit", "list"); got.Code != 0 || !strings.Contains(got.Stdout, want+"192.0.2.1") {
			t.Errorf("%s: got %+v, want %q", actor, got, want)
		}
	}
}
