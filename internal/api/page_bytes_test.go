package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestPagesOfLargeValuesEndEarly lists more bytes of promises than fit into a page.
func TestPagesOfLargeValuesEndEarly(t *testing.T) {
	r := setUp(t)
	const all, fit = 20, 16 // of 1 000 000 bytes each, in 16 MiB
	value := `"` + strings.Repeat("x", 1_000_000) + `"`
	for i := range all {
		p := r.createPromise(strings.Repeat("k", i+1), http.StatusCreated)
		r.admin("POST", T("acme")+"/promises/"+p.ID+"/resolve", `{"value":`+value+`}`).want(http.StatusOK)
	}
	path, seen := T("acme")+"/promises?limit=250", 0
	for _, want := range []int{fit, all - fit} {
		page := r.admin("GET", path, nil).want(http.StatusOK).object()
		items, _ := page["items"].([]any)
		if len(items) != want {
			t.Fatalf("a page of %d promises, want %d", len(items), want)
		}
		seen += len(items)
		cursor, _ := page["next_cursor"].(string)
		if (cursor == "") != (seen == all) {
			t.Errorf("after %d of %d the cursor is %q", seen, all, cursor)
		}
		path = T("acme") + "/promises?limit=250&cursor=" + cursor
	}
}
