package ingest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

// A refused request is found in the log by the request id of its answer.
func TestRefusalsHaveARequestIDThatTheLogHas(t *testing.T) {
	for _, c := range []struct {
		claim, sent, want string
		fail              func(*fixture)
		status            int
		inBody            bool
	}{
		{claim: "the sender's id", sent: "r-1", want: "r-1", fail: func(r *fixture) { r.store.err = errDown }, status: 500, inBody: true},
		{claim: "a long id", sent: strings.Repeat("x", 300), want: strings.Repeat("x", 255), fail: func(r *fixture) { r.sources.err = errDown }, status: 500, inBody: true},
		{claim: "an id that is not UTF-8", sent: "caf\xe9", want: `caf\xe9`, fail: func(r *fixture) { r.unfit = errDown }, status: 503, inBody: true},
		{claim: "no id", fail: func(r *fixture) { r.store.err = errDown }, status: 500, inBody: true},
		{claim: "a forgery", sent: "r-2", want: "r-2", fail: func(*fixture) {}, status: 401},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t)
			c.fail(r)
			request := webhook(`{"id":1}`, "X-Request-Id", c.sent)
			if c.status == http.StatusUnauthorized {
				request.Header.Set("X-Sig", "00")
			}
			w := r.wantStatus(t, request, c.status)
			id := w.Header().Get("X-Request-Id")
			if c.want != "" && id != c.want {
				t.Errorf("answered with the id %q, want %q", id, c.want)
			}
			if _, err := eventhook.ParseID[eventhook.Event](id); c.want == "" && err != nil {
				t.Errorf("answered with the id %q, want a new one", id)
			}
			var body struct {
				Status    int    `json:"status"`
				RequestID string `json:"request_id"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Status != c.status || (body.RequestID == id) != c.inBody {
				t.Errorf("the body is %s, %v; want the id %t", w.Body, err, c.inBody)
			}
			if line, _ := json.Marshal(id); !strings.Contains(r.log.String(), `"request_id":`+string(line)) {
				t.Errorf("the log %s lacks the id %q", r.log, id)
			}
		})
	}
}

func TestRequestsOfUnknownSourcesHaveNoRequestID(t *testing.T) {
	r := newFixture(t)
	r.sources.list = nil
	if id := r.wantStatus(t, webhook(`{"id":1}`), http.StatusNotFound).Header().Get("X-Request-Id"); id != "" || r.log.String() != "" {
		t.Errorf("answered with the id %q and logged %s, want neither", id, r.log)
	}
}
