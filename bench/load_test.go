package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// requestChecker is a server that checks requests and answers with a fixed status.
type requestChecker struct {
	status   int
	mu       sync.Mutex
	requests int
	seen     map[string]bool // delivery ids
	wrong    []string
}

func (g *requestChecker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var got struct {
		EventType string          `json:"event_type"`
		Data      json.RawMessage `json:"data"`
		ID        string          `json:"id"`
		SentAt    int64           `json:"sent_at"`
		Note      string          `json:"note"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &got)
	}
	if got.Data != nil && err == nil {
		err = json.Unmarshal(got.Data, &got)
	}
	id := got.ID + r.Header.Get("X-GitHub-Delivery")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	check := func(holds bool, claim string) {
		if !holds {
			g.wrong = append(g.wrong, claim)
		}
	}
	check(err == nil, "body is JSON")
	check(len(id) == idDigits && !g.seen[id], "id is unique")
	check(len(got.Note) > 900, "body is complete")
	stamped := strings.HasSuffix(r.URL.Path, "stamped")
	age := time.Since(time.Unix(0, got.SentAt))
	check(stamped == (got.SentAt != 0) && (!stamped || age >= 0 && age < time.Hour), "time of sending only in timestamped requests")
	if strings.HasPrefix(r.URL.Path, "/publish") {
		check(r.Header.Get("Authorization") == "Bearer ehk_key" && got.EventType == "a.b", "key and event type of a publish request")
	} else {
		check(r.Header.Get("X-Hub-Signature-256") == "sha256="+hex.EncodeToString(sign(raw)), "signature")
	}
	g.seen[id] = true
	w.WriteHeader(g.status)
}

func TestRequestsAreValid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim   string
		to      requestSpec
		status  int
		wantErr bool
	}{
		{"webhooks", requestSpec{paths: []string{"/hook1", "/hook2"}}, 200, false},
		{"timestamped webhooks", requestSpec{paths: []string{"/hook/stamped"}, timestamped: true}, 200, false},
		{"events", requestSpec{paths: []string{"/publish"}, eventType: "a.b", key: "ehk_key"}, 202, false},
		{"timestamped events", requestSpec{paths: []string{"/publish/stamped"}, eventType: "a.b", key: "ehk_key", timestamped: true}, 202, false},
		{"webhooks with a status of failure", requestSpec{paths: []string{"/hook"}}, 503, true},
		{"events with the status of a webhook", requestSpec{paths: []string{"/publish"}, eventType: "a.b", key: "ehk_key"}, 200, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			g := &requestChecker{status: c.status, seen: map[string]bool{}}
			server := httptest.NewServer(g)
			defer server.Close()
			c.to.address = strings.TrimPrefix(server.URL, "http://")
			l, err := send(t.Context(), c.to, 3, 50*time.Millisecond)
			if len(g.wrong) > 0 {
				t.Errorf("these checks of the requests failed: %q", g.wrong)
			}
			if (err != nil) != c.wantErr || !c.wantErr && l.ok != g.requests {
				t.Errorf("got %+v and %v after %d requests, want an error: %v", l, err, g.requests, c.wantErr)
			}
			if c.wantErr {
				return
			}
			before := g.requests
			if err := sendPaced(t.Context(), c.to, 100, 50*time.Millisecond); err != nil || len(g.wrong) > 0 || g.requests == before {
				t.Errorf("sendPaced: got %v, failed checks %q, %d requests; want more valid requests", err, g.wrong, g.requests-before)
			}
		})
	}
}
