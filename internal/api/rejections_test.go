package api_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

// rejection records and counts a refused request of crm.
func (r *fixture) rejection(change ...func(*eventhook.Rejection)) eventhook.Rejection {
	r.Helper()
	at := r.clock.Now()
	hash := sha256.Sum256([]byte("body"))
	x := eventhook.Rejection{
		ID: eventhook.NewID[eventhook.Rejection](at), SourceID: r.crm, Outcome: "unverified", Reason: "mismatch", Detail: "no secret gives this signature",
		Method: "POST", ClientAddress: "192.0.2.1", HeaderNames: []string{"Content-Type", "X-Sig"}, BodySize: 4, BodySHA256: hash[:],
	}
	for _, c := range change {
		c(&x)
	}
	r.must(r.db.RecordRejections(r.Context(), []eventhook.Rejection{x},
		[]eventhook.RejectionCount{{SourceID: x.SourceID, Reason: x.Reason, Count: 1, FirstAt: at, LastAt: at}}))
	return x
}

func TestListRejections(t *testing.T) {
	r := setUp(t)
	full := r.rejection()
	r.clock.Advance(time.Second)
	bare := r.rejection(func(x *eventhook.Rejection) {
		*x = eventhook.Rejection{ID: x.ID, SourceID: x.SourceID, Outcome: "too_large", Reason: "too_large", Method: "POST", BodySize: eventhook.UnknownBodySize}
	})
	r.clock.Advance(time.Second)
	r.rejection(func(x *eventhook.Rejection) { x.SourceID = r.shop })
	late := r.rejection(func(x *eventhook.Rejection) { x.BodySize = 0 })
	got := r.admin("GET", T("acme")+"/sources/crm/rejections", nil).want(http.StatusOK).object()
	shown := map[string]any{
		"id": full.ID.String(), "rejected_at": "2026-03-10T15:00:00Z", "outcome": "unverified", "reason": "mismatch",
		"detail": "no secret gives this signature", "method": "POST", "client_address": "192.0.2.1",
		"header_names": []any{"Content-Type", "X-Sig"}, "body_size": 4.0,
		"body_sha256": "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5",
	}
	empty := map[string]any{}
	for name, v := range shown {
		empty[name] = v
	}
	empty["id"], empty["rejected_at"], empty["body_size"] = late.ID.String(), "2026-03-10T15:00:02Z", 0.0
	want := map[string]any{
		"items": []any{empty, map[string]any{
			"id": bare.ID.String(), "rejected_at": "2026-03-10T15:00:01Z", "outcome": "too_large", "reason": "too_large", "detail": nil, "method": "POST",
			"client_address": nil, "header_names": []any{}, "body_size": nil, "body_sha256": nil,
		}, shown},
		"next_cursor": nil,
		"counts": []any{
			map[string]any{"reason": "mismatch", "count": 2.0, "first_at": "2026-03-10T15:00:00Z", "last_at": "2026-03-10T15:00:02Z"},
			map[string]any{"reason": "too_large", "count": 1.0, "first_at": "2026-03-10T15:00:01Z", "last_at": "2026-03-10T15:00:01Z"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestListNoRejections(t *testing.T) {
	r := setUp(t)
	got := r.admin("GET", T("acme")+"/sources/shop/rejections", nil).want(http.StatusOK).Body.String()
	if want := `{"items":[],"next_cursor":null,"counts":[]}`; strings.TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRejectionCountsAreOnEachPage(t *testing.T) {
	r := setUp(t)
	for range 3 {
		r.rejection()
		r.clock.Advance(time.Millisecond)
	}
	path := T("acme") + "/sources/crm/rejections?limit=2"
	first := r.list(path)
	if len(first.Items) != 2 || first.NextCursor == nil {
		t.Fatalf("got %d items and the cursor %v, want two and a cursor", len(first.Items), first.NextCursor)
	}
	var second struct {
		Items  []any
		Counts []struct{ Count int }
	}
	r.admin("GET", path+"&cursor="+*first.NextCursor, nil).want(http.StatusOK).into(&second)
	if len(second.Items) != 1 || len(second.Counts) != 1 || second.Counts[0].Count != 3 {
		t.Errorf("the second page is %+v, want one item and a count of all 3", second)
	}
}

func TestRejectionsOfOtherTenantsAreNotFound(t *testing.T) {
	r := setUp(t)
	r.rejection()
	umbrella, _ := r.key("umbrella", eventhook.ScopeRead)
	acme, _ := r.key("acme", eventhook.ScopeRead)
	for _, c := range []struct{ claim, key, tenant, source string }{
		{"an unknown source", acme, "acme", "nowhere"},
		{"an invalid slug", acme, "acme", "CRM%00"},
		{"another tenant's source by its own name", umbrella, "umbrella", "crm"},
		{"another tenant", umbrella, "acme", "crm"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.call(c.key, "GET", fmt.Sprintf("%s/sources/%s/rejections", T(c.tenant), c.source), nil).want(http.StatusNotFound)
		})
	}
	r.call(acme, "GET", T("acme")+"/sources/crm/rejections", nil).want(http.StatusOK)
}
