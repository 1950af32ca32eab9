package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// newestEvent is what GET events/{id} shows of a request.
type newestEvent struct {
	Method     string
	PathSuffix string `json:"path_suffix"`
	Query      string
}

func (i *instance) newestEvent(source string) (e newestEvent) {
	i.t.Helper()
	var list struct{ Items []struct{ ID string } }
	if status := i.call(http.MethodGet, "/events?limit=1&source="+source, nil, &list); status != http.StatusOK || len(list.Items) == 0 {
		i.t.Fatalf("%s: the list of events was answered %d with %d events", source, status, len(list.Items))
	}
	i.call(http.MethodGet, "/events/"+list.Items[0].ID, nil, &e)
	return e
}

// Providers that sign the URL sign the one that they have, with path suffix and query.
func TestProvidersThatSignTheURLSignItsSuffix(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t))
	for _, provider := range []string{"twilio", "square", "hubspot", "trello"} {
		if status := gateway.call(http.MethodPost, "/sources", map[string]any{"slug": provider, "provider": provider, "secrets": []string{secretOf(provider)}}, nil); status != http.StatusCreated {
			t.Fatalf("%s: answered %d, want 201", provider, status)
		}
		path := ingest.Path("acme", provider)
		for _, c := range []struct {
			signed, sent string
			status       int
		}{{"/eu/a%20b", "/eu/a%20b", http.StatusOK}, {"", "/eu", http.StatusUnauthorized}, {"/eu", "", http.StatusUnauthorized}} {
			r, err := send.Sample{Provider: provider, PublicURL: gateway.url + path + c.signed}.Request(t.Context(), gateway.url+path+c.sent, secretOf(provider), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			resp, err := testClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("%s: signed %q and sent %q: answered %d, want %d", provider, c.signed, c.sent, resp.StatusCode, c.status)
			}
		}
		if diff := cmp.Diff(newestEvent{"POST", "/eu/a%20b", ""}, gateway.newestEvent(provider)); diff != "" {
			t.Errorf("%s: the event (-want +got):\n%s", provider, diff)
		}
	}
}

// statusOf sends a request line as it stands, with a body of two bytes, and returns the status.
func (i *instance) statusOf(line string) int {
	i.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", line) // the server may answer earlier
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		i.t.Fatalf("%.80q: %v", line, err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestUnusualPathsBelowASource(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t))
	if status := gateway.call(http.MethodPost, "/sources", map[string]any{"slug": "open", "verifier": map[string]any{"type": "none"}}, nil); status != http.StatusCreated {
		t.Fatalf("answered %d, want 201", status)
	}
	if status := gateway.call(http.MethodPost, "/sources", map[string]any{"slug": "meta", "provider": "meta", "secrets": []string{"s"}, "options": map[string]string{"verify_token": "vt"}}, nil); status != http.StatusCreated {
		t.Fatalf("answered %d, want 201", status)
	}
	open := ingest.Path("acme", "open")
	long := strings.Repeat("x", 300<<10)
	for line, want := range map[string]int{
		"POST " + open + "/a%2Fb/%00/%2e%2e%2e?x=%00": 200, // data of the sender, stored with its escapes
		"POST " + open + "/" + long[:8<<10]:           200,
		"POST " + open + "/../github":                 404,
		"POST " + open + "/a/%2e%2E/b":                404,
		"POST " + open + "/.":                         404,
		"POST " + open + "/a%2F..%2Fb":                404,
		"POST " + open + "/a\\..\\b":                  404,
		"POST " + open + "%2Fa":                       404,
		"POST " + open + "/%zz":                       400,
		"POST " + open + "/a\x00b":                    400,
		"POST " + open + "/a?b\x01":                   400,
		"POST " + open + "/" + long:                   431,
		"POST " + open + "?" + long:                   431,
		"PUT " + open + "/a":                          405,
		"GET " + open + "/a?b":                        405,
		"DELETE " + open:                              405,
		"GET " + ingest.Path("acme", "meta") + "/app?hub.mode=subscribe&hub.verify_token=vt&hub.challenge=1":    200,
		"GET " + ingest.Path("acme", "meta") + "/app?hub.mode=subscribe&hub.verify_token=wrong&hub.challenge=1": 403,
		"GET " + ingest.Path("acme", "meta") + "?hub.mode=subscribe&hub.verify_token=vt&hub.challenge=1":        200,
	} {
		if got := gateway.statusOf(line); got != want {
			t.Errorf("%.100q: answered %d, want %d", line, got, want)
		}
	}
	var list struct{ Items []struct{} }
	gateway.call(http.MethodGet, "/events?source=open", nil, &list)
	if len(list.Items) != 2 {
		t.Errorf("%d events are stored, want 2", len(list.Items))
	}
}
