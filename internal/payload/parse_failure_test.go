package payload_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/payload"
)

func TestParseFailure(t *testing.T) {
	const json, xml, form = "application/json", "application/xml", formType
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	for _, c := range []struct{ claim, contentType, body, want string }{
		{"JSON", json, `{"n":10}`, ""},
		{"a form", form, "n=10", ""},
		{"an empty form", form, "", ""},
		{"XML", xml, "<n>10</n>", ""},
		{"JSON as text/plain", "text/plain", "10", ""},
		{"a trailing comma", json, `{"n":10,}`, "the body could not be read: malformed JSON|at byte 9"},
		{"a trailing comma after a byte order mark", json, "\xef\xbb\xbf" + `{"n":10,}`, "the body could not be read: malformed JSON|at byte 12"},
		{"a trailing comma in UTF-16", json, utf16Of(`{"n":10,}`, true), "the body could not be read: malformed JSON|"},
		{"truncated JSON", json, `{"n":10`, "the body could not be read: malformed JSON|at its end"},
		{"malformed JSON as text/plain", "text/plain", `{"n":10,}`, "the body could not be read: malformed JSON|at byte 9"},
		{"text", "text/plain; charset=utf-8", "hello", `the body could not be read: it is not JSON, and its content type is "text/plain"|`},
		{"text without a content type", "", "hello", "the body could not be read: it is not JSON, and has no content type|"},
		{"JSON 100 000 deep", json, nested("[", "]", 100_000), "the body could not be read: JSON nested deeper than 1000|"},
		{"HTML", "text/html; charset=utf-8", "<p>", `the body could not be read: the content type "text/html" is not supported|`},
		{"an empty body", json, "", "the body could not be read: it is empty|"},
		{"an empty body with an unsupported content type", "text/html", "", "the body could not be read: it is empty|"},
		{"JSON as a form", form, ` {"n":10}`, ""},
		{"JSON that is not a valid form, as a form", form, `{"n":"100%"}`, ""},
		{"a form with a bad escape", form, "n=%zz", "the body could not be read: a malformed form|"},
		{"a form with too many fields", form, strings.Repeat("a&", 10_000), "the body could not be read: a form of more than 10000 fields|"},
		{"multipart without a boundary", "multipart/form-data", "--XX", "the body could not be read: a multipart form without a boundary in its content type|"},
		{"truncated multipart", multipart, "--XX\r\n\r\n", "the body could not be read: a multipart form without its last boundary|"},
		{"multipart with a malformed part header", multipart, "--XX\r\nnone\r\n\r\n1\r\n--XX--\r\n", "the body could not be read: a malformed multipart form|"},
		{"too many parts", multipart, strings.Repeat("--XX\r\n\r\n1\r\n", 1001) + "--XX--", "the body could not be read: a multipart form of more than 1000 parts, or with more than 16384 bytes of headers in one|"},
		{"a DOCTYPE", xml, `<!DOCTYPE a [<!ENTITY l "l">]><a/>`, "the body could not be read: XML with declarations in its DOCTYPE|"},
		{"an element that is not closed", xml, "<a>\n<b>\n</a>", "the body could not be read: malformed XML|at line 3"},
		{"two roots", xml, "<a/><b/>", "the body could not be read: malformed XML|"},
		{"XML without an element", xml, "<!-- a -->", "the body could not be read: malformed XML|"},
		{"XML in an unknown charset", xml + "; charset=klingon", "<a/>", "the body could not be read: unknown charset|"},
		{"XML that is nested too deep", xml, nested("<a>", "</a>", 501), "the body could not be read: XML nested deeper than 500|"},
		{"too many elements", xml, "<a>" + strings.Repeat("<b/>", 100_000) + "</a>", "the body could not be read: XML of more than 100000 elements and attributes|"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			v := payload.New(nil, http.Header{}, c.contentType, []byte(c.body))
			why, where := v.ParseFailure()
			if got := strings.TrimSuffix(why+"|"+where, "|"); got != strings.TrimSuffix(c.want, "|") {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again, _ := v.ParseFailure(); again != why {
				t.Errorf("got %q the second time, want %q", again, why)
			}
		})
	}
}
