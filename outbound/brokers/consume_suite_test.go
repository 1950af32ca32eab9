package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/outbound/brokers"
)

// consumedKind describes a kind of broker for the suite of consumers.
type consumedKind struct {
	server broker
	// source returns the JSON of the member consume of a source for the place to which the targets of
	// the server send, with the members replaced.
	source func(members map[string]any) string
	// unknown are members for a place that does not exist, and wrong those with wrong credentials.
	unknown, wrong map[string]any
	hidesKey       bool   // consumers do not see the key apart from the attributes
	drops          string // an attribute for which messages have no space
	// isLazy says that the connection is opened by the first call of Receive.
	isLazy bool
	// redrive, unless nil, imitates the redrive policy of a broker where refused messages stay: it
	// removes the messages that are hidden.
	redrive func(t testing.TB) (removed int)
	// hasNoLimit says that messages are not larger than a consumer reads.
	hasNoLimit bool
	tellsLag   bool
	// readsAll says that a message may have all bytes that a consumer holds, and not half of them.
	readsAll bool
}

// most returns the bytes of the largest message that a consumer reads.
func (k consumedKind) most(held int) int {
	if k.readsAll {
		return held
	}
	return held / 2
}

// testConsumers runs the conformance suite of a kind of consumer.
func testConsumers(t *testing.T, k consumedKind) {
	t.Run("a message arrives with its attributes", k.testMessage)
	t.Run("attributes keep their characters", k.testCharacters)
	t.Run("messages arrive in their order", k.testOrder)
	t.Run("messages that are not settled are delivered again", k.testRedelivery)
	t.Run("refused messages are not delivered again", k.testRefused)
	t.Run("the lag counts the messages that are not settled", k.testLag)
	t.Run("receive ends with its context", k.testStop)
	t.Run("a place that does not exist", k.testUnknown)
	t.Run("wrong credentials", k.testWrong)
	t.Run("an address that is not allowed", k.testBlocked)
	t.Run("a message that is too large", k.testTooLarge)
	t.Run("a broker that stops and comes back", k.testRestart)
}

// consumption consumes the messages of a source.
type consumption struct {
	testing.TB
	consumers.Consumer
}

const testBytes = 4 << 20

// place returns where the source with a JSON of consume consumes messages.
func place(t testing.TB, text string) consumers.Place {
	t.Helper()
	read, faults := consumers.Parse([]byte(text), nil)
	if len(faults) > 0 {
		t.Fatalf("%s: %v", text, faults)
	}
	return consumers.Place{Source: testSource, Settings: must(consumers.Open(read)), Limits: consumers.Limits{Bytes: testBytes}}
}

var testSource = eventhook.NewID[eventhook.Source](time.Unix(1_700_000_000, 0))

func newBrokers(dialer brokers.Dialer) *brokers.Brokers {
	return brokers.New(brokers.Deps{Dialer: dialer, RootCAs: trusted().RootCAs, Name: "eventhook/test", Now: time.Now})
}

func local() *egress.Client {
	return egress.New(egress.Policy{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
}

// tryConsume opens a consumer, and lets it receive messages if the kind connects so late.
func (k consumedKind) tryConsume(t testing.TB, dialer brokers.Dialer, members map[string]any) (consumers.Consumer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), receiveLimit)
	defer cancel()
	c, err := newBrokers(dialer).OpenConsumer(ctx, place(t, k.source(members)))
	if err == nil && k.isLazy {
		if _, err = c.Receive(ctx, 1); err != nil {
			c.Close()
		}
	}
	return c, err
}

// consume opens a consumer. It retries while a server that was started again is not ready.
func (k consumedKind) consume(t testing.TB) *consumption {
	t.Helper()
	for {
		c, err := newBrokers(local()).OpenConsumer(t.Context(), place(t, k.source(nil)))
		if err == nil {
			return &consumption{t, c}
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// next returns n messages.
func (c *consumption) next(n int) (list []*consumers.Message) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), receiveLimit)
	defer cancel()
	for len(list) < n {
		some, err := c.Receive(ctx, n-len(list))
		if err != nil {
			c.Fatalf("after %d of %d messages: %v", len(list), n, err)
		}
		list = append(list, some...)
	}
	if len(list) > n {
		c.Errorf("got %d messages, want at most %d", len(list), n)
	}
	return list
}

func (c *consumption) settle(list []*consumers.Message) {
	c.Helper()
	if err := c.Settle(c.Context(), list); err != nil {
		c.Fatal(err)
	}
}

// drain settles all messages that earlier tests have left.
func (k consumedKind) drain(t testing.TB, marker string) {
	t.Helper()
	c := k.consume(t)
	defer c.Close()
	for {
		m := c.next(1)
		c.settle(m)
		if string(m[0].Data) == marker {
			return
		}
	}
}

// publisher publishes messages of one key.
func (k consumedKind) publisher(t testing.TB) *fixture { return open(t, k.server.target(nil)) }

func body(n int) string { return `{"customer":{"id":"c-42"},"n":` + strconv.Itoa(n) + `}` }

// publish publishes messages with the numbers from first to last.
func (f *fixture) publish(first, last int) {
	f.Helper()
	for n := first; n <= last; n++ {
		f.sent(f.delivery("application/json", body(n)))
	}
}

func checkBodies(t testing.TB, list []*consumers.Message, first int) {
	t.Helper()
	for i, m := range list {
		if string(m.Data) != body(first+i) {
			t.Errorf("message %d is %s, want %s", i, m.Data, body(first+i))
		}
	}
}

func (k consumedKind) testMessage(t *testing.T) {
	f := k.publisher(t)
	c := k.consume(t)
	defer c.Close()
	d := f.delivery("application/json", order)
	f.sent(d)
	m := c.next(1)[0]
	attributes := map[string]string{}
	for _, h := range m.Headers {
		if name, ok := strings.CutPrefix(h.Name, "ce-"); ok {
			attributes[name] = h.Value
		}
	}
	want := map[string]string{"specversion": "1.0", "id": d.EventID.String(), "source": "shop", "type": "order.created", "partitionkey": "c-42",
		"time": d.EventID.Time().UTC().Format("2006-01-02T15:04:05.000Z"), "tenantid": f.tenant.String(), "requestid": "req-1", "eventhookhops": "1",
		"traceparent": eventhook.Traceparent(d.Event.Trace(), d.Event.Span(), d.Event.TraceFlags())}
	delete(want, k.drops)
	if diff := cmp.Diff(want, attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if string(m.Data) != order || m.ContentType != "application/json" || m.Position == "" || m.Subject == "" || m.Unreadable != "" || !k.hidesKey && m.Key != "c-42" {
		t.Errorf("got %+v", m)
	}
	c.settle([]*consumers.Message{m})
}

func (k consumedKind) testCharacters(t *testing.T) {
	f := k.publisher(t)
	c := k.consume(t)
	defer c.Close()
	const text = "\"sale 50%25, x%2F1, \u00e9\""
	d := f.delivery("application/json", order)
	d.Event.EventType = text
	f.sent(d)
	m := c.next(1)
	headers := http.Header{}
	for _, h := range m[0].Headers {
		headers.Set(h.Name, h.Value)
	}
	event := payload.New(nil, headers, m[0].ContentType, m[0].Data).CloudEvent()
	if got := gjson.GetBytes(event, "type").Str; got != text {
		t.Errorf("the attribute is %q, want %q", got, text)
	}
	c.settle(m)
}

func (k consumedKind) testOrder(t *testing.T) {
	f := k.publisher(t)
	const messages = 30
	f.publish(1, messages)
	c := k.consume(t)
	defer c.Close()
	list := c.next(messages)
	checkBodies(t, list, 1)
	positions := map[string]bool{}
	for _, m := range list {
		positions[m.Position] = true
	}
	if len(positions) != messages {
		t.Errorf("got %d positions of %d messages", len(positions), messages)
	}
	c.settle(list)
}

func (k consumedKind) testRedelivery(t *testing.T) {
	f := k.publisher(t)
	f.publish(1, 6)
	c := k.consume(t)
	list := c.next(6)
	c.settle(list[:2])
	c.settle(list[2:3])
	c.Close()
	f.publish(7, 7)
	c = k.consume(t)
	defer c.Close()
	again := c.next(4)
	checkBodies(t, again, 4)
	for i, m := range again[:3] {
		if m.Position != list[3+i].Position {
			t.Errorf("message %d has the position %s, and had %s", 4+i, m.Position, list[3+i].Position)
		}
	}
	c.settle(again)
}

func (k consumedKind) testRefused(t *testing.T) {
	f := k.publisher(t)
	f.publish(1, 5)
	c := k.consume(t)
	list := c.next(5)
	list[0].IsRefused, list[2].IsRefused, list[4].IsRefused = true, true, true
	c.settle(list)
	c.Close()
	if k.redrive != nil {
		if n := k.redrive(t); n != 3 {
			t.Errorf("%d refused messages stay at the broker, want 3", n)
		}
	}
	f.publish(6, 6)
	c = k.consume(t)
	defer c.Close()
	list = c.next(1)
	checkBodies(t, list, 6)
	c.settle(list)
}

// The messages are in several partitions if the broker has partitions.
func (k consumedKind) testLag(t *testing.T) {
	f := k.publisher(t)
	const messages, batch, settled = 40, 10, 4
	f.publishKeys(1, messages)
	c := k.consume(t)
	defer c.Close()
	list := c.next(batch)
	c.settle(list[:settled])
	if n, isKnown := c.Lag(t.Context()); isKnown != k.tellsLag {
		t.Errorf("got the lag %d, known is %t, want %t", n, isKnown, k.tellsLag)
	}
	c.hasLag(k.tellsLag, messages-settled)
	c.settle(list[settled:])
	c.settle(c.next(messages - batch))
	c.hasLag(k.tellsLag, 0)
}

// hasLag waits until the lag is n: the broker may tell it before it has processed an acknowledgement.
func (c *consumption) hasLag(isTold bool, n int64) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), receiveLimit)
	defer cancel()
	for isTold {
		lag, isKnown := c.Lag(ctx)
		if isKnown && lag == n {
			return
		}
		if ctx.Err() != nil {
			c.Fatalf("got the lag %d, known is %t, want %d", lag, isKnown, n)
		}
	}
}

func (k consumedKind) testStop(t *testing.T) {
	c := k.consume(t)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Receive(ctx, 1)
		ended <- err
	}()
	cancel()
	if err := next(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

// wantError fails the test unless an error has the class and tells no secret.
func wantError(t testing.TB, err error, classes ...eventhook.ErrorClass) {
	t.Helper()
	e, ok := errors.AsType[*brokers.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of the classes %q", err, classes)
	}
	for _, class := range classes {
		if e.Class == class {
			if e.Text == "" || strings.Contains(e.Text, secret) {
				t.Errorf("got the text %q", e.Text)
			}
			return
		}
	}
	t.Errorf("got %q: %s; want one of %q", e.Class, e.Text, classes)
}

func (k consumedKind) testUnknown(t *testing.T) {
	_, err := k.tryConsume(t, local(), k.unknown)
	wantError(t, err, eventhook.ErrorRefused)
}

func (k consumedKind) testWrong(t *testing.T) {
	_, err := k.tryConsume(t, local(), k.wrong)
	wantError(t, err, eventhook.ErrorAuth)
}

func (k consumedKind) testBlocked(t *testing.T) {
	_, err := k.tryConsume(t, egress.New(egress.Policy{}), nil)
	wantError(t, err, eventhook.ErrorBlocked)
}

func (k consumedKind) testTooLarge(t *testing.T) {
	if k.hasNoLimit {
		t.Skip("the broker takes no such message")
	}
	f := k.publisher(t)
	const large = 700 << 10
	marker := fmt.Sprintf(`{"customer":{"id":"c-42"},"large":%q}`, strings.Repeat("x", large))
	f.sent(f.delivery("application/json", marker))
	p := place(t, k.source(nil))
	p.Limits.Bytes = large
	ctx, cancel := context.WithTimeout(t.Context(), receiveLimit)
	defer cancel()
	c, err := newBrokers(local()).OpenConsumer(ctx, p)
	if err == nil {
		_, err = c.Receive(ctx, 1)
		c.Close()
	}
	wantError(t, err, eventhook.ErrorRefused)
	if want := fmt.Sprintf("larger than %d bytes: raise max_body_bytes, or remove the message", k.most(large)); !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
	k.drain(t, marker)
}

func (k consumedKind) testRestart(t *testing.T) {
	f := k.publisher(t)
	f.publish(1, 2)
	c := k.consume(t)
	list := c.next(2)
	c.settle(list[:1])
	k.server.stop()
	ctx, cancel := context.WithTimeout(t.Context(), receiveLimit)
	defer cancel()
	if _, err := c.Receive(ctx, 1); err == nil || ctx.Err() != nil {
		t.Errorf("the broker is stopped, and Receive returns %v", err)
	}
	c.Close()
	k.server.start()
	c = k.consume(t)
	defer c.Close()
	again := c.next(1)
	checkBodies(t, again, 2)
	c.settle(again)
}
