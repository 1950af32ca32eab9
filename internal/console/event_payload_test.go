package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestTextOfAPayloadIsBuiltForItsTabOnly(t *testing.T) {
	body := []byte(`{"a":1}`)
	for query, want := range map[string]struct{ hasTree, hasText bool }{"": {true, false}, "?payload=tree": {true, false}, "?payload=raw": {false, true},
		"?payload=headers": {false, false}} {
		r := &request{Request: httptest.NewRequest(http.MethodGet, "/console/t/acme/events/1"+query, nil), tenant: "acme"}
		var p payloadView
		p.choose(r, &story{EventDetail: client.EventDetail{Body: json.RawMessage(body)}}, body)
		if (p.Tree != "") != want.hasTree || (p.Text != "") != want.hasText {
			t.Errorf("%q: tree %q and text %q, want %+v", query, p.Tree, p.Text, want)
		}
	}
}
