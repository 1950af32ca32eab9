package payload_test

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/payload"
)

// allocated returns the number of bytes that do allocates.
func allocated(do func()) int {
	least := math.MaxInt
	for range 3 { // what pools have dropped, and other goroutines allocate, differs
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, int(after.TotalAlloc-before.TotalAlloc))
	}
	return least
}

// A view allocates at most MemoryCost for every kind of body.
func TestMemoryCostBoundsView(t *testing.T) {
	const form, xml, multipart = "application/x-www-form-urlencoded", "application/xml", "multipart/form-data; boundary=b"
	part := "--b\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n"
	wide := strings.Repeat("{\x00\"\x00a\x00\"\x00:\x00[\x001\x00]\x00}\x00", 1)
	for claim, c := range map[string]struct{ contentType, body string }{
		"JSON":                      {"application/json", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
		"JSON of many members":      {"application/json", "[" + strings.Repeat(`{"a":1},`, 100_000) + "1]"},
		"JSON that is no UTF-8":     {"application/json", `{"a":"` + strings.Repeat("x\xff", 1<<19) + `"}`},
		"JSON in UTF-16":            {"application/json", wide},
		"long JSON in UTF-16":       {"application/json", "[\x00\"\x00" + strings.Repeat("\x42\x30", 1<<19) + "\"\x00]\x00"},
		"a form":                    {form, "a=" + strings.Repeat("x", 1<<20)},
		"a form of many fields":     {form, strings.Repeat("a&", 9999)},
		"a form of many names":      {form, names(9999)},
		"a form of controls":        {form, "a=" + strings.Repeat("\x01", 1<<20)},
		"a form of escapes":         {form, "a=" + strings.Repeat("%01", 1<<18)},
		"a form of no UTF-8":        {form, "a=" + strings.Repeat("%ffx", 1<<18)},
		"a multipart form":          {multipart, fmt.Sprintf(part, "a", strings.Repeat("x", 1<<20)) + "--b--"},
		"multipart of controls":     {multipart, fmt.Sprintf(part, "a", strings.Repeat("\x01", 1<<20)) + "--b--"},
		"multipart of many parts":   {multipart, strings.Repeat(fmt.Sprintf(part, "a", "b"), 999) + "--b--"},
		"multipart of long headers": {multipart, strings.Repeat("--b\r\nX: "+strings.Repeat("x", 16_000)+"\r\n\r\n\r\n", 200) + "--b--"},
		"multipart of many headers": {multipart, strings.Repeat("--b\r\n"+strings.Repeat("a: b\r\n", 1000)+"\r\n\r\n", 200) + "--b--"},
		"XML":                       {xml, "<a>" + strings.Repeat("x", 1<<20) + "</a>"},
		"XML of many elements":      {xml, "<r>" + strings.Repeat("<a/>", 99_000) + "</r>"},
		"XML of nested elements":    {xml, strings.Repeat("<a>", 499) + strings.Repeat("</a>", 499)},
		"XML of attributes":         {xml, "<r>" + strings.Repeat(`<a b="" c="" d=""/>`, 24_000) + "</r>"},
		"XML of controls":           {xml, "<a>" + strings.Repeat("\t\"", 1<<19) + "</a>"},
		"XML of entities":           {xml, "<a>" + strings.Repeat("&#9;", 1<<18) + "</a>"},
		"XML of long texts":         {xml, "<r>" + strings.Repeat("<a>"+strings.Repeat("x", 1000)+"</a>", 1000) + "</r>"},
	} {
		body := []byte(c.body)
		cost := payload.MemoryCost(c.contentType, body)
		var view []byte
		used := allocated(func() { view = payload.New(nil, http.Header{}, c.contentType, body).JSON() })
		if view == nil {
			t.Errorf("%s: has no view", claim)
		}
		if used > cost+8<<10 {
			t.Errorf("%s: the view of %d bytes allocates %d, and its cost is %d", claim, len(body), used, cost)
		}
		t.Logf("%s: %d bytes, allocated %d, cost %d", claim, len(body), used, cost)
	}
}

func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "n%d=%d&", i, i)
	}
	return b.String()
}
