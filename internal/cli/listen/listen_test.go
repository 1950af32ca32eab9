package listen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/listen"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

type object = map[string]any

// gateway is a fake gateway. Each connection to its stream gets the next of streams, and then ends;
// after the last, a connection stays open.
type gateway struct {
	mu      sync.Mutex
	events  map[string]object // all members of an event
	bodies  map[string]string
	order   []string // ids of the list, oldest first
	streams []string
	last    []string // Last-Event-ID of each connection
	broken  int      // requests for an event that fail first

	deliveries [][]string   // ids of each list, oldest first; nil: the request fails. The last is repeated
	listed     []url.Values // queries of the lists
}

func (g *gateway) add(id string, seconds int, members object) string {
	at := noon.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339Nano)
	e := object{"id": id, "source": "github", "origin": "source", "event_type": "push", "status": "pending", "received_at": at,
		"method": "POST", "path_suffix": "", "query": "", "headers": object{}}
	for name, value := range members {
		e[name] = value
	}
	g.events[id] = e
	g.order = append(g.order, id)
	g.bodies[id] = "body of " + id
	return id
}

// message is a message of the stream about an event.
func (g *gateway) message(id, status string) string {
	e := object{}
	for name, value := range g.events[id] {
		e[name] = value
	}
	e["status"] = status
	data, _ := json.Marshal(e)
	return fmt.Sprintf("event: event\nid: %s\ndata: %s\n\n", id, data)
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/tenants/shop/eventhook/events")
	id := strings.Split(strings.TrimPrefix(path, "/"), "/")[0]
	if delivery, ok := strings.CutPrefix(r.URL.Path, "/api/tenants/shop/eventhook/deliveries"); ok {
		if delivery == "" {
			g.listDeliveries(w, r)
		} else {
			g.answer(w, object{"method": "POST", "headers": object{}, "body_base64": []byte("body of " + strings.Split(delivery, "/")[1])})
		}
		return
	}
	switch {
	case path == "":
		items := []object{}
		for _, id := range slices.Backward(g.order) {
			items = append(items, g.events[id])
		}
		g.answer(w, object{"items": items, "next_cursor": nil})
	case path == "/stream":
		g.stream(w, r)
	case g.broken > 0:
		g.broken--
		w.WriteHeader(http.StatusServiceUnavailable)
	case g.events[id] == nil:
		w.WriteHeader(http.StatusNotFound)
	case strings.HasSuffix(path, "/payload"):
		_, _ = io.WriteString(w, g.bodies[id])
	default:
		g.answer(w, g.events[id])
	}
}

// listDeliveries answers the next list. The delivery d of an event arrived with the event.
func (g *gateway) listDeliveries(w http.ResponseWriter, r *http.Request) {
	g.listed = append(g.listed, r.URL.Query())
	ids := g.deliveries[0]
	if len(g.deliveries) > 1 {
		g.deliveries = g.deliveries[1:]
	}
	if ids == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	items := []object{}
	for _, id := range slices.Backward(ids) {
		items = append(items, object{"id": "d" + id, "event_id": id, "event_type": g.events[id]["event_type"], "created_at": g.events[id]["received_at"]})
	}
	g.answer(w, object{"items": items, "next_cursor": nil})
}

func (g *gateway) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (g *gateway) stream(w http.ResponseWriter, r *http.Request) {
	g.last = append(g.last, r.Header.Get("Last-Event-ID"))
	if len(g.streams) > 0 {
		_, _ = io.WriteString(w, g.streams[0])
		g.streams = g.streams[1:]
		return
	}
	_ = http.NewResponseController(w).Flush()
	g.mu.Unlock()
	<-r.Context().Done()
	g.mu.Lock()
}

// fixture is a gateway and a program.
type fixture struct {
	gateway
	config  listen.Config
	out     bytes.Buffer
	hints   bytes.Buffer
	got     []string // requests of the program: method, URI and body
	headers []http.Header
	answer  http.HandlerFunc
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{gateway: gateway{events: map[string]object{}, bodies: map[string]string{}}, answer: func(http.ResponseWriter, *http.Request) {}}
	server := httptest.NewServer(&f.gateway)
	t.Cleanup(server.Close)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.got = append(f.got, r.Method+" "+r.RequestURI+" "+string(body))
		f.headers = append(f.headers, r.Header)
		f.answer(w, r)
	}))
	t.Cleanup(program.Close)
	c, err := client.New(server.URL, "ehk_k")
	if err != nil {
		t.Fatal(err)
	}
	forward, _ := url.Parse(program.URL + "/hooks")
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	f.config = listen.Config{Client: c, Tenant: "shop", Since: noon, Forward: forward, Header: http.Header{},
		HTTP:    &http.Client{Transport: transport, Timeout: time.Minute},
		Printer: terminal.Printer{Out: &f.out, Hints: &f.hints}, Now: func() time.Time { return noon },
		Pause: func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil }}
	return f
}

func (f *fixture) run(t *testing.T, count int) {
	t.Helper()
	f.config.Count = count
	if err := listen.Run(t.Context(), f.config); err != nil {
		t.Fatal(err)
	}
}

func TestEachWebhookIsForwardedOnceInTheOrderOfArrival(t *testing.T) {
	f := newFixture(t)
	f.add("old", -1, nil)
	one, two := f.add("1", 1, nil), f.add("2", 2, nil)
	f.add("published", 3, object{"origin": "api", "source": nil})
	three, four, five := f.add("3", 100, nil), f.add("4", 101, nil), f.add("5", 102, nil)
	f.streams = []string{
		f.message("old", "delivered") + f.message(one, "pending") + f.message("published", "delivered") + f.message(two, "processing") + f.message(one, "delivered") + f.message(three, "pending"),
		f.message(two, "delivered") + f.message(three, "delivered") + "event: gap\ndata: {}\n\n" + f.message(five, "delivered"),
	}
	f.broken = 3
	f.run(t, 5)
	var want []string
	for _, id := range []string{one, two, three, four, five} {
		want = append(want, "POST /hooks body of "+id)
	}
	if diff := cmp.Diff(want, f.got); diff != "" {
		t.Errorf("requests of the program (-want +got):\n%s\n%s", diff, &f.hints)
	}
	second, err := eventhook.ParseID[eventhook.Event](f.last[1])
	if at := noon.Add(100*time.Second - time.Minute); err != nil || !second.Time().Equal(at) {
		t.Errorf("the second stream starts at %s, want %s: a minute before the last event", second.Time(), at)
	}
}

func TestEachDeliveryIsForwardedOnceAfterLostConnections(t *testing.T) {
	f := newFixture(t)
	f.config.Subscription = "s"
	f.add("old", -1, nil)
	f.add("1", 1, nil)
	f.add("2", 100, nil)
	f.add("3", 99, nil) // stored after 2
	f.deliveries = [][]string{nil, {"old", "1", "2"}, nil, nil, {"1", "3", "2"}}
	f.streams = []string{"", f.message("3", "delivered")}
	f.run(t, 3)
	if diff := cmp.Diff([]string{"POST /hooks body of d1", "POST /hooks body of d2", "POST /hooks body of d3"}, f.got); diff != "" {
		t.Errorf("requests of the program (-want +got):\n%s\n%s", diff, &f.hints)
	}
	for n, want := range []time.Duration{-time.Minute, -time.Minute, 40 * time.Second, 40 * time.Second, 40 * time.Second} {
		if got := f.listed[n].Get("created_after"); got != noon.Add(want).Format(time.RFC3339) || f.listed[n].Get("subscription_id") != "s" {
			t.Errorf("list %d: got the query %v, want the deliveries since %s", n, f.listed[n], noon.Add(want))
		}
	}
}

// A webhook can reach the end of its retention while it waits for a slow program.
func TestAWebhookThatIsNotStoredAnyMoreIsShownAsFailed(t *testing.T) {
	f := newFixture(t)
	f.add("1", 1, nil)
	f.add("2", 2, nil)
	f.streams = []string{f.message("1", "delivered") + f.message("2", "delivered")}
	delete(f.events, "1")
	f.run(t, 2)
	if diff := cmp.Diff([]string{"POST /hooks body of 2"}, f.got); diff != "" || !strings.Contains(f.out.String(), "failed: it is not stored any more") {
		t.Errorf("requests of the program (-want +got):\n%s\n%s", diff, &f.out)
	}
}

func TestTheUserIsToldIfTooManyAreReadAgain(t *testing.T) {
	for claim, subscription := range map[string]string{"events": "", "deliveries": "s"} {
		f := newFixture(t)
		ids := []string{f.add("1", 1, nil), f.add("2", 2, nil), f.add("3", 3, nil)}
		f.deliveries, f.streams = [][]string{ids}, []string{"event: gap\ndata: {}\n\n"}
		f.config.Subscription, f.config.MaxReread = subscription, 2
		f.run(t, 2)
		if want := "More than 2 " + claim + " arrived since 2026-03-10T11:59:00Z: older ones are left out."; !strings.Contains(f.hints.String(), want) ||
			len(f.got) != 2 || !strings.HasSuffix(f.got[0], "2") {
			t.Errorf("%s: got %q and the message %q, want the newest two and %q", claim, f.got, &f.hints, want)
		}
	}
}

func TestOnlyWantedWebhooksAreForwarded(t *testing.T) {
	f := newFixture(t)
	f.add("1", 1, object{"source": "stripe", "event_type": "invoice.paid"})
	f.add("2", 2, object{"source": "stripe", "event_type": "invoices"})
	f.add("3", 3, object{"source": "crm", "event_type": "invoice.paid"})
	f.add("4", 4, object{"event_type": "push"})
	f.add("5", 5, object{"event_type": "pushed"})
	f.streams = []string{"event: gap\ndata: {}\n\n"}
	f.config.Sources, f.config.Types = []string{"stripe", "github"}, []string{"invoice.*", "push"}
	f.run(t, 2)
	if diff := cmp.Diff([]string{"POST /hooks body of 1", "POST /hooks body of 4"}, f.got); diff != "" {
		t.Errorf("requests of the program (-want +got):\n%s", diff)
	}
}

func TestAWebhookIsForwardedAsItArrived(t *testing.T) {
	f := newFixture(t)
	f.config.Forward.RawQuery = "x=1"
	f.config.Header.Set("Authorization", "Bearer t")
	f.add("1", 1, object{"method": "PUT", "path_suffix": "/a%2Fb/%C3%A4/", "query": "q=%20&r=http://s", "headers": object{"Host": "hooks.example", "Connection": "close",
		"Content-Length": "999", "Transfer-Encoding": "chunked", "X-Hub-Signature-256": "sha256=ab", "Authorization": "[redacted]", "Cookie": "[redacted]", "Content-Encoding": "gzip", "X-Two": "a, b"}})
	f.bodies["1"] = "\x1f\x8b\x00\xff\r\n"
	f.streams = []string{f.message("1", "pending")}
	f.run(t, 1)
	if diff := cmp.Diff([]string{"PUT /hooks/a%2Fb/%C3%A4/?x=1&q=%20&r=http://s \x1f\x8b\x00\xff\r\n"}, f.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.headers[0].Del("Accept-Encoding")
	want := http.Header{"X-Hub-Signature-256": {"sha256=ab"}, "Authorization": {"Bearer t"}, "Content-Encoding": {"gzip"}, "X-Two": {"a, b"},
		"X-Forwarded-Host": {"hooks.example"}, "Content-Length": {"6"}}
	if diff := cmp.Diff(want, f.headers[0]); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if hints := f.hints.String(); !strings.Contains(hints, "--header 'Cookie: …'") || strings.Contains(hints, "Authorization") {
		t.Errorf("got the hints %q, want one about Cookie", hints)
	}
}

func TestTheResultIsPrintedWhateverTheProgramDoes(t *testing.T) {
	for claim, c := range map[string]struct {
		members object
		answer  http.HandlerFunc
		timeout time.Duration
		forward string
		want    string
	}{
		"an answer":     {nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, 0, "", "POST /hooks  202  0 ms  1"},
		"an error":      {nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 0, "", "POST /hooks  500  0 ms  1"},
		"no answer":     {nil, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, time.Millisecond, "", "failed: no answer within 1ms  0 ms  1"},
		"a broken one":  {nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "", "failed: EOF  0 ms  1"},
		"no program":    {nil, nil, 0, "http://127.0.0.1:1/x", "failed: no program listens at 127.0.0.1:1  0 ms  1"},
		"dot segments":  {object{"path_suffix": "/%2e%2e/admin"}, nil, 0, "", "failed: its path suffix contains . or .. segments"},
		"a duplicate":   {object{"duplicate_of": "0"}, nil, 0, "", "failed: a duplicate, which is not forwarded without --duplicates  1"},
		"escape texts":  {object{"event_type": "a\x1b[2Jb"}, func(http.ResponseWriter, *http.Request) {}, 0, "", "a [2Jb  POST /hooks  200"},
		"a redirection": {nil, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/y", http.StatusFound) }, 0, "", "302"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t)
			f.add("1", 1, c.members)
			f.streams = []string{f.message("1", "pending")}
			f.answer = c.answer
			f.config.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			if c.timeout > 0 {
				f.config.HTTP.Timeout = c.timeout
			}
			if c.forward != "" {
				f.config.Forward, _ = url.Parse(c.forward)
			}
			f.run(t, 1)
			if !strings.Contains(f.out.String(), c.want) {
				t.Errorf("printed %q, want %q", &f.out, c.want)
			}
		})
	}
}

func TestKeysForwardAgainAndShowDetails(t *testing.T) {
	f := newFixture(t)
	f.add("1", 1, object{"headers": object{"X-A": "b"}})
	f.streams = []string{f.message("1", "pending")}
	f.answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "thanks\x1b") }
	keys := make(chan byte, 3)
	f.config.Keys = keys
	ctx, stop := context.WithCancel(t.Context())
	f.config.HTTP.Transport = afterEach{f.config.HTTP.Transport, func(n int) {
		if n == 1 {
			keys <- 'd'
			keys <- 'r'
			keys <- 'x'
		} else {
			stop()
		}
	}, new(int)}
	if err := listen.Run(ctx, f.config); err != nil {
		t.Fatal(err)
	}
	if len(f.got) != 2 || f.got[0] != f.got[1] {
		t.Errorf("the program got %q, want the webhook twice", f.got)
	}
	for _, want := range []string{"> X-A: b\n", "> body of 1\n", "< 200 OK\n", "< thanks \n"} {
		if !strings.Contains(f.hints.String(), want) {
			t.Errorf("showed %q, want %q", &f.hints, want)
		}
	}
}

// afterEach calls done after each request, with its number.
type afterEach struct {
	http.RoundTripper
	done func(n int)
	n    *int
}

func (a afterEach) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	*a.n++
	a.done(*a.n)
	return resp, err
}

func TestJSONHasTheExchange(t *testing.T) {
	f := newFixture(t)
	f.add("1", 1, object{"headers": object{"X-A": "b"}, "query": "q=1"})
	f.bodies["1"] = `{"n":1}`
	f.config.Printer.JSON, f.config.Prints = true, true
	ok, err := listen.Replay(t.Context(), f.config, "1")
	if !ok || err != nil {
		t.Fatalf("got %t, %v, want a success", ok, err)
	}
	var got object
	if err := json.Unmarshal(f.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := object{"event_id": "1", "source": "github", "event_type": "push", "received_at": "2026-03-10T12:00:01Z", "method": "POST", "url": f.config.Forward.String() + "?q=1",
		"status_code": 200.0, "duration_ms": 0.0, "error": nil, "replayed": true, "duplicate_of": nil, "headers": object{"X-A": []any{"b"}, "User-Agent": []any{""}}, "body": object{"n": 1.0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARefusalOfTheGatewayEndsTheCommand(t *testing.T) {
	f := newFixture(t)
	f.config.Tenant = "other"
	if err := listen.Run(t.Context(), f.config); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("got %v, want the 404", err)
	}
	if _, err := listen.Replay(t.Context(), f.config, "1"); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("replay: got %v, want the 404", err)
	}
}
