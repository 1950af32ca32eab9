package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTextsAreChecked(t *testing.T) {
	for _, c := range []struct {
		claim, raw string
		at         []string
	}{
		{"no fault", `{"a":{"x":1},"b":[{"x":1},{"x":2}],"c":"a","d":1e400,"e":null}`, nil},
		{"not an object", `"x"`, nil},
		{"a duplicate name", `{"a":1,"b":2,"a":1}`, []string{"body.a"}},
		{"a name three times", `{"a":1,"a":2,"a":1}`, []string{"body.a", "body.a"}},
		{"a duplicate name with an escape", `{"a":1,"\u0061":2}`, []string{"body.a"}},
		{"a nested duplicate name", `{"a":[{"x":1},{"x":{"y":[],"y":{}}}]}`, []string{"body.a[1].x.y"}},
		{"a value equal to its name", `{"a":"a","b":["a","a"]}`, nil},
		{"strings that are not UTF-8", "{\"a\":\"b\xff\",\"b\":[0,\"\xff\"]}", []string{"body.a", "body.b[1]"}},
		{"a document that is one string", "\"\xff\"", []string{"body"}},
		{"a name that is not UTF-8", "{\"a\":{\"\xff\":1}}", []string{"body.a.\uFFFD"}},
		{"a replacement character", "{\"a\":\"\uFFFD\"}", nil},
		{"more than maxFaults", `[` + strings.Repeat(`{"a":1,"a":1},`, 300) + `0]`, manyLocations(maxFaults)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			faults := checkTexts([]byte(c.raw))
			if diff := cmp.Diff(c.at, locations(faults)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", faults, diff)
			}
		})
	}
}

func manyLocations(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("body[%d].a", i))
	}
	return all
}

// TestDeepTextsAreChecked in linear time.
func TestDeepTextsAreChecked(t *testing.T) {
	const deep = 100_000
	raw := strings.Repeat(`{"abc":[`, deep) + strings.Repeat("\"\xff\",", 200) + `0` + strings.Repeat(`]}`, deep)
	faults := checkTexts([]byte(raw))
	if len(faults) != maxFaults || len(faults[0].Location) > 250 {
		t.Errorf("got %d faults, the first at %d bytes, want %d and short locations", len(faults), len(faults[0].Location), maxFaults)
	}
}

func TestDocumentsReportFaultsOfTexts(t *testing.T) {
	for raw, want := range map[string][]string{
		`{"name":"n","name":"m","count":1}`:                     {"body.name"},
		"{\"name\":\"n\xff\",\"count\":\"x\"}":                  {"body.name", "body.count"},
		`{"name":"n","raw":{"a":1,"a":2}}`:                      {"body.raw.a"},
		`{"name":"n","count":"x","count":"y"}`:                  {"body.count"},
		`{"name":"n","inner":{"b":"x","b":"y"},"unknown":true}`: {"body.inner.b", "body.unknown"},
	} {
		d, s := newDocument(t, raw)
		_, faults := d.read(s)
		if diff := cmp.Diff(want, locations(faults)); diff != "" {
			t.Errorf("%q read: %v (-want +got):\n%s", raw, faults, diff)
		}
		_, faults, err := d.mergePatched(s, thing{Name: "n"}, "raw")
		if diff := cmp.Diff(want, locations(faults)); diff != "" || err != nil {
			t.Errorf("%q as a patch: %v %v (-want +got):\n%s", raw, faults, err, diff)
		}
	}
}
