package payload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// indexed looks up paths one by one, and all of them with one Index.
func indexed(t testing.TB, contentType, body string, texts []string) (single, together []string) {
	t.Helper()
	view := payload.New(nil, payload.HeaderBlock(nil), contentType, []byte(body))
	var x payload.Index
	found := make([]gjson.Result, len(texts))
	for i, text := range texts {
		p, err := payload.ParsePath(text)
		if err != nil {
			t.Skip()
		}
		if !x.Add(p, i) {
			t.Skip()
		}
		r := view.At(p)
		single = append(single, r.Type.String()+" "+strings.TrimSpace(r.Raw)+" "+r.Str)
	}
	view.Find(&x, found)
	for _, r := range found {
		together = append(together, r.Type.String()+" "+r.Raw+" "+r.Str)
	}
	return single, together
}

var indexCases = [][2]string{
	{`{"a":1,"b":{"c":[1,{"d":"x\"y"}]},"a":2}`, "body.a body.b body.b.c body.b.c.1 body.b.c.1.d body.b.c.2 body.z body.b.c.d"},
	{`{"a":1,"a":{"b":2},"a":{"b":3}}`, "body.a.b body.a"},
	{`{"é":1,"é":{"b":2},"x*":{"b":[3]},"x*":4}`, "body.é body.é.b body.x*.b.0 body.x*"},
	{` [ 1 , [ 2 , 3 ] , { "0" : 4 } ] `, "body.0 body.1.1 body.1.01 body.2.0 body.7 body.1"},
	{`{"\u0061":"\\","b\"":[],"c":"","d":{}}`, "body.a body.b\" body.c body.d body.d.e"},
	{`{"a":{"b":{"c":null}},"0":true,"1":[false]}`, "body.a.b.c body.0 body.1.0 body.a.b.c.d"},
	{`"x"`, "body.a body.0"},
	{`{"specversion":"1.0","id":"i","source":"s","type":"t","data":{"a":[1]}}`, "cloudevent.data.a.0 cloudevent.id body.id"},
}

func TestIndexFindsTheSameAsPaths(t *testing.T) {
	for _, c := range indexCases {
		single, together := indexed(t, "application/cloudevents+json", c[0], strings.Fields(c[1]))
		if diff := cmp.Diff(single, together); diff != "" {
			t.Errorf("%s on %s (-one by one +with an Index):\n%s", c[1], c[0], diff)
		}
	}
}

func FuzzIndex(f *testing.F) {
	for _, c := range indexCases {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, body, paths string) {
		single, together := indexed(t, "application/json", body, strings.Fields(paths))
		if diff := cmp.Diff(single, together); diff != "" {
			t.Errorf("%q on %q (-one by one +with an Index):\n%s", paths, body, diff)
		}
	})
}

func TestIndexReadsViewOnce(t *testing.T) {
	m := meter.New(t.Context(), meter.EventLimit, nil)
	body := `{"big":"` + strings.Repeat("x", 8<<20) + `"}`
	view := payload.New(m, payload.HeaderBlock(nil), "application/json", []byte(body))
	var paths []payload.Path
	for _, text := range []string{"body.a", "body.b.c", "body.x + body.y + body.z", "body.é"} {
		for range 5 {
			p, err := payload.ParsePath(text)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, p)
		}
	}
	if got, ok := view.FirstText(paths); ok || m.Err() != nil || m.Steps() > len(body) {
		t.Errorf("got %q, %v after %d steps, want no value after at most %d steps", got, m.Err(), m.Steps(), len(body))
	}
}

func BenchmarkFind(b *testing.B) {
	var members []string
	for range 50_000 {
		members = append(members, `{"id":"abc","amount":12345,"tags":["a","b"],"note":"a text of some words"}`)
	}
	body := []byte(`{"list":[` + strings.Join(members, ",") + `],"last":1}`)
	p, _ := payload.ParsePath("body.absent.path")
	q, _ := payload.ParsePath("body.other")
	var x payload.Index
	x.Add(p, 0)
	x.Add(q, 1)
	b.Run("one", func(b *testing.B) {
		view := payload.New(nil, payload.HeaderBlock(nil), "application/json", body)
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			view.At(p)
		}
	})
	b.Run("together", func(b *testing.B) {
		view := payload.New(nil, payload.HeaderBlock(nil), "application/json", body)
		b.SetBytes(int64(len(body)))
		found := make([]gjson.Result, 2)
		for b.Loop() {
			view.Find(&x, found)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			payload.New(nil, payload.HeaderBlock(nil), "application/json", body).JSON()
		}
	})
}
