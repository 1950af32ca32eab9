package ingest_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

func TestAStoredWebhookIsAccepted(t *testing.T) {
	r := newFixture(t)
	e := r.accepted(t, webhook(`{"a":1}`))
	w := r.wantStatus(t, webhook(`{"a":1}`), http.StatusOK)
	second := r.store.stored()[1]
	want := `{"event_id":"` + second.ID.String() + `","status":"accepted"}`
	if w.Body.String() != want {
		t.Errorf("got %s, want %s", w.Body, want)
	}
	wantHeader(t, w, "Content-Type", "application/json")
	if got := e.ID.Time(); !got.Equal(noon) {
		t.Errorf("the id's time: got %s, want that of receipt, %s", got, noon)
	}
	if e.TenantID != r.sources.list[0].TenantID || e.SourceID != r.sources.list[0].ID || e.SourceSlug != r.sources.list[0].Slug || e.Origin != eventhook.OriginSource || e.BodySize != 7 {
		t.Errorf("stored %+v, want it to name its tenant, source, origin and size", e)
	}
	if want := noon.Add(lease); !e.Lease.Until.Equal(want) {
		t.Errorf("leased until %s, want %s", e.Lease.Until, want)
	}
}

func TestARepeatedKeyIsADuplicate(t *testing.T) {
	keyed := func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"body.id"} }
	r := newFixture(t, keyed)
	other := newSource("acme", "shop")
	keyed(&other)
	r.sources.list = append(r.sources.list, other)
	original := r.accepted(t, webhook(`{"id":"k"}`))
	w := r.wantStatus(t, webhook(`{"id":"k"}`), http.StatusOK)
	second := r.store.stored()[1]
	want := `{"event_id":"` + second.ID.String() + `","status":"duplicate","duplicate_of":"` + original.ID.String() + `"}`
	if w.Body.String() != want {
		t.Errorf("got %s, want %s", w.Body, want)
	}
	wantHeader(t, w, "Content-Type", "application/json")
	elsewhere := webhook(`{"id":"k"}`)
	elsewhere.URL.Path = ingest.Path("acme", "shop")
	if e := r.accepted(t, elsewhere); e.Status == eventhook.EventDuplicate {
		t.Errorf("the same key at another source is a duplicate, want an event")
	}
	wantCount(t, "accepted", r.observer.outcomes[ingest.OutcomeAccepted], 2)
	wantCount(t, "duplicate", r.observer.outcomes[ingest.OutcomeDuplicate], 1)
}

func TestASourceCanSetItsResponse(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) {
		s.Response = &eventhook.SourceReply{Status: http.StatusAccepted, ContentType: "text/html", Body: "<b>ok</b>"}
		s.IdempotencyKeyPaths = []string{"body.id"}
	})
	for _, claim := range []string{"accepted", "duplicate"} {
		w := r.wantStatus(t, webhook(`{"id":1}`), http.StatusAccepted)
		if w.Body.String() != "<b>ok</b>" {
			t.Errorf("%s: got %q", claim, w.Body)
		}
		wantHeader(t, w, "Content-Type", "text/html")
		wantHeader(t, w, "Content-Security-Policy", "sandbox")
		wantHeader(t, w, "X-Content-Type-Options", "nosniff")
	}
	wantProblem(t, r.send(forgery("")), http.StatusUnauthorized, "The request could not be verified.")
}

func TestRefusals(t *testing.T) {
	limited := func(s *eventhook.Source) {
		s.MaxBodyBytes, s.ContentTypes, s.RequireIdempotencyKey = 8, []string{"Application/JSON", "text/xml; charset=utf-8"}, true
		s.IdempotencyKeyPaths, s.AllowedIPRanges = []string{"body.id"}, []string{"192.0.2.0/24", "::ffff:198.51.100.0/120"}
	}
	typed := func(contentType string) *http.Request { return webhook(`{"id":1}`, "Content-Type", contentType) }
	const (
		tooLarge = "The body is larger than this source allows."
		wrong    = "This source does not accept this content type."
		noKey    = "This source requires an idempotency key, and the request has none."
	)
	for _, c := range []struct {
		claim  string
		r      *http.Request
		status int
		detail string
	}{
		{"within every limit", typed("application/json"), 200, ""},
		{"a content type in upper case", typed("APPLICATION/json ; charset=utf-8"), 200, ""},
		{"a content type with malformed parameters", typed("application/json; charset"), 200, ""},
		{"a content type that the source lists with parameters", webhook(`{"id":1`, "Content-Type", "text/xml"), 400, noKey},
		{"another content type", typed("text/plain"), 415, wrong},
		{"no content type", webhook(`{"id":1}`), 415, wrong},
		{"a body one byte above the limit", webhook(`{"id":1} `, "Content-Type", "application/json"), 413, tooLarge},
		{"a body of unknown length one byte above the limit", chunked(webhook(`{"id":1} `, "Content-Type", "application/json")), 413, tooLarge},
		{"a body of unknown length at the limit", chunked(typed("application/json")), 200, ""},
		{"no key", webhook(`{"no":1}`, "Content-Type", "application/json"), 400, noKey},
		{"a key that is null", webhook(`{"id":0}`[:5]+`{}}`, "Content-Type", "application/json"), 400, noKey},
		{"forged and without a key", forgeryOf(webhook(`{"no":1}`, "Content-Type", "application/json")), 401, "The request could not be verified."},
		{"another address", from("203.0.113.9:1", typed("application/json")), 403, "Requests from this address are not allowed."},
		{"a mapped address", from("[::ffff:192.0.2.7]:1", typed("application/json")), 200, ""},
		{"an address in a mapped range", from("198.51.100.7:1", typed("application/json")), 200, ""},
		{"an unknown address", from("@", typed("application/json")), 403, "Requests from this address are not allowed."},
		{"forged and from another address", from("203.0.113.9:1", forgery("")), 403, "Requests from this address are not allowed."},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, limited)
			w := r.send(c.r)
			if c.status == http.StatusOK {
				if w.Code != c.status {
					t.Errorf("answered %d %s, want 200", w.Code, w.Body)
				}
				return
			}
			wantProblem(t, w, c.status, c.detail)
			r.wantStored(t, 0)
		})
	}
}

func forgeryOf(r *http.Request) *http.Request {
	r.Header.Set("X-Sig", sign("anything else"))
	return r
}

func TestABodyThatCannotBeReadIs400(t *testing.T) {
	r := newFixture(t, open)
	for _, err := range []error{errors.New("connection reset"), http.ErrBodyReadAfterClose} {
		w := r.send(httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm"), iotest.ErrReader(err)))
		wantProblem(t, w, http.StatusBadRequest, "The request body could not be read.")
	}
	r.wantStored(t, 0)
}

func TestUnknownAndDisabledSourcesCannotBeToldApart(t *testing.T) {
	r := newFixture(t)
	disabled, suspended, closed := newSource("acme", "disabled"), newSource("suspended", "crm"), newSource("closed", "crm")
	disabled.IsEnabled = false
	suspended.TenantStatus, closed.TenantStatus = eventhook.TenantSuspended, eventhook.TenantClosed
	r.sources.list = append(r.sources.list, disabled, suspended, closed)
	long := strings.Repeat("x", 10_000)
	for _, at := range [][2]string{
		{"acme", "unknown"}, {"unknown", "crm"}, {"acme", "disabled"}, {"suspended", "crm"}, {"closed", "crm"}, {"acme", long}, {long, "crm"},
		{"acme", "-"}, {"acme", "CRM"}, {"acme", "a_b"}, {"acme", "crm-"}, {"acme", "%63rm"},
	} {
		for range 2 { // loaded, then cached
			req := webhook("")
			req.URL.Path = ingest.Path(at[0], at[1])
			w := r.send(req)
			wantProblem(t, w, http.StatusNotFound, "The source does not exist.")
			if diff := cmp.Diff(http.Header{"Content-Type": {"application/problem+json"}}, w.Header()); diff != "" {
				t.Errorf("%q: headers (-want +got):\n%s", at, diff)
			}
		}
	}
	wantCount(t, "reads of the five valid names", r.sources.called(), 5)
	if text := r.log.String(); text != "" {
		t.Errorf("logged %s, want nothing, since any client can send such requests", text)
	}
}

// everyMethod has known and unknown methods besides POST.
var everyMethod = []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "PURGE", "post"}

func TestOnlyPostIsAllowed(t *testing.T) {
	r := newFixture(t)
	for _, method := range everyMethod {
		w := r.send(httptest.NewRequest(method, ingest.Path("acme", "crm"), nil))
		wantProblem(t, w, http.StatusMethodNotAllowed, "This source does not accept this method.")
		wantHeader(t, w, "Allow", "POST")
		w = r.send(httptest.NewRequest(method, ingest.Path("acme", "unknown"), nil))
		wantProblem(t, w, http.StatusNotFound, "The source does not exist.")
		wantHeader(t, w, "Allow", "")
	}
}

func TestAStorageFailureIs500(t *testing.T) {
	for claim, change := range map[string]func(*store){
		"the batch": func(s *store) { s.err = errDown },
		"the event": func(s *store) { s.refuse = func(*eventhook.Event) bool { return true } },
	} {
		r := newFixture(t)
		r.store.set(change)
		w := r.send(webhook(""))
		wantProblem(t, w, http.StatusInternalServerError, "The webhook could not be stored; send it again.")
		wantCount(t, claim+": failed", r.observer.outcomes[ingest.OutcomeFailed], 1)
	}
}

func TestOutcomes(t *testing.T) {
	all := ingest.Outcomes()
	slices.Sort(all)
	want := []ingest.Outcome{
		"accepted", "address_not_allowed", "body_too_slow", "content_encoding_refused", "content_type_refused", "duplicate", "evicted", "failed", "forgery_limited", "handshake",
		"handshake_malformed", "handshake_refused", "key_missing", "keys_unavailable",
		"log_full", "loop", "method_not_allowed", "not_found", "not_ready", "quota_exceeded", "rate_limited", "shed", "too_large", "unreadable", "unverified",
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// panickingBody is a body whose first read panics.
type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic("a defect") }

func TestPanickingRequestCountsAsFailed(t *testing.T) {
	r := newFixture(t)
	req := webhook(`{"a":1}`)
	req.Body = io.NopCloser(panickingBody{})
	func() {
		defer func() {
			if recover() != "a defect" {
				t.Error("the panic did not go on")
			}
		}()
		r.send(req)
	}()
	wantCount(t, "failed", r.observer.outcomes[ingest.OutcomeFailed], 1)
	if n := len(r.observer.outcomes); n != 1 {
		t.Errorf("the request has %d outcomes, want 1", n)
	}
}
