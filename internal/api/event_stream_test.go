package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// fakeEventFeed is a store whose event updates the test sends.
type fakeEventFeed struct {
	api.EventStore
	updates chan eventhook.EventUpdates
	ended   chan error
	idle    chan time.Duration // of each stream
}

func newFakeEventFeed() *fakeEventFeed {
	return &fakeEventFeed{updates: make(chan eventhook.EventUpdates), ended: make(chan error, 100), idle: make(chan time.Duration, 100)}
}

func (n *fakeEventFeed) wrap(d *api.Deps) { n.EventStore, d.Events = d.Events, n }

func (n *fakeEventFeed) WatchEvents(ctx context.Context, _ eventhook.TenantID, idle time.Duration, send func(eventhook.EventUpdates) error) (err error) {
	defer func() { n.ended <- err }()
	n.idle <- idle
	tick := time.NewTicker(idle)
	defer tick.Stop()
	var updates eventhook.EventUpdates
	for {
		if err := send(updates); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case updates = <-n.updates:
		case <-tick.C:
			updates = eventhook.EventUpdates{}
		}
	}
}

// message is a message of a stream; a comment has only the field comment.
type message struct{ event, id, data, comment string }

// streamClient reads a stream.
type streamClient struct {
	t          *testing.T
	messages   chan message
	disconnect context.CancelFunc
	header     http.Header
}

// follow opens a stream and reads it until the test ends. A status other than 200
// fails the test.
func (r *fixture) follow(key, query string, headers ...string) *streamClient {
	r.Helper()
	server := httptest.NewServer(r.router)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+T("acme")+"/events/stream"+query, nil)
	r.must(err)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := server.Client().Do(req)
	r.must(err)
	if resp.StatusCode != http.StatusOK {
		r.Fatalf("answered %d, want a stream", resp.StatusCode)
	}
	f := &streamClient{r.T, make(chan message, 5000), cancel, resp.Header}
	var reader sync.WaitGroup
	reader.Go(func() { readMessages(resp.Body, f.messages) })
	r.Cleanup(func() {
		cancel()
		reader.Wait()
		server.Close()
	})
	return f
}

func readMessages(body io.ReadCloser, into chan<- message) {
	defer close(into)
	defer body.Close()
	var m message
	for lines := bufio.NewScanner(body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "":
			if m == (message{}) && lines.Text() != "" {
				m.comment = value
			}
			if lines.Text() == "" {
				into <- m
				m = message{}
			}
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			m.data = value
		}
	}
}

// next returns the next message.
func (f *streamClient) next() message {
	f.t.Helper()
	return receive(f.t, "a message", f.messages)
}

func (f *streamClient) want(what string, want message) {
	f.t.Helper()
	if got := f.next(); got != want {
		f.t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// wantEnd checks that the stream ends.
func (f *streamClient) wantEnd(why string) {
	f.t.Helper()
	for {
		select {
		case m, open := <-f.messages:
			if !open {
				return
			}
			f.t.Errorf("%s: got %+v, want the end of the stream", why, m)
		case <-time.After(testTimeout):
			f.t.Fatalf("%s: the stream continues", why)
		}
	}
}

var (
	started   = message{comment: "stream started"}
	heartbeat = message{comment: "heartbeat"}
	gap       = message{event: "gap", data: "{}"}
)

func (f *streamClient) wantEvents(what string, want ...string) {
	f.t.Helper()
	for _, id := range want {
		m := f.next()
		var got struct{ ID string }
		if m.event != "event" || m.id != id || json.Unmarshal([]byte(m.data), &got) != nil || got.ID != id {
			f.t.Fatalf("%s: got %+v, want the event %s", what, m, id)
		}
	}
}

func TestStreamedEventsLookLikeListedEvents(t *testing.T) {
	n := newFakeEventFeed()
	r := setUp(t, n.wrap)
	f := r.follow(adminKey, "")
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		if got := f.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	f.want("the first message", started)
	e := r.event(func(e *eventhook.Event) { e.EventType = "a\nb" })
	stored, err := r.db.Event(t.Context(), r.acme, e.ID)
	r.must(err)
	n.updates <- eventhook.EventUpdates{Events: []eventhook.Event{stored}, Missed: true}
	m := f.next()
	var got map[string]any
	r.must(json.Unmarshal([]byte(m.data), &got))
	if diff := cmp.Diff(r.list(T("acme") + "/events").Items[0], got); diff != "" {
		t.Errorf("an event in a stream (-list +stream):\n%s", diff)
	}
	if m.event != "event" || m.id != e.ID.String() {
		t.Errorf("got the message %+v, want an event with its id", m)
	}
	f.want("after missed updates", gap)
	n.updates <- eventhook.EventUpdates{}
	f.want("without updates", heartbeat)
}

func TestAClientSeesTheHeartbeatsThatItAskedFor(t *testing.T) {
	n := newFakeEventFeed()
	r := setUp(t, n.wrap)
	f := r.follow(adminKey, "?heartbeat_seconds=2")
	f.want("the first message", started)
	same(t, "interval", <-n.idle, 2*time.Second)
	n.updates <- eventhook.EventUpdates{}
	f.want("without updates", message{event: "heartbeat", data: `{"at":"2026-03-10T15:00:00Z"}`})
	for _, wrong := range []string{"0", "61"} {
		r.call(adminKey, "GET", T("acme")+"/events/stream?heartbeat_seconds="+wrong, nil).want(http.StatusUnprocessableEntity)
	}
}

func TestStreamFilters(t *testing.T) {
	event := func(source, typ string, status eventhook.EventStatus) eventhook.Event {
		return eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), SourceSlug: source, EventType: typ, Status: status}
	}
	all := []eventhook.Event{event("crm", "push", "dead"), event("shop", "push", "dead"), event("crm", "pull", "dead"), event("crm", "push", "failed"), event("", "push", "dead")}
	for query, want := range map[string][]int{
		"":                 {0, 1, 2, 3, 4},
		"?source=crm":      {0, 2, 3},
		"?event_type=pull": {2},
		"?status=failed":   {3},
		"?source=crm&event_type=push&status=dead": {0},
	} {
		t.Run(query, func(t *testing.T) {
			n := newFakeEventFeed()
			r := setUp(t, n.wrap)
			f := r.follow(adminKey, query)
			f.want("the first message", started)
			n.updates <- eventhook.EventUpdates{Events: all}
			var ids []string
			for _, i := range want {
				ids = append(ids, all[i].ID.String())
			}
			f.wantEvents("filtered events", ids...)
			n.updates <- eventhook.EventUpdates{Events: []eventhook.Event{event("nowhere", "none", "pending")}, Missed: query != ""}
			if query != "" {
				f.want("no filtered-out event", gap)
			}
		})
	}
}

func TestStreamReplaysSinceTheLastEvent(t *testing.T) {
	n := newFakeEventFeed()
	r := setUp(t, n.wrap)
	var ids []string
	for i := range 4 {
		e := r.event(func(e *eventhook.Event) { e.EventType = []string{"push", "pull"}[i%2] })
		ids = append(ids, e.ID.String())
		r.clock.Advance(2 * time.Second)
	}
	for _, c := range []struct {
		claim, query string
		headers      []string
		want         []string
	}{
		{"after an id in the header", "", []string{"Last-Event-ID", ids[1]}, ids[2:]},
		{"after an id in the query", "?after=" + ids[0], nil, ids[1:]},
		{"the header takes precedence", "?after=" + ids[0], []string{"Last-Event-ID", ids[2]}, ids[3:]},
		{"with a filter", "?event_type=pull&after=" + ids[0], nil, []string{ids[1], ids[3]}},
		{"with a filter of a source", "?source=shop&after=" + ids[0], nil, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := r.subtest(t).follow(adminKey, c.query, c.headers...)
			f.wantEvents("replayed", c.want...)
			if len(c.want) == 0 {
				f.want("no replay", heartbeat)
			}
			f.disconnect()
			receive(t, "the stream ends", n.ended)
		})
	}
	// Events are not stored in the order of their ids.
	early := r.event().ID.String()
	last := r.event().ID.String()
	f := r.follow(adminKey, "?after="+last)
	f.wantEvents("an event received just before", early)
}

func TestStreamReplayIsBounded(t *testing.T) {
	n := newFakeEventFeed()
	r := setUp(t, n.wrap)
	first := r.event()
	r.clock.Advance(5 * time.Second)
	var batch []*eventhook.Event
	for range 1001 {
		r.clock.Advance(time.Millisecond)
		batch = append(batch, &eventhook.Event{ID: eventhook.NewID[eventhook.Event](r.clock.Now()), TenantID: r.acme, SourceID: r.crm, Origin: eventhook.OriginSource})
	}
	r.must(r.db.Accept(t.Context(), arrivals(batch...)))
	f := r.follow(adminKey, "?after="+first.ID.String())
	f.want("before the newest events", gap)
	var ids []string
	for _, e := range batch[1:] {
		ids = append(ids, e.ID.String())
	}
	f.wantEvents("replayed", ids...)
}

func TestInvalidStreamRequestsAreRefused(t *testing.T) {
	r := setUp(t)
	got := r.admin("GET", T("acme")+"/events/stream?after=x", nil).want(http.StatusBadRequest).problem().locations()
	if !slices.Equal(got, []string{"query.after"}) {
		t.Errorf("faults at %v, want query.after", got)
	}
	req := httptest.NewRequestWithContext(t.Context(), "GET", T("acme")+"/events/stream", nil)
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Last-Event-ID", "1")
	if got := r.do(req).want(http.StatusBadRequest).problem().locations(); !slices.Equal(got, []string{"header.Last-Event-ID"}) {
		t.Errorf("faults at %v, want header.Last-Event-ID", got)
	}
	r.admin("GET", T("acme")+"/events/stream?status=gone", nil).want(http.StatusUnprocessableEntity)
}

func TestStreamsEnd(t *testing.T) {
	soon := noon.Add(time.Minute)
	for _, c := range []struct {
		claim       string
		end         func(r *fixture, f *streamClient, k eventhook.APIKey)
		needsUpdate bool // the stream notices at the next update
	}{
		{"when the gateway stops", func(r *fixture, _ *streamClient, _ eventhook.APIKey) { close(r.stopping) }, false},
		{"when the client disconnects", func(_ *fixture, f *streamClient, _ eventhook.APIKey) { f.disconnect() }, false},
		{"when the key is revoked", func(r *fixture, _ *streamClient, k eventhook.APIKey) {
			r.must(r.db.DeleteKey(r.Context(), operator, r.acme, k.ID))
			r.clock.Advance(time.Second)
		}, true},
		{"when the key expires", func(r *fixture, _ *streamClient, _ eventhook.APIKey) { r.clock.Advance(time.Minute) }, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			n := newFakeEventFeed()
			r := setUp(t, n.wrap)
			text, key := r.keyExpiringAt("acme", &soon, eventhook.ScopeRead)
			f := r.follow(text, "")
			f.want("the first message", started)
			n.updates <- eventhook.EventUpdates{}
			f.want("before the end", heartbeat)
			c.end(r, f, key)
			if c.needsUpdate {
				n.updates <- eventhook.EventUpdates{Events: []eventhook.Event{{ID: eventhook.NewID[eventhook.Event](noon)}}}
			}
			f.wantEnd(c.claim)
			receive(t, "the feed ends", n.ended)
		})
	}
}

func TestStreamsAreBounded(t *testing.T) {
	n := newFakeEventFeed()
	r := setUp(t, n.wrap)
	const limit = 20
	var streams []*streamClient
	for range limit {
		f := r.follow(adminKey, "")
		f.want("the first message", started)
		streams = append(streams, f)
	}
	a := r.admin("GET", T("acme")+"/events/stream", nil).want(http.StatusTooManyRequests)
	if a.Header().Get("Retry-After") == "" {
		t.Error("refused without Retry-After")
	}
	streams[0].disconnect()
	receive(t, "one stream ends", n.ended)
	streams[0].wantEnd("the client disconnected")
	for late := time.After(testTimeout); ; {
		select {
		case <-late:
			t.Fatal("an ended stream still counts towards the limit")
		default:
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r.send(ctx, adminKey, "GET", T("acme")+"/events/stream", nil).Code == http.StatusOK {
			break
		}
	}
}

// TestStreamFollowsTheDatabase uses the real feed, from a commit to the client.
func TestStreamFollowsTheDatabase(t *testing.T) {
	r := setUp(t)
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { _ = r.db.PushEvents(ctx, time.Millisecond) })
	t.Cleanup(func() {
		cancel()
		loop.Wait()
	})
	f := r.follow(adminKey, "?status=unrouted")
	f.want("the first message", started)
	e := r.event()
	r.settle(e)
	for {
		if m := f.next(); m != heartbeat {
			if m.id != e.ID.String() || !strings.Contains(m.data, `"unrouted"`) {
				t.Errorf("got %+v, want the event as it was settled", m)
			}
			return
		}
	}
}

// pipes is a listener of in-memory connections, whose deadlines use synthetic time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// serveStream serves the API with the timeouts of the gateway and returns a
// connection on which a stream was requested.
func serveStream(t *testing.T, n *fakeEventFeed) (client net.Conn, stop func()) {
	t.Helper()
	e := echo.New()
	api.Register(e, api.Deps{Events: n, Keys: oneTenant{}, AdminKeys: []eventhook.Secret{eventhook.NewSecret(adminKey)}, Now: time.Now})
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: e, ReadTimeout: 60 * time.Second, WriteTimeout: 120 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	client, conn := net.Pipe()
	l.conns <- conn
	_, err := fmt.Fprintf(client, "GET %s/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", T("acme"), adminKey)
	if err != nil {
		t.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		_ = server.Close()
		serving.Wait()
	}
}

func TestStreamOutlivesTheServersTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeEventFeed()
		client, stop := serveStream(t, n)
		defer stop()
		began, heartbeats := time.Now(), 0
		for lines := bufio.NewScanner(client); heartbeats < 40 && lines.Scan(); {
			if lines.Text() == ": heartbeat" {
				heartbeats++
			}
		}
		if took := time.Since(began); heartbeats != 40 || took != 10*time.Minute {
			t.Errorf("got %d heartbeats in %s, want 40, one each 15 s", heartbeats, took)
		}
	})
}

func TestStreamEndsForAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeEventFeed()
		began := time.Now()
		_, stop := serveStream(t, n)
		defer stop()
		<-n.ended
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("ended after %s, want 30 s", took)
		}
	})
}
