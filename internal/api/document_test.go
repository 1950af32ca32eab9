package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

type thing struct {
	Name  string     `json:"name"`
	Count int        `json:"count,omitempty" maximum:"100"`
	Inner thingInner `json:"inner,omitzero"`
	List  []int      `json:"list,omitempty"`
	Raw   jsonObject `json:"raw,omitempty"`
	ThingEmbedded
}

type thingInner struct {
	A int    `json:"a,omitempty"`
	B string `json:"b,omitempty"`
}

// ThingEmbedded is exported, or else the framework ignores it.
type ThingEmbedded struct {
	Flag *bool `json:"flag,omitempty"`
	Size int   `json:"size,omitempty"`
}

func newDocument(t *testing.T, raw string) (document[thing], *server) {
	t.Helper()
	s := &server{schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)}
	s.schemas.Schema(reflect.TypeFor[thing](), true, "")
	var d document[thing]
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		t.Fatal(err)
	}
	return d, s
}

func locations(faults eventhook.Faults) (all []string) {
	for _, f := range faults {
		all = append(all, f.Location)
	}
	return all
}

func TestDocumentIsRead(t *testing.T) {
	for _, c := range []struct {
		claim, raw string
		want       thing
		at         []string
	}{
		{"all members", `{"name":"n","count":3,"inner":{"a":1},"list":[1],"raw":{"b":1,"a":null},"flag":true}`,
			thing{Name: "n", Count: 3, Inner: thingInner{A: 1}, List: []int{1}, Raw: jsonObject(`{"b":1,"a":null}`), ThingEmbedded: ThingEmbedded{Flag: new(true)}}, nil},
		{"a required member is missing", `{}`, thing{}, []string{"body.name"}},
		{"a valid member beside an invalid one", `{"name":"n","count":"x","list":[2]}`, thing{Name: "n", List: []int{2}}, []string{"body.count"}},
		{"not an object", `3`, thing{}, []string{"body"}},
		{"null", `null`, thing{}, []string{"body"}},
		{"a number beyond float64", `{"name":"n","list":[1,1e400,1e500]}`, thing{Name: "n", List: []int{1, 0, 0}}, []string{"body.list[1]"}},
		{"a number beyond int64", `{"name":"n","size":9223372036854775808}`, thing{Name: "n"}, []string{"body.size"}},
		{"an integer with an exponent", `{"name":"n","inner":{"a":1e2}}`, thing{Name: "n"}, []string{"body.inner.a"}},
		{"a name in another case", `{"Name":"n"}`, thing{Name: "n"}, []string{"body.name", "body.Name"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			d, s := newDocument(t, c.raw)
			got, faults := d.read(s)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.at, locations(faults)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", faults, diff)
			}
		})
	}
}

func TestDocumentPatches(t *testing.T) {
	have := thing{Name: "n", Count: 3, Inner: thingInner{A: 1, B: "b"}, List: []int{1, 2}, Raw: jsonObject(`{"a":1}`), ThingEmbedded: ThingEmbedded{Flag: new(false), Size: 9}}
	with := func(change func(*thing)) thing {
		changed := have
		change(&changed)
		return changed
	}
	for _, c := range []struct {
		claim, patch string
		want         thing
		at           []string
	}{
		{"an empty patch", `{}`, have, nil},
		{"a member", `{"count":4}`, with(func(t *thing) { t.Count = 4 }), nil},
		{"a nested member", `{"inner":{"b":"c"}}`, with(func(t *thing) { t.Inner.B = "c" }), nil},
		{"a nested member is removed", `{"inner":{"b":null}}`, with(func(t *thing) { t.Inner.B = "" }), nil},
		{"a list is replaced", `{"list":[3]}`, with(func(t *thing) { t.List = []int{3} }), nil},
		{"members are removed", `{"count":null,"list":null,"flag":null,"raw":null}`, with(func(t *thing) { t.Count, t.List, t.Flag, t.Raw = 0, nil, nil, nil }), nil},
		{"a whole member keeps its nulls and numbers", `{"raw":{"b":null,"c":9007199254740993,"d":1.0}}`,
			with(func(t *thing) { t.Raw = jsonObject(`{"b":null,"c":9007199254740993,"d":1.0}`) }), nil},
		{"a required member is removed", `{"name":null}`, with(func(t *thing) { t.Name = "" }), []string{"body.name"}},
		{"an unknown member", `{"x":1}`, have, []string{"body.x"}},
		{"an unknown member is removed", `{"x":null}`, have, []string{"body.x"}},
		{"not an object", `[]`, have, []string{"body"}},
		{"a duplicate name", `{"count":4,"count":5}`, with(func(t *thing) { t.Count = 5 }), []string{"body.count"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			d, s := newDocument(t, c.patch)
			got, faults, err := d.mergePatched(s, have, "raw")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("patched (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.at, locations(faults)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", faults, diff)
			}
		})
	}
}

// TestMergePatch has the examples of RFC 7396, appendix A, whose patches are
// objects.
func TestMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		have, _ := decodeAny([]byte(c[0])).(map[string]any)
		patch, _ := decodeAny([]byte(c[1])).(map[string]any)
		got, err := json.Marshal(mergePatch(have, patch))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s changed by %s: got %s (%v), want %s", c[0], c[1], got, err, c[2])
		}
	}
}

func TestJoinOmitsFaultsAtAWrongShape(t *testing.T) {
	fault := func(at ...string) (faults eventhook.Faults) {
		for _, a := range at {
			faults.Add(a, "x")
		}
		return faults
	}
	for _, c := range []struct {
		claim              string
		shape, rules, want []string
	}{
		{"at different locations", []string{"body.a"}, []string{"body.b", "body.ab"}, []string{"body.a", "body.b", "body.ab"}},
		{"at or within the same location", []string{"body.a"}, []string{"body.a", "body.a.b", "body.a[0]"}, []string{"body.a"}},
		{"the whole body has a wrong shape", []string{"body"}, []string{"body.b"}, []string{"body"}},
		{"only rules", nil, []string{"body.b", "body.b"}, []string{"body.b", "body.b"}},
	} {
		if diff := cmp.Diff(c.want, locations(join(fault(c.shape...), fault(c.rules...)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
	if err := combinedError(nil, nil); err != nil {
		t.Errorf("without faults: got %v, want nil", err)
	}
}

// TestDeepDocumentsAreRead in linear time.
func TestDeepDocumentsAreRead(t *testing.T) {
	const deep = 9_900
	long := strings.Repeat("x", 400_000)
	for _, raw := range []string{
		strings.Repeat(`{"inner":`, deep) + `1e400` + strings.Repeat(`}`, deep),
		`{"` + long + `":` + strings.Repeat(`[`, deep) + `1e400` + strings.Repeat(`]`, deep) + `}`,
		`{"` + long + `":` + strings.Repeat(`{"a":`, deep) + `1e400` + strings.Repeat(`}`, deep) + `}`,
	} {
		d, s := newDocument(t, raw)
		_, faults, err := d.mergePatched(s, thing{Name: "n"}, "raw")
		if err != nil || len(faults) == 0 {
			t.Errorf("%.40s: got the faults %v and %v, want at least one fault and nil", raw, faults, err)
		}
		for _, f := range faults {
			if len(f.Location) > 300 {
				t.Errorf("%.40s: a location has %d bytes", raw, len(f.Location))
			}
		}
	}
}
