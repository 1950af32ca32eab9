package payload_test

import (
	"bytes"
	"encoding/json"
	"mime"
	stdmultipart "mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventhook/eventhook/internal/payload"
)

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func FuzzView(f *testing.F) {
	for _, seed := range [][2]string{
		{"application/json", `{"a":[1,"\ud800",null]}`}, {"", "\xef\xbb\xbf[1]"}, {"text/plain", "\xff"}, {"application/json", "\"\xff\""},
		{"application/x-www-form-urlencoded", "a=1&a=%ff&;"}, {multipart, parts(`name="a"|1`, `name="f"; filename="x"|y`)}, {multipart, "--XX\r\n\r\n--XX--"},
		{"text/xml", `<a b="c">d</a>`}, {"application/json", "\xfe\xff\x00["}, {"application/x-www-form-urlencoded; charset=latin1", "a=%e9"},
		{"application/json", strings.Repeat("[", 2000)}, {";", "-"}, {"application/json", `{"a":01}`}, {"application/json", "[1e5,-0,0.1E-2]"},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		before := bytes.Clone(body)
		v := payload.New(nil, payload.HeaderBlock(body), contentType, body)
		view := v.JSON()
		if view != nil && (!json.Valid(view) || !utf8.Valid(view)) {
			t.Errorf("JSON: got %q, want valid JSON in UTF-8", view)
		}
		got := v.Render()
		if !json.Valid(got) {
			t.Errorf("Render: got %q, want valid JSON", got)
		}
		if first := payload.DropDuplicateMembers(got); !json.Valid(first) || !bytes.Equal(first, payload.DropDuplicateMembers(first)) {
			t.Errorf("DropDuplicateMembers of %q: got %q, want valid JSON without duplicate members", got, first)
		}
		if contentType == "application/json" && view == nil && json.Valid(body) && bytes.IndexByte(body, '[') < 0 && bytes.IndexByte(body, '{') < 0 {
			t.Errorf("%q is JSON and has no view", body)
		}
		if !bytes.Equal(before, body) {
			t.Errorf("the body became %q, want %q", body, before)
		}
	})
}

// FuzzXML checks the invariants of XML views: valid JSON whose leaves are strings,
// bounded by the size of the document, and deterministic.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{
		`<a b="1"><c>x</c><c/>y</a>`, `<?xml version="1.0" encoding="iso-8859-1"?><a>` + "\xe9</a>", `<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`, "\xff\xfe<\x00a\x00/\x00>\x00",
		`<a xmlns:b="c" b:d="1" d="2"><![CDATA[]]>]]&gt;</a>`, `<a><!-- x --><?y z?></a>`, strings.Repeat("<a>", 501) + strings.Repeat("</a>", 501), "<a>\n <b/> </a>\n", `<a b='"'/>`,
	} {
		f.Add([]byte(seed), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, charset string) {
		view, again := viewOf("text/xml; charset="+charset, string(body)), viewOf("text/xml; charset="+charset, string(body))
		if view != again {
			t.Fatalf("got %s, and %s the second time", view, again)
		}
		if view == "" {
			return
		}
		if !json.Valid([]byte(view)) || !utf8.ValidString(view) || len(view) > 8*len(body) {
			t.Errorf("%q: got %q, want valid JSON of at most 8 times its size", body, view)
		}
		var root map[string]any
		if err := json.Unmarshal([]byte(view), &root); err != nil || len(root) != 1 {
			t.Errorf("%q: got %s, want an object with the root", body, view)
		}
		if depth := depthOf(t, root); depth > 1001 {
			t.Errorf("%q: got %d levels, want at most 1001", body, depth)
		}
	})
}

// depthOf returns the nesting of a value, and checks that its leaves are strings.
func depthOf(t *testing.T, value any) (deepest int) {
	switch x := value.(type) {
	case string:
		return 0
	case []any:
		for _, element := range x {
			deepest = max(deepest, depthOf(t, element))
		}
	case map[string]any:
		for _, member := range x {
			deepest = max(deepest, depthOf(t, member))
		}
	default:
		t.Errorf("got a %T, want only strings", value)
	}
	return deepest + 1
}

// FuzzMultipart compares views of multipart forms with the standard library's
// ReadForm.
func FuzzMultipart(f *testing.F) {
	for _, seed := range []string{
		parts(`name="a"|1`, `name="a"; filename="x"|23`), "--XX--", "0", parts("name=\"a\"\r\nContent-Transfer-Encoding: quoted-printable|=C3=A9"), "x\r\n--XX\r\n\r\n--XX--", parts(`name=a|` + "\r\n--X"),
	} {
		f.Add([]byte(seed), "XX")
	}
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		view := viewOf("multipart/form-data; boundary="+quote(boundary), string(body))
		if view == "" || json.Valid(body) {
			return
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(view), &fields); err != nil {
			t.Fatalf("%q: got %q, want an object", body, view)
		}
		_, params, _ := mime.ParseMediaType("multipart/form-data; boundary=" + quote(boundary))
		form, err := stdmultipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(1 << 30)
		if err != nil {
			t.Fatalf("%q: got %s, and the standard library fails: %v", body, view, err)
		}
		for name, values := range form.Value {
			if name = strings.ToValidUTF8(name, "\uFFFD"); len(values) == 1 && len(form.File[name]) == 0 && fields[name] != strings.ToValidUTF8(values[0], "\uFFFD") {
				t.Errorf("%q: got %q, want %q", name, fields[name], values[0])
			}
		}
		for name, files := range form.File {
			if file, ok := fields[strings.ToValidUTF8(name, "\uFFFD")].(map[string]any); ok && file["size"] != float64(files[0].Size) {
				t.Errorf("%q: got size %v, want %d", name, file["size"], files[0].Size)
			}
		}
	})
}

// FuzzCloudEvent compares an event in binary mode with the same event in structured
// mode.
func FuzzCloudEvent(f *testing.F) {
	f.Add("7", "/shop", "made", "application/json", []byte(`{"a":1,"a":2}`))
	f.Add("%", "\"", "é", "text/xml", []byte(`<a/>`))
	f.Add("1", "2", "3", "text/plain", []byte("7"))
	f.Fuzz(func(t *testing.T, id, source, kind, contentType string, body []byte) {
		event := map[string]any{"specversion": "1.0", "id": id, "source": source, "type": kind, "datacontenttype": contentType, "data_base64": body}
		for _, text := range []string{id, source, kind, contentType} {
			if !utf8.ValidString(text) {
				return
			}
		}
		inBody, _ := json.Marshal(event)
		header := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {url.PathEscape(id)}, "Ce-Source": {url.PathEscape(source)}, "Ce-Type": {url.PathEscape(kind)}}
		if strings.HasPrefix(strings.TrimSpace(strings.ToLower(contentType)), "application/cloudevents") {
			return
		}
		got, want := payload.New(nil, header, contentType, body).CloudEvent(), payload.New(nil, http.Header{}, structured, inBody).CloudEvent()
		if !bytes.Equal(got, want) || got != nil && !json.Valid(got) {
			t.Errorf("got %s in headers, and %s in a body", got, want)
		}
	})
}

// FuzzPath compares paths with a naive walk over the decoded body.
func FuzzPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"body.a.0.b", `{"a":[{"b":"x"}]}`}, {"body.#", `[1,2]`}, {"body.a|b", `[{"a|b":1}]`}, {"body.*", `{"*":1,"x":2}`}, {"body.@this", `{"a":1}`},
		{"body.0", `{"0":1}`}, {"body.00", `[1]`}, {"header.a", "a: b\r\n"}, {`body.\.a`, `{"\\":{"a":1}}`}, {"body.!x", `{}`}, {"body.a.#.b", `{"a":[{"b":1}]}`},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		p, err := payload.ParsePath(path)
		if err != nil {
			return
		}
		v := payload.New(nil, http.Header{"A": {"b"}}, "application/json", body)
		text, ok := v.Text(p)
		if ok != (text != "") {
			t.Errorf("%q: got %q, %t; want a text if and only if the value exists", path, text, ok)
		}
		raw, found := v.Raw(p)
		if found && !json.Valid(raw) {
			t.Errorf("%q: got %q, want valid JSON", path, raw)
		}
		rest, isBody := strings.CutPrefix(path, "body.")
		if !isBody || v.JSON() == nil || bytes.ContainsAny(body, `\`) || !utf8.Valid(body) {
			return
		}
		want, there := naive(v.JSON(), strings.Split(rest, "."))
		if found != there || found && !bytes.Equal(raw, want) {
			t.Errorf("%q in %s: got %s, %t; want %s, %t", path, body, raw, found, want, there)
		}
	})
}

// naive looks up the steps one by one. Of members with the same name it uses the first.
func naive(value json.RawMessage, steps []string) (json.RawMessage, bool) {
	for _, step := range steps {
		next, ok := child(value, step)
		if !ok {
			return nil, false
		}
		value = next
	}
	return value, true
}

func child(value json.RawMessage, step string) (json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	open, err := d.Token()
	if err != nil {
		return nil, false
	}
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		switch open {
		case json.Delim('{'):
			key, _ := d.Token()
			name, _ = key.(string)
		case json.Delim('['):
		default:
			return nil, false
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil, false
		}
		if name == step {
			return v, true
		}
	}
	return nil, false
}
