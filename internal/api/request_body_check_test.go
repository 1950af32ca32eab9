package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOperationsWithoutBodyRefuseOne(t *testing.T) {
	r := setUp(t)
	closing := tenants + "/umbrella/close"
	for _, body := range []string{"garbage", `{"reason":"x"}`, `[]`, `0`, `{}{}`, `{`, "\x00", `nullx`, `{} x`} {
		p := r.admin("POST", closing, body).want(http.StatusBadRequest).problem()
		if at := p.locations(); len(at) != 1 || at[0] != "body" {
			t.Errorf("%q: got %+v, want the fault at body", body, p)
		}
	}
	r.admin("POST", closing, strings.Repeat(" ", 4<<10+1)).want(http.StatusRequestEntityTooLarge)
	req := httptest.NewRequestWithContext(t.Context(), "POST", closing, truncatedBody{strings.NewReader(`{`)})
	req.Header.Set("Authorization", "Bearer "+adminKey)
	r.do(req).want(http.StatusBadRequest)
	reads, _ := r.key("acme", "read")
	r.call(reads, "POST", closing, "garbage").want(http.StatusForbidden)
	r.admin("DELETE", T("acme")+"/sources/crm?cascade=true", "garbage").want(http.StatusBadRequest)
	r.admin("GET", T("acme")+"/sources/crm", "garbage").want(http.StatusBadRequest)
	if got := r.admin("GET", tenants+"/umbrella", nil).object()["status"]; got != "active" {
		t.Errorf("the tenant is %v, want active", got)
	}
	for _, body := range []string{"", " \r\n\t", "null", " null\n", "{}", " { \n}\t", strings.Repeat(" ", 4<<10)} {
		r.admin("GET", T("acme")+"/sources/crm", body).want(http.StatusOK)
	}
	r.admin("POST", closing, "{}").want(http.StatusOK)
}

// TestBodyOfUnknownLengthIsChecked sends chunked bodies.
func TestBodyOfUnknownLengthIsChecked(t *testing.T) {
	r := setUp(t)
	server := httptest.NewServer(r.router)
	t.Cleanup(server.Close)
	for body, want := range map[string]int{"garbage": http.StatusBadRequest, "{}": http.StatusOK, "": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+T("acme")+"/sources/crm", io.MultiReader(strings.NewReader(body)))
		r.must(err)
		req.Header.Set("Authorization", "Bearer "+adminKey)
		answer, err := server.Client().Do(req)
		r.must(err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%q: answered %s, want %d", body, answer.Status, want)
		}
	}
}
