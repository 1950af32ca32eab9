package payload_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/payload"
)

func TestLargeXMLHasNoView(t *testing.T) {
	const maxBytes = 8 << 20
	document := func(size int) []byte {
		const around = len("<a></a>")
		return []byte("<a>" + strings.Repeat("x", size-around) + "</a>")
	}
	view := func(body []byte) *payload.View { return payload.New(nil, http.Header{}, "text/xml", body) }
	if view(document(maxBytes)).JSON() == nil {
		t.Errorf("XML of %d bytes has no view, want one", maxBytes)
	}
	v := view(document(maxBytes + 1))
	if v.JSON() != nil {
		t.Errorf("XML of %d bytes has a view, want none", maxBytes+1)
	}
	if why, _ := v.ParseFailure(); !strings.Contains(why, "more than 8 MiB") {
		t.Errorf("the reason is %q, want the limit", why)
	}
	if cost := payload.MemoryCost("text/xml", document(4*maxBytes)); cost != 0 {
		t.Errorf("a body without a view costs %d bytes, want 0", cost)
	}
}

func TestEncodingIsDetectedFromBody(t *testing.T) {
	for _, header := range []http.Header{{}, {"Content-Encoding": {"gzip"}}, {"Content-Encoding": {"deflate"}}} {
		v := payload.New(nil, header, "application/json", gzipped(t, `{"a":1}`))
		if got := string(v.JSON()); got != `{"a":1}` {
			t.Errorf("Content-Encoding %q: got the view %q, want that of the decoded body", header.Get("Content-Encoding"), got)
		}
	}
}
