package brokers_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/rabbittest"
)

// amqpServer is a virtual host of RabbitMQ with an exchange orders, whose messages are in the queue
// orders.
type amqpServer struct {
	*rabbittest.Server
	t          testing.TB
	host, user string
	channel    *amqp.Channel
	messages   <-chan amqp.Delivery
}

func newAMQP(t testing.TB) *amqpServer {
	t.Helper()
	s := &amqpServer{Server: rabbittest.Get(t), t: t}
	s.host, s.user = s.VirtualHost(t, secret)
	s.connect()
	if err := s.channel.ExchangeDeclare("orders", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	s.queue("orders", nil)
	if err := s.channel.QueueBind("orders", "orders.#", "orders", false, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// connect opens a channel of the test.
func (s *amqpServer) connect() {
	s.t.Helper()
	c := s.dial()
	s.t.Cleanup(func() { _ = c.Close() })
	s.channel, s.messages = must(c.Channel()), nil
}

func (s *amqpServer) dial() *amqp.Connection {
	s.t.Helper()
	login := &amqp.PlainAuth{Username: s.user, Password: secret}
	return must(amqp.DialConfig("amqp://"+s.Address(), amqp.Config{Vhost: s.host, SASL: []amqp.Authentication{login}}))
}

// queue declares a durable queue.
func (s *amqpServer) queue(name string, arguments amqp.Table) {
	s.t.Helper()
	must(s.channel.QueueDeclare(name, true, false, false, false, arguments))
}

func (s *amqpServer) url(address string) string { return "amqp://" + address + "/" + s.host }

func (s *amqpServer) target(members map[string]any) string {
	return targetJSON(map[string]any{"type": "amqp", "url": s.url(s.Address()), "exchange": "orders",
		"routing_key": "orders.{key}", "username": s.user, "password": secret, "key_path": "body.customer.id"}, members)
}

// next returns the next message of the queue orders.
func (s *amqpServer) next() amqp.Delivery {
	s.t.Helper()
	if s.messages == nil {
		s.messages = must(s.channel.Consume("orders", "", true, false, false, false, nil))
	}
	m, isOpen := <-s.messages
	if !isOpen { // the server was stopped
		s.connect()
		return s.next()
	}
	return m
}

func (s *amqpServer) received(*testing.T) received {
	s.t.Helper()
	m := s.next()
	headers := map[string]string{}
	for name, value := range m.Headers {
		headers[name] = value.(string)
	}
	attributes := map[string]string{}
	for name, value := range headers {
		attributes[strings.TrimPrefix(name, "cloudEvents:")] = value
	}
	return received{Key: strings.TrimPrefix(m.RoutingKey, "orders."), ContentType: m.ContentType,
		Attributes: attributes, Data: string(m.Body)}
}

func (s *amqpServer) stop()  { s.Stop() }
func (s *amqpServer) start() { s.Start(s.t) }

func TestAMQP(t *testing.T) {
	testKind(t, kind{server: newAMQP(t), unknown: map[string]any{"exchange": "nowhere"},
		unknownClass: eventhook.ErrorRefused, wrong: map[string]any{"password": "another"}})
}

func TestAMQPProperties(t *testing.T) {
	s := newAMQP(t)
	f := open(t, s.target(nil))
	d := f.delivery("application/json", order)
	f.sent(d)
	m := s.next()
	if m.DeliveryMode != amqp.Persistent || m.MessageId != d.ID.String() || m.Type != "order.created" ||
		m.ContentType != "application/json" || !m.Timestamp.Equal(d.EventID.Time().Truncate(time.Second)) {
		t.Errorf("got %+v; want a persistent message with the id of the delivery, and the type and the time of the event", m)
	}
}

func TestAMQPRefusals(t *testing.T) {
	s := newAMQP(t)
	s.User(t, s.host, s.host+"-limited", secret, `^allowed$`)
	s.User(t, s.host, s.host+"-foreign", secret, `.*`)
	const clear = `rabbit_auth_backend_internal:clear_permissions(<<"%s-foreign">>, <<"%s">>, <<"test">>)`
	s.Eval(t, fmt.Sprintf(clear, s.host, s.host))
	s.queue("full", amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"})
	for name, c := range map[string]struct {
		members map[string]any
		class   eventhook.ErrorClass
		part    string
	}{
		"no queue": {map[string]any{"exchange": nil, "routing_key": "nothing", "key_path": nil},
			eventhook.ErrorRefused, `no queue has the name "nothing"; declare it`},
		"no binding": {map[string]any{"routing_key": "other"},
			eventhook.ErrorRefused, `bind a queue to it for the routing key "other"`},
		"no exchange": {map[string]any{"exchange": "nowhere"},
			eventhook.ErrorRefused, "the exchange does not exist: NOT_FOUND - no exchange 'nowhere'"},
		"a full queue": {map[string]any{"exchange": nil, "routing_key": "full"},
			eventhook.ErrorRefused, "a queue may be full"},
		"no permission": {map[string]any{"username": s.host + "-limited"},
			eventhook.ErrorAuth, "do not suffice: ACCESS_REFUSED"},
		"a foreign host": {map[string]any{"username": s.host + "-foreign"},
			eventhook.ErrorAuth, "do not suffice: NOT_ALLOWED - access to vhost"},
		"an unknown host": {map[string]any{"url": "amqp://" + s.Address() + "/nowhere"},
			eventhook.ErrorRefused, "vhost nowhere not found"},
		"an unknown user": {map[string]any{"username": "another"},
			eventhook.ErrorAuth, "does not accept the credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, s.target(c.members)).failsWith(c.class, c.part)
		})
	}
}

// After the server has closed a channel, its connection stays usable.
func TestAnExchangeThatIsDeclaredLater(t *testing.T) {
	s := newAMQP(t)
	f := open(t, s.target(map[string]any{"exchange": "later"}))
	f.fails(eventhook.ErrorRefused)
	if err := s.channel.ExchangeDeclare("later", "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.channel.QueueBind("orders", "", "later", false, nil); err != nil {
		t.Fatal(err)
	}
	a := f.sent(f.delivery("application/json", order))
	if a.Excerpt != "confirmed for the exchange later, routing key orders.c-42" {
		t.Errorf("got the receipt %q", a.Excerpt)
	}
	const count = `length([x || [{vhost, <<"%s">>}] <- rabbit_networking:connection_info_all([vhost])])`
	if n := s.Eval(t, fmt.Sprintf(count, s.host)); n != "2" {
		t.Errorf("%s connections are open, want one of the gateway and one of the test", n)
	}
}

// Messages of one connection and one channel: the outcome of each is its own.
func TestAMQPOutcomesAreNotConfused(t *testing.T) {
	s := newAMQP(t)
	s.Eval(t, "application:set_env(rabbit, max_message_size, 10000)")
	t.Cleanup(func() { s.Eval(t, "application:unset_env(rabbit, max_message_size)") })
	f := open(t, s.target(nil))
	unbound := f.compile(s.target(map[string]any{"routing_key": "other"}))
	large := `{"customer":{"id":"large"},"text":"` + strings.Repeat("x", 10_000) + `"}`
	var wait sync.WaitGroup
	for i := range 120 {
		switch i % 4 {
		case 0, 1:
			wait.Go(func() { f.sent(f.delivery("application/json", order)) })
		case 2:
			wait.Go(func() {
				a := unbound.Transport.Send(t.Context(), f.delivery("application/json", order), 1)
				if !strings.Contains(a.Error, "bind a queue") {
					t.Errorf("without a binding: got %q, %s", a.ErrorClass, a.Error)
				}
			})
		case 3:
			wait.Go(func() {
				a := f.send(f.delivery("application/json", large))
				if a.ErrorClass != eventhook.ErrorRefused || !strings.Contains(a.Error, "max size") {
					t.Errorf("a large message: got %q, %s", a.ErrorClass, a.Error)
				}
			})
		}
	}
	wait.Wait()
	if n := f.brokers.Open(); n != 1 {
		t.Errorf("%d connections are open, want one", n)
	}
}

func TestAMQPWithTLS(t *testing.T) {
	s := newAMQP(t)
	members := map[string]any{"url": strings.Replace(s.url(s.TLSAddress()), "amqp:", "amqps:", 1), "ca": s.CA}
	f := open(t, s.target(members))
	f.sent(f.delivery("application/json", order))
	members["ca"] = nil
	open(t, s.target(members)).fails(eventhook.ErrorTLS)
	members["url"] = s.url(s.TLSAddress())
	open(t, s.target(members)).fails(eventhook.ErrorClosed)
}

func TestAMQPServerThatBlocksPublishers(t *testing.T) {
	s := newAMQP(t)
	f := open(t, s.target(map[string]any{"timeout_seconds": 1}))
	f.sent(f.delivery("application/json", order))
	s.Eval(t, "vm_memory_monitor:set_vm_memory_high_watermark(0.0)")
	restore := func() { s.Eval(t, "vm_memory_monitor:set_vm_memory_high_watermark(0.4)") }
	t.Cleanup(restore)
	s.Eval(t, "(fun Await() -> case rabbit_alarm:get_alarms() of [] -> timer:sleep(1), Await(); _ -> ok end end)()")
	f.failsWith(eventhook.ErrorTimeout, "the server takes no messages at present (low on memory)")
	restore()
	f.sent(f.delivery("application/json", order))
}

func TestAPausedRabbitMQCostsATimeout(t *testing.T) {
	s := newAMQP(t)
	f := open(t, s.target(map[string]any{"timeout_seconds": 1}))
	f.sent(f.delivery("application/json", order))
	s.Pause()
	f.failsWith(eventhook.ErrorTimeout, "no acknowledgement from 127.0.0.1:")
	s.Resume()
	f.sent(f.delivery("application/json", order))
}
