package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/targets"
)

// broker is a server of a test.
type broker interface {
	// target returns the JSON of a target for a place that takes messages. The members replace
	// those of the target, or add to them; nil removes one.
	target(members map[string]any) string
	// received returns the next message at the place. It waits until there is one.
	received(t *testing.T) received
	// stop ends the server, and start starts it again with its address and its data.
	stop()
	start()
}

// received is a message as a consumer sees it.
type received struct {
	Key         string // "" where the broker shows none
	ContentType string
	Attributes  map[string]string // with the names of CloudEvents
	Data        string
}

// kind describes a kind of broker for the suite.
type kind struct {
	server broker
	// unknown are members of a target whose place does not exist, and wrong those of one whose
	// credentials are wrong.
	unknown, wrong map[string]any
	// unknownClass is the class of an attempt at the unknown place; "" if the broker creates it.
	unknownClass eventhook.ErrorClass
	// hidesKey says that consumers do not see the key of a message apart from its attributes.
	hidesKey bool
	// drops is an attribute for which messages have no space, "" for none.
	drops string
}

// testKind runs the conformance suite of a kind of broker.
func testKind(t *testing.T, k kind) {
	t.Run("a message arrives as a CloudEvent", k.testMessage)
	t.Run("raw data arrives unchanged", k.testRaw)
	t.Run("messages share a connection", k.testSharing)
	t.Run("a place that does not exist", k.testUnknown)
	t.Run("wrong credentials", k.testWrong)
	t.Run("an address that is not allowed", k.testBlocked)
	t.Run("a broker that never answers", k.testSilent)
	t.Run("a broker that stops and comes back", k.testRestart)
}

// fixture sends deliveries to one target.
type fixture struct {
	testing.TB
	brokers *brokers.Brokers
	target  *outbound.Target
	tenant  eventhook.TenantID
}

// open compiles a target. Connections to this machine are allowed.
func open(t testing.TB, text string) *fixture {
	t.Helper()
	return openWith(t, text, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
}

func openWith(t testing.TB, text string, allowed ...netip.Prefix) *fixture {
	t.Helper()
	return openBy(t, text, egress.New(egress.Policy{AllowedCIDRs: allowed}))
}

func openBy(t testing.TB, text string, dialer brokers.Dialer) *fixture {
	t.Helper()
	f := &fixture{TB: t, tenant: eventhook.NewID[eventhook.Tenant](time.Now()),
		brokers: brokers.New(brokers.Deps{Dialer: dialer, RootCAs: trusted().RootCAs, Name: "eventhook/test", Now: time.Now})}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.brokers.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	f.target = f.compile(text)
	return f
}

func (f *fixture) compile(text string) *outbound.Target {
	f.Helper()
	read, faults := targets.Parse([]byte(text), nil)
	if len(faults) > 0 {
		f.Fatalf("%s: %v", text, faults)
	}
	compiled, err := targets.New(read, targets.Deps{})
	if err != nil {
		f.Fatal(err)
	}
	target, err := f.brokers.Target(f.tenant, compiled.(*targets.Message))
	if err != nil {
		f.Fatal(err)
	}
	return target
}

// delivery returns a delivery of an event with a body.
func (f *fixture) delivery(contentType, body string) *eventhook.Delivery {
	now := time.Now()
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](now), TenantID: f.tenant, SourceSlug: "shop", Origin: eventhook.OriginSource,
		EventType: "order.created", ContentType: contentType, RequestID: "req-1", BodySize: len(body)}
	e.Headers, e.Body = []byte("Content-Type: "+contentType+"\r\n"), []byte(body)
	return &eventhook.Delivery{ID: eventhook.NewID[eventhook.Delivery](now), EventID: e.ID, TenantID: f.tenant, Event: e}
}

func (f *fixture) send(d *eventhook.Delivery) eventhook.Attempt {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	return f.target.Transport.Send(ctx, d, 1)
}

// sent sends a delivery, which must succeed.
func (f *fixture) sent(d *eventhook.Delivery) eventhook.Attempt {
	f.Helper()
	a := f.send(d)
	if !a.Succeeded() {
		f.Fatalf("the attempt failed: %s: %s", a.ErrorClass, a.Error)
	}
	return a
}

const order = `{"id":7,"customer":{"id":"c-42"}}`

func (k kind) testMessage(t *testing.T) {
	f := open(t, k.server.target(nil))
	d := f.delivery("application/json", order)
	a := f.sent(d)
	if a.Excerpt == "" {
		t.Error("the attempt does not tell where the message is")
	}
	got := k.server.received(t)
	want := received{Key: "c-42", ContentType: "application/json", Data: order, Attributes: map[string]string{
		"specversion": "1.0", "id": d.EventID.String(), "source": "shop", "type": "order.created", "partitionkey": "c-42",
		"time": d.EventID.Time().UTC().Format("2006-01-02T15:04:05.000Z"), "tenantid": f.tenant.String(), "requestid": "req-1", "eventhookhops": "1",
		"traceparent": eventhook.Traceparent(d.Event.Trace(), d.Event.Span(), d.Event.TraceFlags())}}
	if k.hidesKey {
		want.Key = ""
	}
	delete(want.Attributes, k.drops)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func (k kind) testRaw(t *testing.T) {
	f := open(t, k.server.target(map[string]any{"body": "raw"}))
	const body = "not JSON: \x01 \u00e4"
	f.sent(f.delivery("text/plain", body))
	if got := k.server.received(t); got.Data != body || got.ContentType != "text/plain" {
		t.Errorf("got %q of type %q, want the received bytes and their type", got.Data, got.ContentType)
	}
	d := f.delivery("text/plain; name=\u00e4\r\nce-type: forged\r\n\r\n", body)
	f.sent(d)
	if got := k.server.received(t); got.Data != body || got.Attributes["type"] != "order.created" || !strings.HasPrefix(got.ContentType, "text/plain; name=") {
		t.Errorf("got %+v, want the message in spite of its content type", got)
	}
}

func (k kind) testSharing(t *testing.T) {
	f := open(t, k.server.target(nil))
	other := f.compile(k.server.target(map[string]any{"timeout_seconds": 20}))
	const messages = 20
	var wait sync.WaitGroup
	failures := make(chan string, 2*messages)
	for range messages {
		for _, to := range []*outbound.Target{f.target, other} {
			wait.Go(func() {
				if a := to.Transport.Send(f.Context(), f.delivery("application/json", order), 1); !a.Succeeded() {
					failures <- string(a.ErrorClass) + ": " + a.Error
				}
			})
		}
	}
	wait.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
	if n := f.brokers.Open(); n != 1 {
		t.Errorf("%d connections are open, want one", n)
	}
	for range 2 * messages {
		k.server.received(t)
	}
}

func (k kind) testUnknown(t *testing.T) {
	if k.unknownClass == "" {
		t.Skip("the broker creates it")
	}
	f := open(t, k.server.target(k.unknown))
	f.fails(k.unknownClass)
}

func (k kind) testWrong(t *testing.T) {
	f := open(t, k.server.target(k.wrong))
	f.fails(eventhook.ErrorAuth)
}

func (k kind) testBlocked(t *testing.T) {
	f := openWith(t, k.server.target(nil))
	f.fails(eventhook.ErrorBlocked)
}

// fails sends a delivery that must fail, with an error that tells no secret and no address.
func (f *fixture) fails(classes ...eventhook.ErrorClass) eventhook.Attempt {
	f.Helper()
	a := f.send(f.delivery("application/json", order))
	if !slices.Contains(classes, a.ErrorClass) || a.Error == "" {
		f.Errorf("got %q: %s; want one of %q", a.ErrorClass, a.Error, classes)
	}
	if strings.Contains(a.Error, secret) {
		f.Errorf("the error %q tells a secret", a.Error)
	}
	return a
}

// failsWith sends a delivery that must fail with a class and a part of the error.
func (f *fixture) failsWith(class eventhook.ErrorClass, part string) {
	f.Helper()
	if a := f.fails(class); !strings.Contains(a.Error, part) {
		f.Errorf("got %s: %s; want %q", a.ErrorClass, a.Error, part)
	}
}

// receiveLimit is how long a test waits for a message, on a busy machine.
const receiveLimit = time.Minute

// secret is the password of the servers.
const secret = "hunter2-is-secret"

// testSilent connects to a server that accepts connections and says nothing.
func (k kind) testSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	f := open(t, at(k.server.target(map[string]any{"timeout_seconds": 1}), l.Addr().String()))
	f.fails(eventhook.ErrorTimeout, eventhook.ErrorConnect)
}

func (k kind) testRestart(t *testing.T) {
	f := open(t, k.server.target(map[string]any{"timeout_seconds": 5}))
	f.sent(f.delivery("application/json", order))
	k.server.received(t)
	k.server.stop()
	f.fails(eventhook.ErrorConnect, eventhook.ErrorClosed, eventhook.ErrorTimeout)
	k.server.start()
	d := f.delivery("application/json", order)
	for a := f.send(d); !a.Succeeded(); a = f.send(d) {
		if f.Context().Err() != nil {
			t.Fatalf("the broker is back, but the attempts fail: %s: %s", a.ErrorClass, a.Error)
		}
	}
	if got := k.server.received(t); got.Attributes["id"] != d.EventID.String() {
		t.Errorf("got the message %s, want %s", got.Attributes["id"], d.EventID)
	}
}

// next returns the next message of a channel. It waits until there is one.
func next[M any](t testing.TB, messages <-chan M) (m M) {
	t.Helper()
	select {
	case m = <-messages:
	case <-time.After(receiveLimit):
		t.Fatal(errNoMessage)
	}
	return m
}

var errNoMessage = errors.New("no message came")

// cloudAttributes returns the attributes among headers with a prefix.
func cloudAttributes(headers map[string]string, prefix string) map[string]string {
	attributes := map[string]string{}
	for name, value := range headers {
		if attribute, ok := strings.CutPrefix(strings.ToLower(name), prefix); ok {
			attributes[attribute] = value
		}
	}
	return attributes
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return v
}
