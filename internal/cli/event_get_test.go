package cli

import (
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestTheRequestOfAnEventIsShownUnlessItIsPlain(t *testing.T) {
	for want, e := range map[string]client.EventDetail{
		"":                {Method: new("POST")},
		"POST /a?b=c":     {Method: new("POST"), PathSuffix: "/a", Query: "b=c"},
		"GET /":           {Method: new("GET")},
		"POST ?b=\u00e4 ": {Method: new("POST"), Query: "b=\u00e4\x1b"},
	} {
		if got := requestText(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := requestText(client.EventDetail{}); got != "" {
		t.Errorf("a published event: got %q, want nothing", got)
	}
}
