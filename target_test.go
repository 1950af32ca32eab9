package eventhook_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestEqualTargetsHaveEqualJSON(t *testing.T) {
	const want = `{"type":"x","a":{"b":1.50,"cc":"<&>"},"bb":[2,1]}`
	for _, written := range []string{
		want,
		`{"bb": [2, 1], "a": {"cc": "\u003c\u0026>", "b": 1.50}, "type": "x"}`, // as PostgreSQL does
	} {
		var target eventhook.Target
		if err := json.Unmarshal([]byte(written), &target); err != nil {
			t.Fatal(err)
		}
		got, err := target.MarshalJSON()
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", written, got, err, want)
		}
	}
	for _, bare := range []eventhook.Target{{Type: "x"}, {Type: "x", Settings: json.RawMessage(`{}`)}} {
		if got, err := json.Marshal(bare); err != nil || string(got) != `{"type":"x"}` {
			t.Errorf("without settings: got %s, %v", got, err)
		}
	}
	for _, none := range []string{`7`, `[]`, `{"type":7}`, `{"a":1}`} {
		if err := json.Unmarshal([]byte(none), new(eventhook.Target)); err == nil {
			t.Errorf("%s: got no error", none)
		}
	}
}

func TestTargetsPrintNoSecret(t *testing.T) {
	target := eventhook.Target{Type: "http", Settings: json.RawMessage(`{"auth_header":"[redacted]"}`), Secrets: eventhook.NewSecret("hush")}
	raw, err := json.Marshal([]eventhook.Target{target})
	if err != nil {
		t.Fatal(err)
	}
	if seen := string(raw) + fmt.Sprintf("%v %+v %#v", target, &target, []eventhook.Target{target}); strings.Contains(seen, "hush") {
		t.Errorf("got %s, want no secret in it", seen)
	}
}
