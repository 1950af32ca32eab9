package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

type rejectionsAnswer struct {
	Items []struct {
		Outcome, Reason, Method string
		HeaderNames             []string `json:"header_names"`
		BodySize                int      `json:"body_size"`
		BodySHA256              string   `json:"body_sha256"`
	}
	Counts []struct {
		Reason string
		Count  int
	}
}

func (i *instance) rejections() (got rejectionsAnswer, raw json.RawMessage) {
	i.t.Helper()
	if status := i.call("GET", "/sources/github/rejections", nil, &raw); status != http.StatusOK {
		i.t.Fatalf("answered %d, want 200", status)
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		i.t.Fatal(err)
	}
	return got, raw
}

// forge sends a push that is signed with another secret.
func (i *instance) forge(body string) {
	i.t.Helper()
	s := send.Sample{Provider: "github", Body: []byte(body)}
	r, err := s.Request(i.t.Context(), i.url+ingest.Path("acme", "github")+"?token=in-the-query", "another-secret", time.Now())
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer in-a-header")
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		i.t.Fatalf("a forgery was answered %s, want 401", resp.Status)
	}
}

// Every instance, also one that starts later, lists the requests that another instance
// rejected, including those that were not stored yet when that instance stopped.
func TestAllInstancesListRejections(t *testing.T) {
	const body, sum = `{"precious":true}`, "04c2d4842a4478c85ce1c2beacacc94fcbc0f8023a54ee8b64c1c7ea0a7da556"
	dsn := pgtest.New(t)
	refusing, other := startInstance(t, dsn), startInstance(t, dsn)
	refusing.forge(body)
	clitest.Eventually(t, "both instances list the forgery", func() bool {
		first, _ := refusing.rejections()
		second, _ := other.rejections()
		return len(first.Items) == 1 && len(second.Items) == 1
	})
	got, raw := other.rejections()
	item := got.Items[0]
	if item.Outcome != "unverified" || item.Reason != "mismatch" || item.Method != "POST" || item.BodySize != len(body) || item.BodySHA256 != sum {
		t.Errorf("got %s, want the size and hash of the forgery", raw)
	}
	if !slices.Contains(item.HeaderNames, "X-Hub-Signature-256") || !slices.Contains(item.HeaderNames, "Authorization") {
		t.Errorf("the headers are %q, want the headers of the request", item.HeaderNames)
	}
	for _, private := range []string{"precious", "in-the-query", "in-a-header", testSecret, hexHMAC(testSecret, []byte(body)), hexHMAC("another-secret", []byte(body))} {
		if bytes.Contains(raw, []byte(private)) {
			t.Errorf("%q is in %s", private, raw)
		}
		conn := connect(t, dsn)
		if n := count(t, conn, `SELECT count(*) FROM eventhook.rejection r WHERE r::text LIKE '%' || $1 || '%'`, private); n != 0 {
			t.Errorf("%q is in the database", private)
		}
	}
	other.forge(body)
	other.stop()
	refusing.stop()
	for _, i := range []*instance{refusing, other} {
		if strings.Contains(i.logs.String(), "rejected requests could not be recorded") {
			t.Errorf("an instance that was stopped could not record:\n%s", i.logs)
		}
	}
	later, raw := startInstance(t, dsn).rejections()
	if len(later.Items) != 2 || len(later.Counts) != 1 || later.Counts[0].Reason != "mismatch" || later.Counts[0].Count != 2 {
		t.Errorf("after a restart: got %s, want both forgeries", raw)
	}
}
