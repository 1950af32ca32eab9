package payload_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/payload"
)

const formType = "application/x-www-form-urlencoded"

func TestFieldsKeepTheirOrder(t *testing.T) {
	for _, c := range []struct{ claim, contentType, body, want string }{
		{"a form", formType, "z=1&a=2&z=3&=4&m", `{"z":["1","3"],"a":"2","":"4","m":""}`},
		{"a form with semicolons", formType, "a=1;b=2", ``},
		{"a form with a NUL", formType, "a%00=%00", `{"a\u0000":"\u0000"}`},
		{"a multipart form", multipart, parts(`name="z"|1`, `name="a"; filename="f"|2`, `name="z"|3`), `{"z":["1","3"],"a":{"content_type":"","filename":"f","size":1}}`},
		{"a field with a text and a file", multipart, parts(`name="a"|1`, `name="a"; filename="f"|23`), `{"a":["1",{"content_type":"","filename":"f","size":2}]}`},
		{"a part without a name", multipart, parts(`x="a"|1`, `name="b"|2`), `{"b":"2"}`},
		{"no parts", multipart, "--XX--\r\n", `{}`},
		{"a path as a file name", multipart, parts(`name="a"; filename="../../etc/passwd"|`), `{"a":{"content_type":"","filename":"passwd","size":0}}`},
		{"invalid UTF-8 and a NUL in a part", multipart, parts("name=\"a\"|\xff\x00"), `{"a":"` + "\uFFFD" + `\u0000"}`},
		{"no boundary", multipart, "x", ``},
		{"no last boundary", multipart, "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--XX\r\n", ``},
		{"an empty body", multipart, "", ``},
		{"a malformed part header", multipart, "--XX\r\nnone\r\n\r\n1\r\n--XX--\r\n", ``},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, viewOf(c.contentType, c.body)); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormsAreBounded(t *testing.T) {
	repeated := func(part string, n int) string { return strings.Repeat(part, n) }
	const text = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n"
	for _, c := range []struct {
		claim, contentType, body string
		want                     bool
	}{
		{"10 000 fields", formType, repeated("a=1&", 9_999) + "b=2", true},
		{"10 001 fields", formType, repeated("a=1&", 10_000) + "b=2", false},
		{"1 000 parts", multipart, repeated(text, 1000) + "--XX--", true},
		{"1 001 parts", multipart, repeated(text, 1001) + "--XX--", false},
		{"100 000 parts", multipart, repeated(text, 100_000) + "--XX--", false},
		{"100 000 headers of a part", multipart, "--XX\r\n" + repeated("A: b\r\n", 100_000) + "\r\n1\r\n--XX--", false},
		{"a part header that does not end", multipart, "--XX\r\nA: " + repeated("b", 12<<20), false},
		{"17 KiB of headers", multipart, "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\nA: " + repeated("b", 17<<10) + "\r\n\r\n1\r\n--XX--", false},
		{"a long first line", multipart, repeated("x", 1<<20) + text + "--XX--", false},
		{"a nested multipart is text", multipart, parts("name=\"a\"\r\nContent-Type: multipart/mixed; boundary=YY|" + repeated("--YY\r\n\r\n", 10_000)), true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := viewOf(c.contentType, c.body) != ""; got != c.want {
				t.Errorf("got a view: %t, want: %t", got, c.want)
			}
		})
	}
}

// The size of a file is counted; its content is neither kept nor written to disk.
func TestFilesOfFormsNeedNoMemory(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	const size = 24 << 20
	body := append([]byte("--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.bin\"\r\n\r\n"), bytes.Repeat([]byte("0123456789\r\n--X-"), size/16)...)
	v := payload.New(nil, http.Header{}, multipart, append(body, "\r\n--XX--\r\n"...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := string(v.JSON())
	runtime.ReadMemStats(&after)
	if want := fmt.Sprintf(`{"f":{"content_type":"","filename":"x.bin","size":%d}}`, size); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/8 {
		t.Errorf("allocated %d bytes for a file of %d, want next to none", used, size)
	}
	if files, _ := os.ReadDir(folder); len(files) > 0 {
		t.Errorf("found %v, want no files", files)
	}
}

// A view is built at the first use, and reused.
func TestViewsAreBuiltOnce(t *testing.T) {
	for _, c := range []struct{ contentType, body string }{
		{formType, "a=1"}, {multipart, parts(`name="a"|1`)}, {xmlType, "<a>1</a>"}, {"application/json", utf16Of(`{"a":1}`, true)}, {structured, `{` + required + `,"data":{"a":1}}`},
	} {
		v := payload.New(nil, http.Header{}, c.contentType, []byte(c.body))
		if n := testing.AllocsPerRun(10, func() { v.Header("X-None") }); n > 0 {
			t.Errorf("%s: a header costs %v allocations, want none", c.contentType, n)
		}
		other := v.WithTransformed([]byte("1"))
		event, view := other.CloudEvent(), other.JSON()
		if &view[0] != &v.JSON()[0] || &view[0] != &v.Render()[0] {
			t.Errorf("%s: got another view the second time, want the same", c.contentType)
		}
		if again := v.CloudEvent(); len(event) != len(again) || len(event) > 0 && &event[0] != &again[0] {
			t.Errorf("%s: got another event the second time, want the same", c.contentType)
		}
		if n := testing.AllocsPerRun(10, func() { v.JSON(); other.JSON(); v.CloudEvent(); other.CloudEvent() }); n > 0 {
			t.Errorf("%s: the second use costs %v allocations, want none", c.contentType, n)
		}
	}
}

func TestMissingViewIsParsedOnce(t *testing.T) {
	v := payload.New(nil, http.Header{}, xmlType, []byte("<a>"))
	v.JSON()
	if n := testing.AllocsPerRun(10, func() { v.JSON() }); n > 0 {
		t.Errorf("got %v allocations the second time, want none", n)
	}
}

func TestLargeNamesAndNumbers(t *testing.T) {
	name, digits := strings.Repeat("k", 1<<20), strings.Repeat("9", 1<<20)
	v := payload.New(nil, http.Header{}, "application/json", []byte(`{"`+name+`":1,"n":`+digits+`,"z":2}`))
	if got, _ := v.Text(mustParse(t, "body.n")); got != digits {
		t.Errorf("got %d digits, want %d", len(got), len(digits))
	}
	if got, _ := v.Text(mustParse(t, "body.z")); got != "2" {
		t.Errorf("after a long name: got %q, want 2", got)
	}
}

func TestDropDuplicateMembers(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":1,"a":2}`, `{"a":1}`},
		{`{"a":1,"b":2,"a":{"c":[3]},"d":4}`, `{"a":1,"b":2,"d":4}`},
		{`{"a":{"a":1,"a":2},"b":[{"x":1,"x":2},{"x":3}]}`, `{"a":{"a":1},"b":[{"x":1},{"x":3}]}`},
		{`{"a":1,"\u0061":2,"A":3}`, `{"a":1,"A":3}`},
		{" { \"a\\\"}\" :\t[ 1 , \"x\\\\\" , {} , [ ] ] , \"b\" : null } ", `{"a\"}":[1,"x\\",{},[]],"b":null}`},
		{`[9007199254740993,1.50e-3,true,"\ud800"]`, `[9007199254740993,1.50e-3,true,"\ud800"]`},
		{`"x"`, `"x"`}, {` 7 `, `7`}, {`{}`, `{}`}, {`null`, `null`},
	} {
		if got := string(payload.DropDuplicateMembers([]byte(c.in))); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}
