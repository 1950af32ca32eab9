package targets_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

func TestServersOfAMQPAndRedis(t *testing.T) {
	for _, c := range []struct{ url, address, place string }{
		{"amqp://rabbit.example", "rabbit.example:5672", "/"},
		{"amqps://rabbit.example/", "rabbit.example:5671", "/"},
		{"amqps://rabbit.example:1234/production", "rabbit.example:1234", "production"},
		{"amqp://[2001:db8::1]/a%2Fb", "[2001:db8::1]:5672", "a/b"},
	} {
		s := &targets.AMQP{AMQPServer: targets.AMQPServer{URL: c.url}, RoutingKey: "k"}
		f, isSecure := s.Check(), strings.HasPrefix(c.url, "amqps")
		if len(f) > 0 || s.Address() != c.address || s.VirtualHost() != c.place || s.UsesTLS() != isSecure {
			t.Errorf("%s: got %s, %s, TLS %t, %v; want %s and %s",
				c.url, s.Address(), s.VirtualHost(), s.UsesTLS(), f, c.address, c.place)
		}
	}
	for _, c := range []struct {
		url, address string
		database     int
	}{
		{"redis://redis.example", "redis.example:6379", 0},
		{"rediss://redis.example/", "redis.example:6379", 0},
		{"rediss://redis.example:6380/12", "redis.example:6380", 12},
	} {
		s := &targets.RedisStream{RedisServer: targets.RedisServer{URL: c.url}, Stream: "s"}
		f, isSecure := s.Check(), strings.HasPrefix(c.url, "rediss")
		if len(f) > 0 || s.Address() != c.address || s.Database() != c.database || s.UsesTLS() != isSecure {
			t.Errorf("%s: got %s, %d, TLS %t, %v; want %s and %d",
				c.url, s.Address(), s.Database(), s.UsesTLS(), f, c.address, c.database)
		}
	}
}

func TestServersOfAMQPAndRedisAreChecked(t *testing.T) {
	for _, settings := range []targets.Settings{
		&targets.AMQP{AMQPServer: targets.AMQPServer{URL: "amqp://a.example,amqp://b.example"}, RoutingKey: "k"},
		&targets.AMQP{AMQPServer: targets.AMQPServer{URL: "amqp://u:p@a.example"}, RoutingKey: "k"},
		&targets.AMQP{AMQPServer: targets.AMQPServer{URL: "redis://a.example"}, RoutingKey: "k"},
		&targets.AMQP{AMQPServer: targets.AMQPServer{URL: "amqp://a.example/" + strings.Repeat("v", 256)}, RoutingKey: "k"},
		&targets.RedisStream{RedisServer: targets.RedisServer{URL: "redis://a.example,redis://b.example"}, Stream: "s"},
		&targets.RedisStream{RedisServer: targets.RedisServer{URL: "redis://a.example/orders"}, Stream: "s"},
		&targets.RedisStream{RedisServer: targets.RedisServer{URL: "redis://a.example/1/2"}, Stream: "s"},
		&targets.RedisStream{RedisServer: targets.RedisServer{URL: "redis://a.example/123456"}, Stream: "s"},
	} {
		if f := settings.Check(); len(f) != 1 || f[0].Location != "url" {
			t.Errorf("%+v: got %v, want a fault of url", settings, f)
		}
	}
}

func TestServersOfNATS(t *testing.T) {
	for url, secure := range map[string]bool{"nats://a.example:4222, nats://b.example": false, "TLS://a.example,tls://b.example": true} {
		s := targets.NATSServer{URL: url}
		if f := s.Check(); len(f) > 0 || s.UsesTLS() != secure || len(s.Servers()) != 2 || strings.ContainsAny(strings.Join(s.Servers(), ""), " ,") {
			t.Errorf("%s: got %q, TLS %t, %v; want two servers, TLS %t", url, s.Servers(), s.UsesTLS(), f, secure)
		}
	}
	for _, url := range []string{"nats://a.example:4222,tls://b.example", "tls://a.example, nats://b.example:4222", "tls://a.example,"} {
		s := targets.NATSServer{URL: url}
		if f := s.Check(); len(f) != 1 || f[0].Location != "url" {
			t.Errorf("%s: got %v, want a fault of url", url, f)
		}
	}
}

func TestPubSubHasOneEndpoint(t *testing.T) {
	s := targets.PubSub{Project: "my-project", Topic: "orders", Credentials: "{}", Endpoint: "a.example:443,b.example:443"}
	if f := s.Check(); len(f) != 1 || f[0].Location != "endpoint" {
		t.Errorf("got %v, want a fault of endpoint", f)
	}
}

// A key is a part of routing keys, headers and names of streams, so it is bounded.
func TestKeysOfMessagesAreBounded(t *testing.T) {
	m := compile(t, `{"type":"redis_stream","url":"redis://a.example","stream":"s","key_path":"body.id"}`).(*targets.Message)
	for value, want := range map[string]string{"c-42": "c-42", strings.Repeat("x", 256): "sha256:", "a\\u0000b": "sha256:"} {
		e := newEvent("application/json", `{"id":"`+value+`"}`)
		if key := m.Compose(deliveryOf(e)).Key; !strings.HasPrefix(key, want) || len(key) > 255 {
			t.Errorf("%.20s: got the key %q, want %s", value, key, want)
		}
	}
}

func TestALongRoutingKeyIsCutBetweenCharacters(t *testing.T) {
	s := targets.AMQP{RoutingKey: "order.{key}"}
	if got, want := s.RoutingKeyOf(strings.Repeat("é", 127)), "order."+strings.Repeat("é", 124); got != want { // 255 bytes would cut a character
		t.Errorf("got a routing key of %d bytes, %q; want %d", len(got), got, len(want))
	}
}

func deliveryOf(e *eventhook.Event) *eventhook.Delivery {
	return &eventhook.Delivery{ID: eventhook.NewID[eventhook.Delivery](noon), EventID: e.ID, TenantID: e.TenantID, Event: e}
}
