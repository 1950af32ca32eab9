package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventhook/eventhook/client"
)

func TestQuantiles(t *testing.T) {
	before := map[float64]float64{0.1: 10, 0.2: 10, math.Inf(1): 10}
	after := map[float64]float64{0.1: 20, 0.2: 110, math.Inf(1): 110}
	for q, want := range map[float64]float64{0.5: 0.1444, 0.99: 0.1989, 0.05: 0.05} {
		if got := quantile(q, before, after); math.Abs(got-want) > 0.001 {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := quantile(0.5, after, after); got != -1 {
		t.Errorf("without observations the median is %g, want -1", got)
	}
}

func TestTopFitsANarrowTerminal(t *testing.T) {
	v := &topView{Refused: map[string]float64{"unverified": 1, "shed": 2}, Lists: &topLists{Slowest: []topReceiver{{Tenant: "acme", Name: strings.Repeat("ü", 100)}}}}
	var text strings.Builder
	if err := v.write(&text, 30); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 30 {
			t.Errorf("the line %q has %d characters, want 30 at most", line, n)
		}
	}
}

// The numbers of receivers are the gateway's counters, not those of a page.
func TestListsOfABusyGateway(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		items, status := []string{}, r.URL.Query().Get("status")
		switch {
		case strings.HasSuffix(r.URL.Path, "/stats"):
			name := map[bool]string{true: `{"failed_last_hour":7000,"delivered_last_hour":1,"mean_duration_ms":10}`,
				false: `{"failed_last_hour":0,"delivered_last_hour":9,"mean_duration_ms":25000}`}[strings.Contains(r.URL.Path, "id-down")]
			_, _ = io.WriteString(w, name)
			return
		case strings.HasSuffix(r.URL.Path, "/deliveries") && status == "dead":
			items = append(items, `{"tenant":"acme","subscription_id":"id-down","subscription_name":"down","status":"dead","last_error":"refused"}`,
				`{"tenant":"acme","route_id":"id-route","status":"dead"}`)
		case strings.HasSuffix(r.URL.Path, "/deliveries") && status == "pending":
			for n := range 100 {
				items = append(items, fmt.Sprintf(`{"tenant":"acme","subscription_id":"id-slow-%d","subscription_name":"slow %d","status":"pending"}`, n, n))
			}
		case strings.HasSuffix(r.URL.Path, "/events"):
			items = append(items, `{"tenant":"shop","source":"github","status":"`+status+`"}`)
		}
		_, _ = io.WriteString(w, `{"items":[`+strings.Join(items, ",")+`]}`)
	}))
	defer server.Close()
	c, err := client.New(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	lists, err := readTopLists(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(lists.Slowest) != topEntries || !strings.HasPrefix(lists.Slowest[0].Name, "slow") || lists.Slowest[0].MeanSeconds != 25 {
		t.Errorf("the slowest are %+v, want five that take 25 s", lists.Slowest)
	}
	if len(lists.Failing) != 2 || lists.Failing[0].Failed != 7000 || lists.Failing[0].LastError != "refused" || lists.Failing[1].Failed != 1 {
		t.Errorf("failing are %+v, want down with 7000, then a route with 1", lists.Failing)
	}
	if len(lists.Sources) != 1 || lists.Sources[0].Failed != 2 {
		t.Errorf("failing sources are %+v, want one with 2", lists.Sources)
	}
	if asked > 6+topStats {
		t.Errorf("asked the API %d times, want %d at most", asked, 6+topStats)
	}
}

// The screen shows views until q is read, and then shows the former screen again.
func TestTheScreenEndsWithQ(t *testing.T) {
	views := 0
	keys, typed := io.Pipe()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if views++; views == 3 {
			go func() { _, _ = io.WriteString(typed, "xq") }()
		}
		_, _ = io.WriteString(w, "# TYPE eventhook_ready gauge\neventhook_ready 1\n")
	}))
	defer server.Close()
	scraper, err := newScraper([]string{server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, quit := context.WithCancel(t.Context())
	go awaitQuit(keys, quit, func(byte) {})
	var screen strings.Builder
	if err := (&top{scraper: scraper, interval: time.Millisecond}).showViews(ctx, &screen); err != nil {
		t.Fatal(err)
	}
	got := screen.String()
	if !strings.HasPrefix(got, "\x1b[?1049h") || !strings.HasSuffix(got, "\x1b[?1049l") || !strings.Contains(got, "1 of 1 instances ready") {
		t.Errorf("the screen got %q", got)
	}
	if bare := strings.ReplaceAll(got, "\r\n", ""); strings.Contains(bare, "\n") {
		t.Error("a line ends without a carriage return, which a raw terminal needs")
	}
}
