package rabbittest_test

import (
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook/internal/rabbittest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	rabbittest.Stop()
	os.Exit(code)
}

func TestAServerKeepsDurableMessagesWhileItIsStopped(t *testing.T) {
	s := rabbittest.Get(t)
	host, user := s.VirtualHost(t, "secret")
	ch := connect(t, s, host, user)
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	message := amqp.Publishing{Body: []byte("m"), DeliveryMode: amqp.Persistent}
	confirmed, err := ch.PublishWithDeferredConfirm("", "q", true, false, message)
	if err != nil || !confirmed.Wait() {
		t.Fatalf("the message was not stored: %v", err)
	}
	s.Stop()
	if c, err := amqp.Dial("amqp://" + s.Address()); err == nil {
		_ = c.Close()
		t.Error("the stopped server accepts connections")
	}
	s.Start(t)
	if m, found, err := connect(t, s, host, user).Get("q", true); err != nil || !found || string(m.Body) != "m" {
		t.Errorf("got %q, %t, %v; want the message", m.Body, found, err)
	}
}

func connect(t *testing.T, s *rabbittest.Server, host, user string) *amqp.Channel {
	t.Helper()
	login := &amqp.PlainAuth{Username: user, Password: "secret"}
	c, err := amqp.DialConfig("amqp://"+s.Address(), amqp.Config{Vhost: host, SASL: []amqp.Authentication{login}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}
