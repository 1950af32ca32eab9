package payload_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/chunks"
	"github.com/eventhook/eventhook/internal/payload"
)

func encode(t testing.TB, open func(io.Writer) (io.WriteCloser, error), text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}

func gzipped(t testing.TB, text string) []byte {
	return encode(t, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }, text)
}

func zlibbed(t testing.TB, text string) []byte {
	return encode(t, func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }, text)
}

func deflated(t testing.TB, text string) []byte {
	return encode(t, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) }, text)
}

func TestContentEncodings(t *testing.T) {
	for _, c := range []struct {
		value, name string
		ok          bool
	}{
		{"", "", true}, {"identity", "", true}, {"gzip", "gzip", true}, {"GZIP", "gzip", true}, {" x-gzip ", "gzip", true}, {"deflate", "deflate", true},
		{"identity, gzip", "gzip", true}, {"br", "", false}, {"zstd", "", false}, {"gzip, gzip", "", false}, {"deflate,gzip", "", false}, {"gzip;q=1", "", false},
	} {
		if name, ok := payload.ParseEncoding(c.value); name != c.name || ok != c.ok {
			t.Errorf("%q: got %q, %v, want %q, %v", c.value, name, ok, c.name, c.ok)
		}
	}
}

// The view, paths and Render use the decoded body. The hash is computed from the
// bytes as they were sent.
func TestEncodedBodyIsDecodedForView(t *testing.T) {
	const text = `{"id":"e1","n":1}`
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     string
	}{
		"gzip":                     {"gzip", gzipped(t, text), text},
		"x-gzip":                   {"x-gzip", gzipped(t, text), text},
		"gzip in several members":  {"gzip", append(gzipped(t, text[:5]), gzipped(t, text[5:])...), text},
		"zlib":                     {"deflate", zlibbed(t, text), text},
		"bare deflate":             {"deflate", deflated(t, text), text},
		"JSON that is not encoded": {"gzip", []byte(text), text},
		"the same, as deflate":     {"deflate", []byte(text), text},
		"no encoding":              {"", []byte(text), text},
		"a form":                   {"gzip", gzipped(t, "id=e1"), `{"id":"e1"}`},
	} {
		contentType := "application/json"
		if name == "a form" {
			contentType = "application/x-www-form-urlencoded"
		}
		v := payload.New(nil, http.Header{"Content-Encoding": {c.encoding}}, contentType, c.body)
		if got := string(v.JSON()); got != c.want {
			t.Errorf("%s: the view is %s, want %s", name, got, c.want)
		}
		if got := string(v.Render()); got != c.want {
			t.Errorf("%s: targets get %s, want %s", name, got, c.want)
		}
		path, _ := payload.ParsePath("body.id")
		if got, _ := v.Text(path); got != "e1" {
			t.Errorf("%s: body.id is %q, want e1", name, got)
		}
		hash, _ := payload.ParsePath("sha256.body")
		sent, _ := v.Text(hash)
		if asIs, _ := payload.New(nil, http.Header{}, contentType, c.body).Text(hash); sent != asIs {
			t.Errorf("%s: sha256.body is not that of the bytes as sent", name)
		}
	}
}

func TestEncodingOfStoredHeaders(t *testing.T) {
	v := payload.New(nil, payload.HeaderBlock("Host: x\r\nContent-Encoding: gzip\r\n"), "text/plain", gzipped(t, "hello"))
	if got := string(v.Render()); got != `"hello"` {
		t.Errorf("got %s, want the decoded text", got)
	}
}

// A body that is not in its content encoding has no view.
func TestBodyWithBadEncodingHasNoView(t *testing.T) {
	whole := gzipped(t, `{"id":"e1"}`)
	wrong := bytes.Clone(whole)
	wrong[len(wrong)-5] ^= 1 // the checksum
	for name, body := range map[string][]byte{
		"cut short": whole[:len(whole)-4], "a wrong checksum": wrong, "trailing bytes": append(bytes.Clone(whole), "x"...), "not gzip": []byte("not gzip"), "empty": {},
	} {
		v := payload.New(nil, http.Header{"Content-Encoding": {"gzip"}}, "application/json", body)
		if view := v.JSON(); view != nil {
			t.Errorf("%s: the view is %s, want none", name, view)
		}
		if !bytes.Equal(v.Content(), body) {
			t.Errorf("%s: the content is not the unchanged body", name)
		}
	}
}

// account is a chunks.Account of limit bytes.
type account struct{ taken, peak, limit int }

var errFull = errors.New("the budget is used up")

func (a *account) Take(n int) error {
	if a.taken+n > a.limit {
		return errFull
	}
	a.taken += n
	a.peak = max(a.peak, a.taken)
	return nil
}

func (a *account) Return(n int) { a.taken -= n }

// Decoding stops at the limit and when the account refuses more memory.
func TestDecompressionBombIsBounded(t *testing.T) {
	const limit = 1 << 20
	for name, body := range map[string][]byte{
		"gzip": gzipped(t, strings.Repeat("x", 8<<20)), "zlib": zlibbed(t, strings.Repeat("x", 8<<20)), "deflate": deflated(t, strings.Repeat("x", 8<<20)),
	} {
		encoding := map[bool]string{true: "gzip", false: "deflate"}[name == "gzip"]
		a := &account{limit: 1 << 30}
		used := allocated(func() {
			if _, err := payload.Decode(encoding, body, limit, a); !errors.Is(err, chunks.ErrTooLong) {
				t.Errorf("%s: got %v, want ErrTooLong", name, err)
			}
		})
		if a.taken != 0 || a.peak > 2*limit || used > 3*limit {
			t.Errorf("%s: %d bytes taken at the end, at most %d, and %d allocated; want 0, at most %d, and at most %d", name, a.taken, a.peak, used, 2*limit, 3*limit)
		}
		full := &account{limit: limit / 2}
		if _, err := payload.Decode(encoding, body, 8<<20, full); !errors.Is(err, errFull) || full.taken != 0 {
			t.Errorf("%s: got %v with %d bytes counted, want the account's error and 0", name, err, full.taken)
		}
	}
	a := &account{limit: 1 << 30}
	got, err := payload.Decode("gzip", gzipped(t, strings.Repeat("x", limit)), limit, a)
	if err != nil || len(got) != limit || a.taken != cap(got) {
		t.Errorf("at the limit: %d bytes, %v, %d counted", len(got), err, a.taken)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("gzip", gzipped(f, "{}"))
	f.Add("deflate", zlibbed(f, "{}"))
	f.Add("deflate", deflated(f, "{}"))
	f.Fuzz(func(t *testing.T, encoding string, body []byte) {
		const limit = 1 << 10
		a := &account{limit: 1 << 20}
		got, err := payload.Decode(encoding, body, limit, a)
		if len(got) > limit || err != nil && a.taken != 0 || err == nil && a.taken != cap(got) {
			t.Errorf("%d bytes, %v, %d counted", len(got), err, a.taken)
		}
	})
}
