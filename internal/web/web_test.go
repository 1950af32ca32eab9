package web

import (
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Number(0), "0"}, {Number(999), "999"}, {Number(1284), "1\u202f284"}, {Number(-1284567), "\u22121\u202f284\u202f567"},
		{Bytes(1023), "1023 B"}, {Bytes(1024), "1 KB"}, {Bytes(1229), "1.2 KB"}, {Bytes(5 << 30), "5 GB"},
		{Duration(0), "0 ms"}, {Duration(400 * time.Microsecond), "0.4 ms"}, {Duration(31 * time.Millisecond), "31 ms"}, {Duration(2400 * time.Millisecond), "2.4 s"},
		{Duration(12 * time.Minute), "12 min"}, {Duration(3*time.Hour + 20*time.Minute), "3 h 20 min"}, {Duration(3 * time.Hour), "3 h"}, {Duration(100 * time.Hour), "4 d"},
		{Percent(0.99999), "99.99 %"}, {Percent(1), "100 %"}, {Percent(0.5), "50 %"}, {Percent(0), "0 %"},
		{Rate(212.4), "212/s"}, {Rate(3.41), "3.4/s"}, {Rate(0.017), "0.02/s"}, {Rate(0), "0/s"},
		{Short("01a2c84f-0000-7000-8000-00000000c84f"), "01a2…00c84f"}, {Short("short"), "short"},
		{Plural(1, "delivery", "deliveries"), "1 delivery"}, {Plural(0, "delivery", "deliveries"), "0 deliveries"},
		{Host("https://billing.example/hooks"), "billing.example"}, {Host("not a url"), "not a url"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTimesAreRelativeToNow(t *testing.T) {
	now := time.Date(2026, 1, 31, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Time
		want string
	}{{now, "now"}, {now.Add(-12 * time.Minute), "12 min ago"}, {now.Add(3 * time.Hour), "in 3 h"}} {
		if got := Ago(c.at, now); got != c.want {
			t.Errorf("Ago(%v), got %q, want %q", c.at, got, c.want)
		}
	}
}

const attack = `"><script>alert(1)</script>`

func TestTreeShowsEveryTextAsText(t *testing.T) {
	tree := string(Tree([]byte(`{"` + `\"><script>alert(1)</script>` + `":["\"><script>alert(1)</script>",1,null,true,{"a":{}}]}`)))
	if strings.Contains(tree, "<script") {
		t.Errorf("the tree has markup of the document: %s", tree)
	}
	if opened, closed := strings.Count(tree, "<details"), strings.Count(tree, "</details>"); opened != 4 || closed != 4 {
		t.Errorf("details elements, got %d opened and %d closed, want 4 and 4: %s", opened, closed, tree)
	}
}

func TestTreeOfALargeDocumentIsBounded(t *testing.T) {
	for name, document := range map[string]string{"wide": "[" + strings.Repeat("1,", 100_000) + "1]", "deep": strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"long": `["` + strings.Repeat("é", 1<<20) + `"]`, "long names": "[" + strings.Repeat(`{"`+strings.Repeat(`<`, 400)+`":"`+strings.Repeat(`>`, 400)+`"},`, 1000) + "1]"} {
		tree := string(Tree([]byte(document)))
		if len(tree) > 70_000 || !strings.Contains(tree, "first part") && name != "long" {
			t.Errorf("%s: the tree has %d bytes, want at most 70000 and a note: %s", name, len(tree), tree[max(0, len(tree)-200):])
		}
		if opened, closed := strings.Count(tree, "<details"), strings.Count(tree, "</details>"); opened != closed || opened == 0 {
			t.Errorf("%s: details elements, got %d opened and %d closed", name, opened, closed)
		}
	}
	if got := Tree([]byte("not json")); got != "" {
		t.Errorf("tree of text, got %q, want none", got)
	}
}

func TestTreeOfABeginning(t *testing.T) {
	for _, c := range []struct{ raw, has, lacks string }{
		{`{"a":{"b":"x"},"n":123,"m":45`, `<span class="number">123</span>`, "45"},
		{`[{"a":1},{"a":"unfinish`, `<span class="number">1</span>`, "unfinish"},
		{` [1, `, `<span class="number">1</span>`, "null"},
	} {
		tree := string(TreeOfStart([]byte(c.raw)))
		if !strings.Contains(tree, c.has) || strings.Contains(tree, c.lacks) || !strings.Contains(tree, "first part") {
			t.Errorf("tree of %s, got %s", c.raw, tree)
		}
		if opened, closed := strings.Count(tree, "<details"), strings.Count(tree, "</details>"); opened != closed {
			t.Errorf("tree of %s: %d elements opened, %d closed", c.raw, opened, closed)
		}
	}
	for _, raw := range []string{"", "a=1,b", "<a>,", "[x,1", "1,2,3", `{"a" 1,`} {
		if got := TreeOfStart([]byte(raw)); got != "" {
			t.Errorf("tree of %s, got %s, want none", raw, got)
		}
	}
}

func TestStatusOfASenderIsText(t *testing.T) {
	if got := string(Status(attack)); strings.Contains(got, "<script") || !strings.Contains(got, `class="status muted"`) {
		t.Errorf("status, got %s", got)
	}
}

func TestStatusesOfTheAPIAreWords(t *testing.T) {
	if got := string(StatusAs("running", "in_progress")); !strings.Contains(got, ">in progress<") || !strings.Contains(got, `title="in_progress"`) {
		t.Errorf("status, got %s", got)
	}
	for _, c := range []struct{ state, circuit, want string }{
		{"active", "closed", "active"}, {"active", "", "active"}, {"active", "half_open", "circuit half open"}, {"disabled", "open", "disabled"},
	} {
		if got := string(Subscription(c.state, c.circuit)); !strings.Contains(got, "</span>"+c.want+"</span>") {
			t.Errorf("subscription %s, circuit %q: got %s, want %s", c.state, c.circuit, got, c.want)
		}
	}
}

func TestLogarithmicAxis(t *testing.T) {
	for _, c := range []struct {
		lowest, highest float64
		marks           []float64
	}{
		{8, 1200, []float64{1, 10, 100, 1000, 10_000}}, {12, 90, []float64{10, 100}}, {100, 100, []float64{100, 1000}},
		{0, 0, []float64{1, 10}}, {1, 1e8, []float64{1, 100, 1e4, 1e6, 1e8}},
	} {
		a := logAxis(c.lowest, c.highest)
		if !slices.Equal(a.marks, c.marks) {
			t.Errorf("%g to %g: got the marks %v, want %v", c.lowest, c.highest, a.marks, c.marks)
		}
		if low, high := a.share(0), a.share(c.marks[len(c.marks)-1]); low != 0 || high != 1 {
			t.Errorf("%g to %g: got the shares %g and %g, want 0 and 1", c.lowest, c.highest, low, high)
		}
	}
}

func TestChartLeavesOutMissingValues(t *testing.T) {
	chart := Chart{Title: attack, Format: Milliseconds, Series: []Series{{Name: "p50", Class: "ok", Values: []float64{1, math.NaN(), 2}}, {Name: "none", Values: []float64{math.NaN()}}}}
	svg := string(chart.SVG())
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "<script") {
		t.Errorf("the chart has NaN or markup of a title: %s", svg)
	}
	if !strings.Contains(svg, "p50: last 2 ms, highest 2 ms; none: no values") {
		t.Errorf("the chart lacks its description: %s", svg)
	}
}

func TestAssetsAreCachedByTheirContent(t *testing.T) {
	assets := NewAssets("/console/static/", map[string][]byte{"theme.css": []byte("a{}")})
	w := httptest.NewRecorder()
	assets.ServeHTTP(w, httptest.NewRequest(http.MethodGet, assets.URL("theme.css"), nil))
	if w.Code != http.StatusOK || w.Body.String() != "a{}" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") {
		t.Errorf("answer, got %d %q %v", w.Code, w.Body, w.Header())
	}
	other := NewAssets("/console/static/", map[string][]byte{"theme.css": []byte("b{}")})
	if assets.URL("theme.css") == other.URL("theme.css") {
		t.Error("files of different content have the same name")
	}
	w = httptest.NewRecorder()
	assets.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/static/../../etc/passwd", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("unknown file, got %d, want 404", w.Code)
	}
}

func TestBudgetsOfStyleAndScript(t *testing.T) {
	assets := NewAssets("/", nil)
	size := func(extension string) (total int) {
		for name, file := range assets.files {
			if strings.HasSuffix(name, extension) {
				total += len(file.zipped)
			}
		}
		return total
	}
	const style, script = 24 << 10, 60 << 10
	if got := size(".css"); got > style {
		t.Errorf("compressed style, got %d bytes, want at most %d", got, style)
	}
	if got := size(".js"); got > script {
		t.Errorf("compressed script, got %d bytes, want at most %d", got, script)
	}
}
