package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/natslog"
	"github.com/eventhook/eventhook/internal/natstest"
)

func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server."
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(server+"(*Server).startGWReplyMapExpiration.func1"),
		goleak.IgnoreAnyFunction(server+"(*fileStore).flushStreamStateLoop")) // of a stream that a server creates while it stops
}

// sink is a database in memory.
type sink struct {
	mu      sync.Mutex
	stored  map[eventhook.EventID]*eventhook.Event
	order   []eventhook.EventID
	times   map[eventhook.EventID]int // how often each event was stored
	batches int
	down    bool
	refuses func(*eventhook.Event) bool
	failing func(events []*eventhook.Event) error // called before the events are stored
	lost    int                                   // commits whose answer is lost
	changed chan struct{}
}

func newSink() *sink {
	return &sink{stored: map[eventhook.EventID]*eventhook.Event{}, times: map[eventhook.EventID]int{}, changed: make(chan struct{}, 1)}
}

var errDown = errors.New("the database is down")

func (s *sink) Store(events []*eventhook.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	if s.down {
		return errDown
	}
	if s.failing != nil {
		if err := s.failing(events); err != nil {
			return err
		}
	}
	s.batches++
	for _, e := range events {
		if s.refuses != nil && s.refuses(e) || s.stored[e.ID] != nil {
			continue // a primary key refuses an event that is stored
		}
		e.Status = eventhook.EventPending
		s.stored[e.ID] = e
		s.order = append(s.order, e.ID)
		s.times[e.ID]++
	}
	if s.lost > 0 {
		s.lost--
		return errors.New("the connection broke after the commit")
	}
	return nil
}

func (s *sink) Stored(_ context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errDown
	}
	found := map[eventhook.EventID]bool{}
	for _, id := range ids {
		if s.stored[id] != nil {
			found[id] = true
		}
	}
	return found, nil
}

func (s *sink) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

func (s *sink) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *sink) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// wait waits until a condition holds, which is checked after each commit and from time to time.
func (s *sink) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		s.mu.Lock()
		ok := holds()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.changed:
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// fixture is a log with its own servers.
type fixture struct {
	*testing.T
	url    string
	config ingest.LogConfig
	ingest ingest.Config
	sink   *sink
}

func setUp(t *testing.T, url string, replicas int) *fixture {
	c := ingest.DefaultLogConfig()
	c.URL, c.Replicas, c.MaxBytes = url, replicas, 64<<20
	return &fixture{t, url, c, ingest.DefaultConfig(), newSink()}
}

// open connects an instance and waits until it is ready. stop ends it as a stop does.
func (f *fixture) open() (l *natslog.Log, stop func()) {
	f.Helper()
	l, err := natslog.Open(natslog.Options{Config: f.config, Ingest: f.ingest, Name: "test", Log: slog.New(slog.DiscardHandler), Now: time.Now, AckWait: 2 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx, f.sink) }()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		l.Close()
	})
	f.Cleanup(stop)
	f.ready(l)
	return l, stop
}

func (f *fixture) ready(l *natslog.Log) {
	f.Helper()
	f.sink.wait(f.T, "the log is ready", func() bool { return l.Ready() == nil })
}

// event returns an event with a body.
func event(body string) *eventhook.Event {
	now := time.Now()
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](now), TenantID: eventhook.NewID[eventhook.Tenant](now), SourceID: eventhook.NewID[eventhook.Source](now),
		SourceSlug: "github", Origin: eventhook.OriginSource, EventType: "push", IdempotencyKey: "k-" + body, SignedHash: "h", ContentType: "application/json",
		SourceIP: "192.0.2.1", TraceID: "t", RequestID: "r", BodySize: len(body)}
	e.Headers, e.Body = []byte("X-A: b\r\n"), []byte(body)
	return e
}

func (f *fixture) append(l *natslog.Log, e *eventhook.Event) error {
	ctx, cancel := context.WithTimeout(f.Context(), 10*time.Second)
	defer cancel()
	return l.Append(ctx, e)
}

// appended appends events, all of which must be acknowledged.
func (f *fixture) appended(l *natslog.Log, n int) (ids []eventhook.EventID) {
	f.Helper()
	for i := range n {
		e := event(fmt.Sprintf(`{"n":%d}`, i))
		if err := f.append(l, e); err != nil {
			f.Fatalf("append %d: %v", i, err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func (f *fixture) hasOnce(ids []eventhook.EventID) {
	f.Helper()
	f.sink.wait(f.T, fmt.Sprintf("%d events are stored", len(ids)), func() bool {
		for _, id := range ids {
			if f.sink.stored[id] == nil {
				return false
			}
		}
		return true
	})
	f.sink.mu.Lock()
	defer f.sink.mu.Unlock()
	for _, id := range ids {
		if f.sink.times[id] != 1 {
			f.Errorf("the event %s was stored %d times", id, f.sink.times[id])
		}
	}
}

// isEmpty waits until all messages are acknowledged.
func (f *fixture) isEmpty() {
	f.Helper()
	js := natstest.Connect(f.T, f.url)
	f.sink.wait(f.T, "the stream is empty", func() bool {
		s, err := js.Stream(f.Context(), f.config.Name)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

func TestEventsOfTheLogAreStoredAsTheyWere(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	l, _ := f.open()
	sent := event(`{"a":"\u00e4"}`)
	if err := f.append(l, sent); err != nil {
		t.Fatal(err)
	}
	f.hasOnce([]eventhook.EventID{sent.ID})
	got, want := *f.sink.stored[sent.ID], *sent
	want.Status = eventhook.EventPending
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	f.isEmpty()
}

func TestEventsWaitWhileTheDatabaseIsDown(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	l, _ := f.open()
	f.sink.setDown(true)
	ids := f.appended(l, 500)
	f.sink.wait(t, "the state tells the backlog", func() bool {
		s, ok := l.State()
		return ok && s.Messages == 500 && !s.OldestAt.IsZero()
	})
	f.sink.setDown(false)
	f.hasOnce(ids)
	f.isEmpty()
	if f.sink.batches > 100 {
		t.Errorf("500 waiting events took %d commits, want batches", f.sink.batches)
	}
}

func TestACommitWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.sink.lost = 2
	l, _ := f.open()
	f.hasOnce(f.appended(l, 50))
	f.isEmpty()
}

func TestMessagesOfADeadInstanceAreStoredByAnother(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	first, stop := f.open()
	taken := make(chan struct{})
	hold := make(chan struct{})
	f.sink.failing = func([]*eventhook.Event) error { // the first instance has messages, and cannot store them
		select {
		case taken <- struct{}{}:
		default:
		}
		select {
		case <-hold:
			return nil
		default:
			return errDown
		}
	}
	ids := f.appended(first, 20)
	<-taken
	stop()
	close(hold)
	f.open()
	f.hasOnce(ids)
	f.isEmpty()
}

func TestAPoisonMessageLeavesTheLog(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.sink.refuses = func(e *eventhook.Event) bool { return string(e.Body) == "poison" }
	l, _ := f.open()
	js := natstest.Connect(t, f.url)
	if _, err := js.Publish(t.Context(), f.config.Name+".events.x", []byte("\x01\xffnot an event")); err != nil {
		t.Fatal(err)
	}
	if err := f.append(l, event("poison")); err != nil {
		t.Fatal(err)
	}
	f.hasOnce(f.appended(l, 10)) // further events are not delayed
	f.isEmpty()
	s, err := js.Stream(t.Context(), f.config.Name+"_DEAD")
	if err != nil || s.CachedInfo().State.Msgs != 2 {
		t.Fatalf("got %+v, %v; want 2 dead messages", s, err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil || m.Header.Get("Eventhook-Reason") == "" || string(m.Data) != "\x01\xffnot an event" {
		t.Errorf("got %+v, %v; want the message with a reason", m, err)
	}
}

// docs/scaling.md, "Dead messages": the same bytes under another subject are stored after the cause is gone.
func TestADeadMessageIsStoredWhenItIsSentAgain(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.sink.refuses = func(*eventhook.Event) bool { return true }
	l, _ := f.open()
	sent := event("{{ \x00\r\n")
	if err := f.append(l, sent); err != nil {
		t.Fatal(err)
	}
	f.isEmpty()
	dead, err := natstest.Connect(t, f.url).Stream(t.Context(), f.config.Name+"_DEAD")
	if err != nil {
		t.Fatal(err)
	}
	m, err := dead.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	f.sink.mu.Lock()
	f.sink.refuses = nil
	f.sink.mu.Unlock()
	if _, err := natstest.Connect(t, f.url).Publish(t.Context(), f.config.Name+".events.again", m.Data); err != nil {
		t.Fatal(err)
	}
	f.hasOnce([]eventhook.EventID{sent.ID})
	if got := string(f.sink.stored[sent.ID].Body); got != string(sent.Body) {
		t.Errorf("got the body %q, want %q", got, sent.Body)
	}
	f.isEmpty()
}

func TestALaterFormatIsLeftToLaterVersions(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	log := &lines{}
	l := f.connect(slog.New(slog.NewTextHandler(log, nil)))
	f.run(l)
	f.ready(l)
	js := natstest.Connect(t, f.url)
	if _, err := js.Publish(t.Context(), f.config.Name+".events.x", []byte("\x02later")); err != nil {
		t.Fatal(err)
	}
	f.sink.wait(t, "the message is logged", func() bool { return log.have("unknown format") })
	f.hasOnce(f.appended(l, 3))
	f.sink.wait(t, "only the message of the later version is in the stream", func() bool {
		s, err := js.Stream(t.Context(), f.config.Name)
		return err == nil && s.CachedInfo().State.Msgs == 1
	})
}

// Another program has written into the stream.
func TestAnUnknownFormatBecomesADeadMessage(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.sink.down = true
	_, stop := f.open()
	js := natstest.Connect(t, f.url)
	if _, err := js.Publish(t.Context(), f.config.Name+".events.x", []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(t.Context(), f.config.Name, "store")
	if err != nil {
		t.Fatal(err)
	}
	for range 15*60/2 - 1 { // in 15 minutes there is a delivery every 2 seconds
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	f.sink.setDown(false)
	f.open()
	f.isEmpty()
	dead, err := js.Stream(t.Context(), f.config.Name+"_DEAD")
	if err != nil {
		t.Fatal(err)
	}
	m, err := dead.GetMsg(t.Context(), 1)
	if err != nil || string(m.Data) != "garbage" || !strings.Contains(m.Header.Get("Eventhook-Reason"), "format") {
		t.Errorf("got %+v, %v; want the message with the reason", m, err)
	}
}

func TestALogAtItsBoundIsFull(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.config.MaxBytes = 1 << 20
	f.sink.down = true
	l, _ := f.open()
	body := make([]byte, 100<<10)
	var ids []eventhook.EventID
	for range 100 {
		e := event(string(body))
		err := f.append(l, e)
		if errors.Is(err, ingest.ErrLogFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	if len(ids) == 0 || len(ids) == 100 {
		t.Fatalf("%d events of 100 KiB fit into 1 MiB", len(ids))
	}
	f.sink.setDown(false)
	f.hasOnce(ids)
	f.isEmpty()
	if err := f.append(l, event("{}")); err != nil {
		t.Errorf("after the drain: %v", err)
	}
}

func TestLargeEventsDoNotFit(t *testing.T) {
	f := setUp(t, natstest.New(t, func(o *server.Options) { o.MaxPayload = 64 << 10 }).URL(), 1)
	l, _ := f.open()
	if small, large := l.Fits(event("x")), l.Fits(event(string(make([]byte, 64<<10)))); !small || large {
		t.Errorf("got %t for a small event and %t for a large one, want true and false", small, large)
	}
}

func TestALogStartsWithoutItsServers(t *testing.T) {
	s := natstest.New(t, nil)
	s.Stop()
	f := setUp(t, s.URL(), 1)
	l, err := natslog.Open(natslog.Options{Config: f.config, Ingest: ingest.DefaultConfig(), Log: slog.New(slog.DiscardHandler), Now: time.Now, AckWait: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx, f.sink) }()
	t.Cleanup(func() { cancel(); <-ended; l.Close() })
	if err := f.append(l, event("x")); err == nil || l.Ready() == nil {
		t.Errorf("got %v and %v without servers, want errors", err, l.Ready())
	}
	s.Start()
	f.ready(l)
	f.hasOnce(f.appended(l, 3))
}

// The whole cluster stops and comes back; its leader stops under load.
func TestAClusterLosesNothing(t *testing.T) {
	c := natstest.NewCluster(t, 3)
	f := setUp(t, c.URL(), 3)
	l, _ := f.open()
	var mu sync.Mutex
	var ids []eventhook.EventID
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				e := event("{}")
				if f.append(l, e) == nil {
					mu.Lock()
					ids = append(ids, e.ID)
					mu.Unlock()
				}
			}
		})
	}
	accepted := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(ids)
	}
	grows := func(what string) {
		t.Helper()
		before := accepted()
		f.sink.wait(t, what, func() bool { return accepted() > before+100 })
	}
	grows("events are accepted")
	leader := c.Leader(f.config.Name)
	leader.Stop()
	grows("events are accepted without the leader")
	leader.Start()
	c.WaitForLeader()
	grows("events are accepted with all servers")
	c.Stop()
	if err := f.append(l, event("x")); err == nil {
		t.Error("an event was accepted without servers")
	}
	c.Start()
	grows("events are accepted after the outage")
	close(stop)
	load.Wait()
	f.hasOnce(ids)
	f.isEmpty()
}
