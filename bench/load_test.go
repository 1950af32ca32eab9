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

// gate is a gateway that looks closely, and answers as is wanted.
type gate struct {
	status   int
	mu       sync.Mutex
	requests int
	seen     map[string]bool // ids
	wrong    []string
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	check(err == nil, "the body is JSON")
	check(len(id) == idDigits && !g.seen[id], "each has an id of its own")
	check(len(got.Note) > 900, "the body is whole")
	stamped := strings.HasSuffix(r.URL.Path, "stamped")
	age := time.Since(time.Unix(0, got.SentAt))
	check(stamped == (got.SentAt != 0) && (!stamped || age >= 0 && age < time.Hour), "it tells when it was sent if it is to, and else not")
	if strings.HasPrefix(r.URL.Path, "/publish") {
		check(r.Header.Get("Authorization") == "Bearer ehk_key" && got.EventType == "a.b", "it is published")
	} else {
		check(r.Header.Get("X-Hub-Signature-256") == "sha256="+hex.EncodeToString(sign(raw)), "it is signed")
	}
	g.seen[id] = true
	w.WriteHeader(g.status)
}

func TestMessagesAreWhatTheySayTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim   string
		to      target
		status  int
		refused bool
	}{
		{"webhooks", target{paths: []string{"/hook1", "/hook2"}}, 200, false},
		{"webhooks that tell when they were sent", target{paths: []string{"/hook/stamped"}, stamps: true}, 200, false},
		{"events", target{paths: []string{"/publish"}, publishes: "a.b", key: "ehk_key"}, 202, false},
		{"events that tell when they were sent", target{paths: []string{"/publish/stamped"}, publishes: "a.b", key: "ehk_key", stamps: true}, 202, false},
		{"webhooks that are refused", target{paths: []string{"/hook"}}, 503, true},
		{"events that are answered as webhooks are", target{paths: []string{"/publish"}, publishes: "a.b", key: "ehk_key"}, 200, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			g := &gate{status: c.status, seen: map[string]bool{}}
			server := httptest.NewServer(g)
			defer server.Close()
			c.to.address = strings.TrimPrefix(server.URL, "http://")
			l, err := send(t.Context(), c.to, 3, 50*time.Millisecond)
			if len(g.wrong) > 0 {
				t.Errorf("got requests of which these do not hold: %q", g.wrong)
			}
			if (err != nil) != c.refused || !c.refused && l.ok != g.requests {
				t.Errorf("got %+v and %v after %d requests, want an error: %v", l, err, g.requests, c.refused)
			}
			if c.refused {
				return
			}
			before := g.requests
			if err := pace(t.Context(), c.to, 100, 50*time.Millisecond); err != nil || len(g.wrong) > 0 || g.requests == before {
				t.Errorf("paced: got %v, %q, want more of the same", err, g.wrong)
			}
		})
	}
}

func TestMemoryIsReadFromAStatus(t *testing.T) {
	t.Parallel()
	const status = "Name:\teventhook\nVmPeak:\t 2000000 kB\nVmHWM:\t   90000 kB\nVmRSS:\t   80000 kB\nRssAnon:\t   60000 kB\n"
	if got, err := residentIn(status); err != nil || got != 80000<<10 {
		t.Errorf("got %f, %v, want 80000 kB", got, err)
	}
	for _, wrong := range []string{"", "Name:\tx\n", "Name:\tx\nVmRSS:\t   many kB\n"} {
		if _, err := residentIn(wrong); err == nil {
			t.Errorf("%q: got no error, want one", wrong)
		}
	}
}
