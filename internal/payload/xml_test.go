package payload_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/payload"
)

const xmlType = "application/xml"

func viewOf(contentType, body string) string {
	return string(payload.New(nil, http.Header{}, contentType, []byte(body)).JSON())
}

func TestXML(t *testing.T) {
	for _, c := range []struct{ claim, body, want string }{
		{"text in the root", `<a>x</a>`, `{"a":"x"}`},
		{"white space around the root", "<?xml version='1.0'?>\n\t<a/>\r\n \n", `{"a":""}`},
		{"an empty element", `<a/>`, `{"a":""}`},
		{"white space around text", "<a>\n  x y\t</a>", `{"a":"x y"}`},
		{"attributes, elements, text", `<order id="7"><item>a</item>now</order>`, `{"order":{"@id":"7","item":"a","#text":"now"}}`},
		{"white space in an attribute", `<a b=" x "/>`, `{"a":{"@b":" x "}}`},
		{"repeated elements", `<a><b>1</b><c/><b>2</b><b x="3"/></a>`, `{"a":{"b":["1","2",{"@x":"3"}],"c":""}}`},
		{"members keep the order of their first occurrence", `<a z="1" b="2"><y/><x/><y/></a>`, `{"a":{"@z":"1","@b":"2","y":["",""],"x":""}}`},
		{"text around an element", `<a>x <b>y</b> z</a>`, `{"a":{"b":"y","#text":"x  z"}}`},
		{"numbers and booleans are strings", `<a><n>7</n><t>true</t></a>`, `{"a":{"n":"7","t":"true"}}`},
		{"namespace prefixes", `<s:a xmlns:s="urn:s" xmlns="urn:t" xml:lang="en"><s:b/><b/></s:a>`, `{"a":{"@lang":"en","b":["",""]}}`},
		{"attributes that differ only in their prefix", `<a xmlns:s="urn:s" s:b="1" b="2"/>`, `{"a":{"@b":["1","2"]}}`},
		{"CDATA", `<a><![CDATA[<b>&amp;]]></a>`, `{"a":"<b>&amp;"}`},
		{"predefined entities", `<a b="&quot;">&lt;&amp;&#233;&#x1F3A3;</a>`, `{"a":{"@b":"\"","#text":"<&é🎣"}}`},
		{"comments and processing instructions", `<?xml version="1.0"?><!-- x --><a>1<!-- 2 -->3<?x y?></a><!-- z -->`, `{"a":"13"}`},
		{"a DOCTYPE without declarations", `<!DOCTYPE a SYSTEM "http://dtd.example/a.dtd"><a/>`, `{"a":""}`},
		{"a byte order mark", "\xef\xbb\xbf<a/>", `{"a":""}`},
		{"an empty document", ``, ``},
		{"text that is not XML", `a: 1`, ``},
		{"a truncated document", `<a><b></b>`, ``},
		{"a closing tag of another element", `<a></b>`, ``},
		{"two roots", `<a/><b/>`, ``},
		{"text after the root", `<a/>x`, ``},
		{"text before the root", `x<a/>`, ``},
		{"a repeated attribute", `<a b="1" b="2"/>`, ``},
		{"a repeated attribute with two prefixes of one namespace", `<a xmlns:s="u" xmlns:t="u" s:b="1" t:b="2"/>`, ``},
		{"an attribute without quotes", `<a b=1/>`, ``},
		{"an unknown entity", `<a>&nbsp;</a>`, ``},
		{"a DOCTYPE after the root", `<a/><!DOCTYPE a>`, ``},
		{"a DOCTYPE with declarations", `<!DOCTYPE a [<!ELEMENT a ANY>]><a/>`, ``},
		{"an external entity", `<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`, ``},
		{"NUL", "<a>\x00</a>", ``},
		{"NUL as a character reference", `<a>&#0;</a>`, ``},
		{"not UTF-8", "<a>\xff</a>", ``},
		{"an unknown charset", `<?xml version="1.0" encoding="klingon"?><a/>`, ``},
		{"an unsafe charset", `<?xml version="1.0" encoding="iso-2022-kr"?><a/>`, ``},
	} {
		t.Run(c.claim, func(t *testing.T) {
			for _, contentType := range []string{xmlType, "text/xml", "application/soap+xml; action=x", "Application/XML"} {
				if diff := cmp.Diff(c.want, viewOf(contentType, c.body)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", contentType, diff)
				}
			}
		})
	}
}

// utf16Of encodes a text in UTF-16.
func utf16Of(text string, bigEndian bool) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		low, high := byte(unit), byte(unit>>8)
		if bigEndian {
			low, high = high, low
		}
		b = append(b, low, high)
	}
	return string(b)
}

func TestCharsets(t *testing.T) {
	const declared = `<?xml version="1.0" encoding='ISO-8859-1' ?>`
	const form, want = "application/x-www-form-urlencoded", `{"a":"é"}`
	for _, c := range []struct{ claim, contentType, body, want string }{
		{"the charset of the XML declaration", xmlType, declared + "<a>\xe9</a>", want},
		{"the charset of the content type", "text/xml; charset=windows-1252", "<a>\xe9</a>", want},
		{"the content type overrides the XML declaration", "text/xml; charset=utf-8", declared + "<a>é</a>", want},
		{"the byte order mark overrides all", "text/xml; charset=latin1", "\xef\xbb\xbf" + declared + "<a>é</a>", want},
		{"little-endian XML in UTF-16", xmlType, utf16Of("\uFEFF<?xml version='1.0' encoding='UTF-16'?><a>é</a>", false), want},
		{"big-endian XML in UTF-16", xmlType, utf16Of("\uFEFF<a>é</a>", true), want},
		{"XML in UTF-16 without a byte order mark", xmlType, utf16Of("<a>é</a>", true), want},
		{"XML in Shift JIS", "text/xml; charset=shift_jis", "<a>\x93\xfa</a>", `{"a":"日"}`},
		{"UTF-8 that declares UTF-16", xmlType, `<?xml version="1.0" encoding="UTF-16"?><a/>`, ``},
		{"little-endian JSON in UTF-16", "application/json", utf16Of("\uFEFF{\"a\":\"é\"}", false), want},
		{"big-endian JSON in UTF-16", "application/json; charset=utf-16", utf16Of("\uFEFF{\"a\":\"é\"}", true), want},
		{"little-endian JSON in UTF-16 without a byte order mark", "application/json", utf16Of(`{"a":"é"}`, false), want},
		{"big-endian JSON in UTF-16 without a byte order mark", "application/json", utf16Of(`{"a":"é"}`, true), want},
		{"JSON in UTF-16, truncated within a character", "application/json", utf16Of(`{"a":"é"}`, true)[:17], ``},
		{"JSON in UTF-16 with an unpaired surrogate", "application/json", utf16Of(`"x`, true) + "\xd8\x00" + utf16Of(`"`, true), "\"x\uFFFD\""},
		{"deeply nested JSON in UTF-16", "application/json", utf16Of(strings.Repeat("[", 2000)+strings.Repeat("]", 2000), false), ``},
		{"text in UTF-16 that is not JSON", "application/octet-stream", "\xff\xfea", ``},
		{"a form", form + "; charset=iso-8859-1", "a=%E9", want},
		{"a form in UTF-8", form + "; charset=UTF-8", "a=%C3%A9", want},
		{"a form in UTF-8 with another charset in its content type", form + "; charset=iso-8859-1", "a=%C3%A9", want},
		{"an ASCII form with UTF-16 in its content type", form + "; charset=utf-16", "id=evt_1", `{"id":"evt_1"}`},
		{"a form that is not UTF-8 in an unknown charset", form + "; charset=klingon", "a=%E9", `{"a":"` + "\uFFFD" + `"}`},
		{"a form in an unknown charset", form + "; charset=klingon", "a=%C3%A9", want},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, viewOf(c.contentType, c.body)); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderUsesCharset(t *testing.T) {
	for _, c := range []struct{ contentType, body, want string }{
		{"text/plain; charset=iso-8859-1", "caf\xe9", `"café"`},
		{"text/plain; charset=utf-8", "caf\xe9", `{"base64":"Y2Fm6Q=="}`},
		{"text/plain; charset=klingon", "caf\xe9", `{"base64":"Y2Fm6Q=="}`},
		{"text/plain; charset=iso-2022-kr", "caf\xe9", `{"base64":"Y2Fm6Q=="}`},
		{"text/plain; charset=iso-8859-1", "café", `"café"`},
		{"text/plain", "\x01\x7f\u2028\t<", `"\u0001` + "\x7f\u2028" + `\t<"`},
	} {
		if got := string(payload.New(nil, http.Header{}, c.contentType, []byte(c.body)).Render()); got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s of %q: got %s, want %s", c.contentType, c.body, got, c.want)
		}
	}
}

// XML that is designed to be expensive has no view, and uses memory in proportion to
// the body.
func TestXMLIsBounded(t *testing.T) {
	laughs := `<!DOCTYPE a [<!ENTITY l0 "lol">`
	for i := range 9 {
		entity := string(rune('0' + i))
		laughs += `<!ENTITY l` + string(rune('1'+i)) + ` "` + strings.Repeat("&l"+entity+";", 10) + `">`
	}
	nested := func(depth int) string { return strings.Repeat("<a>", depth) + strings.Repeat("</a>", depth) }
	for _, c := range []struct {
		claim, body string
		want        bool
		maxFactor   int // bytes allocated, times the size of the body
	}{
		{"billion laughs", laughs + `]><a>&l9;</a>`, false, 20},
		{"billion laughs, truncated", laughs, false, 20},
		{"a long DOCTYPE", `<!DOCTYPE a [` + strings.Repeat(`<!ENTITY a "b">`, 100_000) + `]><a/>`, false, 20},
		{"500 nested elements", nested(500), true, 1000},
		{"501 nested elements", nested(501), false, 1000},
		{"1 000 000 nested elements", nested(1_000_000), false, 1},
		{"1 000 000 nested elements that are not closed", strings.Repeat("<a>", 1_000_000), false, 1},
		{"1 000 000 attributes", `<a ` + strings.Repeat(` a=">"`, 1_000_000) + `/>`, false, 1},
		{"1 000 000 attributes in a tag that is not closed", `<a` + strings.Repeat(` a='1'`, 1_000_000), false, 1},
		{"1 000 000 elements", `<a>` + strings.Repeat(`<b/>`, 1_000_000) + `</a>`, false, 20},
		{"100 000 elements", `<a>` + strings.Repeat(`<b/>`, 99_999) + `</a>`, true, 200},
		{"100 001 elements", `<a>` + strings.Repeat(`<b/>`, 100_000) + `</a>`, false, 200},
		{"a long name", `<` + strings.Repeat("a", 1<<20) + `/>`, true, 20},
		{"a long text", `<a>` + strings.Repeat(`x&lt;"`, 1<<18) + `</a>`, true, 12},
		{"a long text in nested elements", strings.Repeat("<a>", 400) + strings.Repeat("x", 1<<20) + strings.Repeat("</a>", 400), true, 12},
	} {
		t.Run(c.claim, func(t *testing.T) {
			v := payload.New(nil, http.Header{}, xmlType, []byte(c.body))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			view := v.JSON()
			runtime.ReadMemStats(&after)
			if (view != nil) != c.want || view != nil && !json.Valid(view) {
				t.Errorf("got a view: %t, want a valid one: %t", view != nil, c.want)
			}
			const overhead = 1 << 20 // for other tests and small allocations
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(c.maxFactor*len(c.body)+overhead) {
				t.Errorf("allocated %d bytes for a body of %d, want at most %d times as much", used, len(c.body), c.maxFactor)
			}
		})
	}
}

// The content of a deep element must not be copied once per level.
func TestDeepXMLCostsTheSameAsFlat(t *testing.T) {
	deep := payload.New(nil, http.Header{}, xmlType, []byte(strings.Repeat("<a>", 400)+strings.Repeat("<b>x</b>", 90_000)+strings.Repeat("</a>", 400)))
	if view := deep.JSON(); len(view) > 90_000*8 {
		t.Errorf("got a view of %d bytes, want fewer than the body has", len(view))
	}
}
