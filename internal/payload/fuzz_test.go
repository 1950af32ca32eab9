package payload_test

import (
	"bytes"
	"encoding/json"
	"net/http"
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
		{"application/json", strings.Repeat("[", 2000)}, {";", "-"}, {"application/json", `{"a":01}`}, {"application/json", "[1e5,-0,0.1E-2]"},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		before := bytes.Clone(body)
		v := payload.New(payload.Block(body), contentType, body)
		view := v.JSON()
		if view != nil && (!json.Valid(view) || !utf8.Valid(view)) {
			t.Errorf("JSON: got %q, want valid JSON in UTF-8", view)
		}
		if got := v.Render(); !json.Valid(got) {
			t.Errorf("Render: got %q, want valid JSON", got)
		}
		if contentType == "application/json" && view == nil && json.Valid(body) && bytes.IndexByte(body, '[') < 0 && bytes.IndexByte(body, '{') < 0 {
			t.Errorf("%q is JSON and has no view", body)
		}
		if !bytes.Equal(before, body) {
			t.Errorf("the body became %q, want %q", body, before)
		}
	})
}

// FuzzPath holds paths against a naive walk over the decoded body.
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
		v := payload.New(http.Header{"A": {"b"}}, "application/json", body)
		text, ok := v.Text(p)
		if ok != (text != "") {
			t.Errorf("%q: got %q, %t; want text exactly if it is there", path, text, ok)
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

// naive takes one step after the other; of members with one name, the first.
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
