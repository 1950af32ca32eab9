package natslog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/natslog"
	"github.com/eventhook/eventhook/internal/natstest"
)

// connect connects to the log without taking messages from it.
func (f *fixture) connect(log *slog.Logger) *natslog.Log {
	f.Helper()
	l, err := natslog.Open(natslog.Options{Config: f.config, Ingest: f.ingest, Name: "test", Log: log, Now: time.Now, AckWait: 2 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(l.Close)
	return l
}

// run takes messages from the log until the test ends.
func (f *fixture) run(l *natslog.Log) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx, f.sink) }()
	f.Cleanup(func() { cancel(); <-ended })
}

// The log becomes ready and stops being ready while webhooks are appended.
func TestAnAcknowledgedEventIsInTheStream(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	_, stop := f.open()
	stop()
	l := f.connect(slog.New(slog.DiscardHandler))
	l.SetReady(true)
	f.ready(l)
	var toggling sync.WaitGroup
	end := make(chan struct{})
	toggling.Go(func() {
		for is := false; ; is = !is {
			select {
			case <-end:
				return
			default:
				l.SetReady(is)
			}
		}
	})
	var acknowledged uint64
	for range 20_000 {
		if f.append(l, event("{}")) == nil {
			acknowledged++
		}
	}
	close(end)
	toggling.Wait()
	s, err := natstest.Connect(t, f.url).Stream(t.Context(), f.config.Name)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got != acknowledged || got == 0 {
		t.Errorf("the stream has %d messages, and %d were acknowledged", got, acknowledged)
	}
}

// logins allows logins or refuses them.
type logins struct {
	isAllowed atomic.Bool
	refused   atomic.Int32
}

func (a *logins) Check(server.ClientAuthentication) bool {
	if a.isAllowed.Load() {
		return true
	}
	a.refused.Add(1)
	return false
}

func TestALoginThatWasRefusedIsTriedAgain(t *testing.T) {
	accounts := &logins{}
	accounts.isAllowed.Store(true)
	s := natstest.New(t, func(o *server.Options) { o.CustomClientAuthentication = accounts })
	f := setUp(t, s.URL(), 1)
	l, _ := f.open()
	s.Stop()
	accounts.isAllowed.Store(false)
	s.Start()
	f.sink.wait(t, "the server has refused three logins", func() bool { return accounts.refused.Load() >= 3 })
	accounts.isAllowed.Store(true)
	f.ready(l)
	f.hasOnce(f.appended(l, 3))
}

// proxy stands between an instance and a server.
type proxy struct {
	listener net.Listener
	server   string
	hung     sync.RWMutex // locked while nothing is forwarded
	running  sync.WaitGroup
}

func newProxy(t *testing.T, server string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.running.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.running.Go(func() { p.forward(server, client) })
		p.running.Go(func() { p.forward(client, server) })
	}
}

func (p *proxy) forward(to, from net.Conn) {
	defer func() { _ = to.Close() }()
	_, _ = io.Copy(writer{p, to}, from)
}

// writer writes unless the proxy hangs.
type writer struct {
	*proxy
	to io.Writer
}

func (w writer) Write(b []byte) (int, error) {
	w.hung.RLock()
	defer w.hung.RUnlock()
	return w.to.Write(b)
}

// hang makes the server hang until the test ends.
func (p *proxy) hang(t *testing.T) {
	p.hung.Lock()
	t.Cleanup(p.hung.Unlock)
}

func TestAnAppendWithoutAnAnswerIsForgotten(t *testing.T) {
	s := natstest.New(t, nil)
	p := newProxy(t, s.Address())
	f := setUp(t, "nats://"+p.listener.Addr().String(), 1)
	f.config.AppendTimeout = 100 * time.Millisecond
	l := f.connect(slog.New(slog.DiscardHandler))
	l.SetReady(true)
	f.ready(l)
	p.hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), f.config.AppendTimeout)
	defer cancel()
	if err := l.Append(ctx, event("{}")); err == nil || l.Ready() != nil {
		t.Fatalf("got %v, and the connection %v; want an error, and a connection", err, l.Ready())
	}
	f.sink.wait(t, "the append is forgotten", func() bool { return l.Pending() == 0 })
	if err := l.Ready(); err != nil {
		t.Errorf("it was forgotten because the connection broke: %v", err)
	}
}

// lines collects the log of a test.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) have(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// The connection stays, and its server does not answer.
func TestALogThatHangsIsNotReady(t *testing.T) {
	s := natstest.New(t, nil)
	p := newProxy(t, s.Address())
	f := setUp(t, "nats://"+p.listener.Addr().String(), 1)
	f.config.AppendTimeout = 500 * time.Millisecond
	log := &lines{}
	l := f.connect(slog.New(slog.NewTextHandler(log, nil)))
	f.run(l)
	f.ready(l)
	p.hang(t)
	f.sink.wait(t, "the log says that it does not work", func() bool { return log.have("the log of webhooks does not work") })
	if l.Ready() == nil {
		t.Error("the log is ready")
	}
}

func TestALogThatWasNeverReachedSaysSo(t *testing.T) {
	s := natstest.New(t, nil)
	s.Stop()
	f := setUp(t, s.URL(), 1)
	log := &lines{}
	f.run(f.connect(slog.New(slog.NewTextHandler(log, nil))))
	f.sink.wait(t, "the log says that it cannot be reached", func() bool { return log.have("the log of webhooks cannot be reached") })
	if !log.have("connection refused") {
		t.Errorf("got %s, want the cause", log.text.String())
	}
}

func TestALoginThatIsRefusedIsTheReason(t *testing.T) {
	for _, isUp := range []bool{true, false} {
		s := natstest.New(t, func(o *server.Options) { o.Username, o.Password = "gateway", "right" })
		if !isUp {
			s.Stop()
		}
		f := setUp(t, "nats://gateway:verysecret@"+s.Address(), 1)
		log := &lines{}
		l := f.connect(slog.New(slog.NewTextHandler(log, nil)))
		f.run(l)
		if !isUp {
			f.sink.wait(t, "the log cannot be reached", func() bool { return log.have("the log of webhooks cannot be reached") })
			s.Start()
		}
		f.sink.wait(t, "the reason is the login", func() bool { return strings.Contains(l.Ready().Error(), "refuse the credentials") })
		if text := l.Ready().Error(); strings.Contains(text, "verysecret") || log.have("verysecret") {
			t.Errorf("the password is in %s or in the log", text)
		}
	}
}

func TestABatchHasAboutTheBytesOfACommit(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.ingest.Writers, f.ingest.BatchBytes = 1, 64<<10
	f.sink.down = true
	storing, goOn := make(chan struct{}), make(chan struct{})
	f.sink.failing = func([]*eventhook.Event) error {
		storing <- struct{}{}
		<-goOn
		return nil
	}
	l, _ := f.open()
	var list []eventhook.EventID
	for range 20 {
		e := event(strings.Repeat("x", 20<<10))
		e.IdempotencyKey = ""
		if err := f.append(l, e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e.ID)
	}
	f.sink.setDown(false)
	<-storing
	c, err := natstest.Connect(t, f.url).Consumer(t.Context(), f.config.Name, "store")
	if err != nil {
		t.Fatal(err)
	}
	if taken := c.CachedInfo().NumAckPending; taken > 3 {
		t.Errorf("%d messages of 20 KiB were taken for a commit of 64 KiB, want 3 at most", taken)
	}
	go func() {
		for range storing { // the other batches
		}
	}()
	close(goOn)
	f.hasOnce(list)
	f.isEmpty()
	f.sink.mu.Lock()
	defer f.sink.mu.Unlock()
	f.sink.failing = nil
	close(storing)
}

// The database is there, and fails to store any batch with one event.
func TestAMessageThatCannotBeStoredDelaysNoOther(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	isPoison := func(e *eventhook.Event) bool { return string(e.Body) == "poison" }
	f.sink.failing = func(events []*eventhook.Event) error {
		if slices.ContainsFunc(events, isPoison) {
			return errors.New("permission denied")
		}
		return nil
	}
	f.ingest.Writers, f.sink.down = 1, true
	l, _ := f.open()
	before := f.appended(l, 5)
	if err := f.append(l, event("poison")); err != nil {
		t.Fatal(err)
	}
	after := f.appended(l, 5)
	f.sink.setDown(false)
	f.hasOnce(append(before, after...))
	f.hasOnce(f.appended(l, 5))
	js := natstest.Connect(t, f.url)
	f.sink.wait(t, "only the message that cannot be stored is in the stream", func() bool {
		s, err := js.Stream(t.Context(), f.config.Name)
		return err == nil && s.CachedInfo().State.Msgs == 1
	})
}

// A message was delivered to instances that stopped.
func TestDeliveriesAreNoRefusals(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	isRefused := false
	f.sink.refuses = func(*eventhook.Event) bool {
		defer func() { isRefused = true }()
		return !isRefused
	}
	f.sink.down = true
	l, _ := f.open()
	list := f.appended(l, 1)
	js := natstest.Connect(t, f.url)
	c, err := js.Consumer(t.Context(), f.config.Name, "store")
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	f.sink.setDown(false)
	f.hasOnce(list)
	if s, err := js.Stream(t.Context(), f.config.Name+"_DEAD"); err != nil || s.CachedInfo().State.Msgs != 0 {
		t.Errorf("got %+v, %v; want no dead message", s, err)
	}
}
