package payload_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/payload"
)

const multipart = "multipart/form-data; boundary=XX"

// parts returns a multipart body. Each part is given as its Content-Disposition
// parameters, optional further headers, and its text.
func parts(list ...string) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString("--XX\r\nContent-Disposition: form-data; " + strings.Replace(p, "|", "\r\n\r\n", 1) + "\r\n")
	}
	return b.String() + "--XX--\r\n"
}

func TestJSONViewByContentType(t *testing.T) {
	const none = ""
	for _, c := range []struct{ claim, contentType, body, want string }{
		{"JSON", "application/json", `{"a":1}`, `{"a":1}`},
		{"JSON with parameters", "application/json; charset=utf-8", `{"a":1}`, `{"a":1}`},
		{"JSON with broken parameters", "Application/JSON; charset", `{"a":1}`, `{"a":1}`},
		{"+json", "application/cloudevents+json", `[1]`, `[1]`},
		{"JSON as text/plain", "text/plain; charset=utf-8", `{"a":1}`, `{"a":1}`},
		{"JSON as application/octet-stream", "application/octet-stream", `{"a":1}`, `{"a":1}`},
		{"JSON without a content type", "", ` "a" `, `"a"`},
		{"text", "text/plain", `hello`, none},
		{"HTML", "text/html", `<a>`, none},
		{"an image", "image/png", "\x89PNG", none},
		{"JSON as text/html", "text/html", `{"a":1}`, `{"a":1}`},
		{"JSON as image/png", "image/png", `{"a":1}`, `{"a":1}`},
		{"JSON as a form", "application/x-www-form-urlencoded", ` {"a":"b=c&d"}`, `{"a":"b=c&d"}`},
		{"JSON as multipart", multipart, `[{"a":1}]`, `[{"a":1}]`},
		{"JSON as XML", "application/xml; charset=klingon", `{"a":1}`, `{"a":1}`},
		{"JSON in UTF-16 as a form", "application/x-www-form-urlencoded", utf16Of(`{"a":1}`, true), `{"a":1}`},
		{"malformed JSON as a form", "application/x-www-form-urlencoded", `{"a":1`, `{"{\"a\":1":""}`},
		{"a form with a JSON field", "application/x-www-form-urlencoded", `payload={"a":1}`, `{"payload":"{\"a\":1}"}`},
		{"lines of JSON", "application/x-ndjson", "{}\n{}", none},
		{"malformed JSON", "application/json", `{"a":1`, none},
		{"JSON followed by text", "application/json", `{} x`, none},
		{"an empty body", "application/json", ``, none},
		{"a byte order mark", "application/json", "\xef\xbb\xbf{\"a\":1}", `{"a":1}`},
		{"two byte order marks", "application/json", "\xef\xbb\xbf\xef\xbb\xbf{}", none},
		{"bytes that are not UTF-8", "application/json", "{\"a\":\"x\xffy\"}", `{"a":"x` + "\uFFFD" + `y"}`},
		{"NUL in a string", "application/json", "\"a\x00b\"", none},
		{"NUL escaped", "application/json", `"a\u0000b"`, `"a\u0000b"`},
		{"a form", "application/x-www-form-urlencoded", "a=1&b=x+y&b=%3D", `{"a":"1","b":["x y","="]}`},
		{"a form with empty values", "application/x-www-form-urlencoded", "a=&b", `{"a":"","b":""}`},
		{"an empty form", "application/x-www-form-urlencoded", "", `{}`},
		{"a form that is not UTF-8", "application/x-www-form-urlencoded", "a=%ff", `{"a":"` + "\uFFFD" + `"}`},
		{"a malformed form", "application/x-www-form-urlencoded", "a=%zz", none},
		{"multipart fields", multipart, parts(`name="a"|1`, `name="b"|x`, `name="b"|y`), `{"a":"1","b":["x","y"]}`},
		{"a multipart file", multipart, parts(`name="f"; filename="p.txt"` + "\r\nContent-Type: text/plain|12345"), `{"f":{"content_type":"text/plain","filename":"p.txt","size":5}}`},
		{"several multipart files", multipart, parts(`name="f"; filename="p"|1`, `name="f"; filename="q"|`),
			`{"f":[{"content_type":"","filename":"p","size":1},{"content_type":"","filename":"q","size":0}]}`},
		{"truncated multipart", multipart, strings.TrimSuffix(parts(`name="a"|1`), "--XX--\r\n"), none},
		{"multipart without a boundary", "multipart/form-data", parts(`name="a"|1`), none},
	} {
		t.Run(c.claim, func(t *testing.T) {
			body := []byte(c.body)
			v := payload.New(nil, http.Header{}, c.contentType, body)
			for range 2 {
				got := v.JSON()
				if got != nil && !json.Valid(got) {
					t.Errorf("got %s, want valid JSON", got)
				}
				if diff := cmp.Diff(c.want, strings.TrimSpace(string(got))); diff != "" {
					t.Errorf("view (-want +got):\n%s", diff)
				}
			}
			if string(body) != c.body {
				t.Errorf("the body became %q, want it unchanged: %q", body, c.body)
			}
		})
	}
}

func TestDeepJSONHasNoView(t *testing.T) {
	nested := func(open, inner, end string, depth int) string {
		return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
	}
	for _, c := range []struct {
		claim, body string
		want        bool
	}{
		{"1 000 arrays", nested("[", "1", "]", 1000), true},
		{"1 001 arrays", nested("[", "1", "]", 1001), false},
		{"100 000 arrays", nested("[", "1", "]", 100_000), false},
		{"1 000 000 arrays", nested("[", "1", "]", 1_000_000), false},
		{"1 000 000 objects", nested(`{"a":`, "1", "}", 1_000_000), false},
		{"1 000 000 arrays that are not closed", strings.Repeat("[", 1_000_000), false},
		{"brackets in strings", `["` + strings.Repeat(`[{\"`, 5000) + `"]`, true},
		{"many arrays that are not nested", "[" + strings.Repeat("[],", 5000) + "[]]", true},
		{"deep nesting after a string with quotes", `["\\\"", ` + nested("[", "", "]", 5000) + "]", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			v := payload.New(nil, http.Header{}, "application/json", []byte(c.body))
			if got := v.JSON() != nil; got != c.want {
				t.Errorf("got a view: %t, want: %t", got, c.want)
			}
			if !json.Valid(v.Render()) && c.want {
				t.Error("Render is not valid JSON")
			}
		})
	}
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ claim, contentType, body, want string }{
		{"JSON as it is", "application/json", `{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`},
		{"a form as its fields", "application/x-www-form-urlencoded", "a=1", `{"a":"1"}`},
		{"text as a string", "text/plain", "a\n\"b\"", `"a\n\"b\""`},
		{"malformed JSON as a string", "application/json", `{"a`, `"{\"a"`},
		{"bytes in base64", "image/png", "\xff\x00", `{"base64":"/wA="}`},
		{"an empty body as null", "text/plain", "", `null`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := string(payload.New(nil, http.Header{}, c.contentType, []byte(c.body)).Render())
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A webhook can have many targets, which all use Render.
func TestBodyIsRenderedOnce(t *testing.T) {
	v := payload.New(nil, http.Header{}, "text/plain", []byte("hello"))
	one, two := v.Render(), v.Render()
	if &one[0] != &two[0] {
		t.Error("rendered twice, want the same bytes")
	}
}

func TestTransformedViews(t *testing.T) {
	v := payload.New(nil, payload.HeaderBlock("X-A: b\r\n"), "application/json", []byte(`{"id":7}`))
	other := v.WithTransformed(json.RawMessage(`[1]`))
	if got := string(other.Render()); got != "[1]" {
		t.Errorf("Render: got %s, want the transformed JSON", got)
	}
	if got, _ := other.Text(mustParse(t, "body.id")); got != "7" {
		t.Errorf("body.id: got %q, want the event's own", got)
	}
	if got := other.Header("X-A"); got != "b" {
		t.Errorf("X-A: got %q, want the event's own", got)
	}
	if string(other.Transformed()) != "[1]" || v.Transformed() != nil || string(v.Render()) != `{"id":7}` {
		t.Errorf("got %s, and from the original view %s and %s; want [1], no JSON and the body", other.Transformed(), v.Transformed(), v.Render())
	}
}

func TestTransformedViewHasTheSameCloudEvent(t *testing.T) {
	other := payload.New(nil, binary(), "", []byte(`{"id":7}`)).WithTransformed(json.RawMessage(`[1]`))
	if got, want := string(other.CloudEvent()), `{`+required+`,"data":{"id":7}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAt(t *testing.T) {
	for _, contentType := range []string{"application/json", "image/png"} {
		body := `{"a":[{"b":"x"}],"007":1}`
		if contentType == "image/png" {
			body = "\x89PNG" + body
		}
		v := payload.New(nil, http.Header{"A": {"x"}}, contentType, []byte(body))
		for path, want := range map[string]string{"body.a.0.b": `"x"`, "body.007": "1", "body.a.1": "", "header.a": "", "sha256.body": "", "body.a.0.b + body.a.0.b": ""} {
			if contentType == "image/png" {
				want = ""
			}
			if got := v.At(mustParse(t, path)); got.Raw != want || got.Exists() != (want != "") {
				t.Errorf("%s of %s: got %s, %t; want %s", path, contentType, got.Raw, got.Exists(), want)
			}
		}
	}
}

func TestAllHeaders(t *testing.T) {
	var got []string
	for name, value := range payload.HeaderBlock("Host: a\r\nX-B:\r\nodd\r\n: none\r\nx-c:  d:e \r\nlast: x").All() {
		if got = append(got, name+"="+value); name == "last" {
			break
		}
	}
	if want := "Host=a X-B= x-c=d:e last=x"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
