package eventhook_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestCheckPattern(t *testing.T) {
	longest := strings.Repeat("x", eventhook.MaxKeyBytes)
	for pattern, ok := range map[string]bool{
		"*": true, "push": true, "payment.*": true, "a.b.*": true, "a.b": true, "Push Event/v1": true, "a?b": true, "été": true, longest: true,
		"": false, ".*": false, "**": false, "*.*": false, "*a": false, "a*": false, "a*b": false, "a.*.b": false, "a.**": false, "a.*.*": false,
		"*.a": false, "a\x00": false, "a\xff": false, longest + "x": false, longest + ".*": false,
	} {
		if wrong := eventhook.CheckPattern(pattern); (wrong == "") != ok {
			t.Errorf("CheckPattern(%q): got %q, want allowed: %t", pattern, wrong, ok)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for path, ok := range map[string]bool{
		"body.id": true, "body.a.b.0.c": true, "body.0": true, "body.a*b": true, "body.#": true, "body.@x|y": true, "body. ": true, "body.é": true,
		"header.x-request-id": true, "header.X-Request-ID": true, "header.a.b": true,
		"body." + strings.Repeat("x", eventhook.MaxKeyBytes-5): true,
		"cloudevent.type": true, "cloudevent.data.a.0": true, "header.x + cloudevent.id": true,
		"cloudevent": false, "cloudevent.": false, "cloudevent..a": false, "cloudevent.data.": false, "body.a + cloudevent.a..b": false,
		"": false, "body": false, "header": false, "body.": false, "header.": false, ".body": false, "id": false, "BODY.id": false, "query.id": false,
		"body..a": false, "body.a.": false, "body.a..b": false, "body...": false, "$.body.a": false, "body[0]": false, "body/id": false,
		"body.\x00": false, "body.\xff": false, "body." + strings.Repeat("x", eventhook.MaxKeyBytes-4): false,
	} {
		if wrong := eventhook.CheckPath(path); (wrong == "") != ok {
			t.Errorf("CheckPath(%q): got %q, want allowed: %t", path, wrong, ok)
		}
	}
}
