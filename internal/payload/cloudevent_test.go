package payload_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/payload"
)

const structured = "application/cloudevents+json"

// binary returns the stored headers of an event in binary mode with further lines.
func binary(lines ...string) payload.HeaderBlock {
	all := slices.Concat([]string{"ce-specversion: 1.0", "Ce-Id: 7", "CE-SOURCE: /shop", "ce-type: order.made"}, lines)
	return payload.HeaderBlock(strings.Join(all, "\r\n") + "\r\n")
}

const required = `"id":"7","source":"/shop","specversion":"1.0","type":"order.made"`

func TestCloudEvents(t *testing.T) {
	withType := func(media, rest string) string {
		return `{"datacontenttype":"` + media + `","id":"7","source":"/shop","specversion":"1.0","type":"order.made"` + rest + `}`
	}
	bare := payload.HeaderBlock("Host: a\r\n")
	for _, c := range []struct {
		claim       string
		header      payload.HeaderBlock
		contentType string
		body, want  string
	}{
		{"binary with JSON", binary(), "application/json", `{"n":9007199254740993}`, withType("application/json", `,"data":{"n":9007199254740993}`)},
		{"structured with JSON", bare, structured, withType("application/json", `,"data":{"n":9007199254740993}`), withType("application/json", `,"data":{"n":9007199254740993}`)},
		{"binary without data", binary(), "", ``, `{` + required + `}`},
		{"structured without data", bare, structured + "; charset=utf-8", `{` + required + `}`, `{` + required + `}`},
		{"binary with XML", binary(), "text/xml", `<a>1</a>`, withType("text/xml", `,"data":{"a":"1"}`)},
		{"structured with XML", bare, structured, withType("text/xml", `,"data":"<a>1</a>"`), withType("text/xml", `,"data":{"a":"1"}`)},
		{"binary with text", binary(), "text/plain", `hello`, withType("text/plain", `,"data":"hello"`)},
		{"structured with text", bare, structured, withType("text/plain", `,"data":"hello"`), withType("text/plain", `,"data":"hello"`)},
		{"binary with bytes", binary(), "image/png", "\xff", withType("image/png", `,"data":{"base64":"/w=="}`)},
		{"structured with bytes", bare, structured, withType("image/png", `,"data_base64":"/w=="`), withType("image/png", `,"data":{"base64":"/w=="}`)},
		{"base64 of JSON", bare, structured, `{` + required + `,"data_base64":"eyJhIjoxfQ=="}`, `{` + required + `,"data":{"a":1}}`},
		{"base64 of nothing", bare, structured, `{` + required + `,"data_base64":""}`, `{` + required + `}`},
		{"invalid base64", bare, structured, `{` + required + `,"data_base64":"!"}`, ``},
		{"base64 that is not a string", bare, structured, `{` + required + `,"data_base64":7}`, ``},
		{"a string with JSON as its content type", bare, structured, `{` + required + `,"data":"{}"}`, `{` + required + `,"data":"{}"}`},
		{"JSON with XML as its content type", bare, structured, withType("text/xml", `,"data":[1]`), withType("text/xml", `,"data":[1]`)},
		{"null values are absent", bare, structured, `{` + required + `,"subject":null,"data":null}`, `{` + required + `}`},
		{"repeated members", bare, structured, `{` + required + `,"id":"8","data":1,"data":2}`, `{` + required + `,"data":1}`},
		{"attributes that are not strings", bare, structured, `{"zone":"z","age":1e2,"ok":true,` + required + `}`, `{"age":"1e2","id":"7","ok":"true","source":"/shop","specversion":"1.0","type":"order.made","zone":"z"}`},
		{"invalid names and values of attributes", bare, structured, `{` + required + `,"a_b":"1","A":"2","":"3","c":{},"d":[]}`, `{` + required + `}`},
		{"binary with more attributes", binary("ce-zone: z", "CE-Age: 12", "ce-ZONE: y", "ce-: x", "ce-a_b: 1", "ce-data: 1", "ce-empty:"), "", ``,
			`{"age":"12","id":"7","source":"/shop","specversion":"1.0","type":"order.made","zone":"z"}`},
		{"Content-Type instead of ce-datacontenttype", binary("ce-datacontenttype: image/png"), "text/plain", ``, withType("text/plain", ``)},
		{"percent-encoding", binary("ce-subject: Euro%20%e2%82%AC"), "", ``, `{"id":"7","source":"/shop","specversion":"1.0","subject":"Euro €","type":"order.made"}`},
		{"invalid percent-encoding", binary("ce-subject: 100% sure"), "", ``, `{"id":"7","source":"/shop","specversion":"1.0","subject":"100% sure","type":"order.made"}`},
		{"quotes", binary(`ce-subject: "a \"b\" \\%41"`), "", ``, `{"id":"7","source":"/shop","specversion":"1.0","subject":"a \"b\" \\A","type":"order.made"}`},
		{"one round of decoding", binary("ce-subject: %2541"), "", ``, `{"id":"7","source":"/shop","specversion":"1.0","subject":"%41","type":"order.made"}`},
		{"an attribute that is not UTF-8", binary("ce-subject: %C0%A0"), "", ``, ``},
		{"ce- headers and a structured body", binary(), structured, `{"specversion":"1.0","id":"8","source":"/x","type":"t"}`, `{"id":"8","source":"/x","specversion":"1.0","type":"t"}`},
		{"a batch", binary(), "application/cloudevents-batch+json", `[{` + required + `}]`, ``},
		{"another format", binary(), "application/cloudevents+xml", `<event/>`, ``},
		{"no version", payload.HeaderBlock("ce-id: 7\r\nce-source: s\r\nce-type: t\r\n"), "", ``, ``},
		{"another version", payload.HeaderBlock("ce-specversion: 0.3\r\nce-id: 7\r\nce-source: s\r\nce-type: t\r\n"), "", ``, ``},
		{"another version in a body", bare, structured, `{"specversion":"0.3","id":"7","source":"s","type":"t"}`, ``},
		{"ce-datacontenttype without Content-Type", binary("ce-datacontenttype: image/png"), "", ``, `{` + required + `}`},
		{"no id", payload.HeaderBlock("ce-specversion: 1.0\r\nce-source: s\r\nce-type: t\r\n"), "", ``, ``},
		{"no source", bare, structured, `{"specversion":"1.0","id":"7","type":"t"}`, ``},
		{"an empty type", bare, structured, `{"specversion":"1.0","id":"7","source":"s","type":""}`, ``},
		{"an array", bare, structured, `[1]`, ``},
		{"malformed JSON", bare, structured, `{`, ``},
		{"many repeated attributes", bare, structured, `{` + required + `,"data":1` + strings.Repeat(`,"a":"1","b":"1"`, 5000) + `}`, `{"a":"1","b":"1",` + required + `,"data":1}`},
		{"structured JSON with another content type", bare, "application/json", `{` + required + `}`, ``},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := payload.New(nil, c.header, c.contentType, []byte(c.body)).CloudEvent()
			if diff := cmp.Diff(c.want, string(got)); diff != "" || got != nil && !json.Valid(got) {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCloudEventWithTooManyAttributesIsNil(t *testing.T) {
	body := strings.Builder{}
	body.WriteString(`{` + required)
	for i := range 2000 {
		body.WriteString(`,"a` + strings.Repeat("x", i) + `":"1"`)
	}
	if got := payload.New(nil, http.Header{}, structured, []byte(body.String()+"}")).CloudEvent(); got != nil {
		t.Errorf("got an event of %d bytes, want none", len(got))
	}
}

func TestPathsIntoCloudEvents(t *testing.T) {
	header := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Source": {"/shop", "/other"}, "Ce-Type": {"a%20b"}, "Ce-Zone": {}}
	inHeaders := payload.New(nil, header, "application/json", []byte(`{"type":"body's","n":[1.50,"x"],"*":2}`))
	inBody := payload.New(nil, http.Header{}, structured, []byte(`{"specversion":"1.0","id":"7","source":"/shop","type":"a b","datacontenttype":"application/json","data":{"type":"body's","n":[1.50,"x"],"*":2}}`))
	for path, want := range map[string]string{
		"cloudevent.type": "a b", "cloudevent.id": "7", "cloudevent.source": "/shop", "cloudevent.specversion": "1.0", "cloudevent.datacontenttype": "application/json",
		"cloudevent.data.type": "body's", "cloudevent.data.n.0": "1.50", "cloudevent.data.n.1": "x", "cloudevent.data.*": "2", "cloudevent.subject": "",
		"cloudevent.zone": "", "cloudevent.data": "", "cloudevent.data.n.2": "", "cloudevent.id + cloudevent.source": "7./shop", "body.none + cloudevent.id": "",
	} {
		for mode, v := range map[string]*payload.View{"binary": inHeaders, "structured": inBody} {
			p := mustParse(t, path)
			if got, _ := v.Text(p); got != want {
				t.Errorf("%s, %s: got %q, want %q", path, mode, got, want)
			}
			if raw, ok := v.Raw(p); strings.HasPrefix(path, "cloudevent.data.") && (string(raw) != v.At(p).Raw || ok != (want != "")) {
				t.Errorf("%s, %s: Raw returned %s and At %s, want the same", path, mode, raw, v.At(p).Raw)
			}
		}
	}
	if got, _ := inHeaders.Text(mustParse(t, "body.type")); got != "body's" {
		t.Errorf("body.type, binary: got %q, want the value in the body", got)
	}
	if got, _ := inBody.Text(mustParse(t, "body.data.type")); got != "body's" {
		t.Errorf("body.data.type, structured: got %q, want the value in the body", got)
	}
}

// Code that omits headers from stored events must find the paths that read them.
func TestCloudEventPathsReturnTheirHeaders(t *testing.T) {
	for path, want := range map[string]string{
		"cloudevent.token": "Ce-Token", "cloudevent.007.x": "Ce-007", "cloudevent.data.x": "Ce-Data", "body.ce-token": "", "cloudevent.a + header.b": "Ce-A B",
	} {
		if got := strings.Join(mustParse(t, path).Headers(), " "); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestCloudEventCostsNothingForOtherWebhooks(t *testing.T) {
	block := payload.HeaderBlock("Host: a.example\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n")
	path, body := mustParse(t, "cloudevent.type"), []byte(`{"a":1}`)
	for name, header := range map[string]payload.Header{"a block": block, "a map": http.Header{"X-Github-Event": {"push"}}} {
		viewOnly := testing.AllocsPerRun(100, func() { payload.New(nil, header, "application/json", body).Header("X-None") })
		withLookups := testing.AllocsPerRun(100, func() {
			v := payload.New(nil, header, "application/json", body)
			if v.At(path).Exists() || v.CloudEvent() != nil {
				t.Error("got a CloudEvent, want none")
			}
		})
		if withLookups > viewOnly {
			t.Errorf("%s: got %v allocations, want those of a view alone, %v", name, withLookups, viewOnly)
		}
	}
}
