package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func queue(members object) object {
	q := object{"type": "amqp", "url": "amqps://mq.example", "queue": "orders", "username": "u", "password": "hush"}
	for name, value := range members {
		q[name] = value
	}
	return q
}

func TestASourceConsumesMessages(t *testing.T) {
	r := setUp(t)
	sources := T("acme") + "/sources"
	created := r.admin("POST", sources, object{"slug": "orders", "consume": queue(nil)}).want(http.StatusCreated).object()
	check := func(what string, got object, host string) {
		t.Helper()
		consume, _ := got["consume"].(object)
		if consume["type"] != "amqp" || consume["url"] != host || consume["password"] != "[redacted]" || got["verifier"] != nil || got["provider"] != nil {
			t.Errorf("%s: got %v", what, got)
		}
		state, _ := got["consumer"].(object)
		if state["status"] != "waiting" || state["instance"] != nil || state["error"] != "no instance consumes the messages at present" {
			t.Errorf("%s: got the state %v", what, got["consumer"])
		}
	}
	check("created", created, "amqps://mq.example")
	if got := r.admin("GET", sources+"/orders", nil).want(http.StatusOK); strings.Contains(got.Body.String(), "hush") {
		t.Errorf("the answer has the password: %s", got.Body.String())
	} else {
		check("got", got.object(), "amqps://mq.example")
	}
	patched := r.admin("PATCH", sources+"/orders", object{"name": "Orders", "consume": object{"prefetch": 5}}).want(http.StatusOK).object()
	check("patched", patched, "amqps://mq.example")
	if patched["consume"].(object)["prefetch"] != 5.0 {
		t.Errorf("got %v, want a prefetch of 5", patched["consume"])
	}
	if s, err := r.db.FindSource(t.Context(), "acme", "orders"); err != nil || !strings.Contains(s.Consume.Secrets.Reveal(), "hush") {
		t.Errorf("the password was not kept (%v)", err)
	}
	disabled := r.admin("PATCH", sources+"/orders", object{"is_enabled": false}).want(http.StatusOK).object()
	if state := disabled["consumer"].(object); state["status"] != "stopped" || state["error"] != nil {
		t.Errorf("got the state %v of a disabled source", state)
	}
}

func TestTheSettingsOfABrokerAreChecked(t *testing.T) {
	r := setUp(t)
	sources := T("acme") + "/sources"
	r.admin("POST", sources, object{"slug": "orders", "consume": queue(nil)}).want(http.StatusCreated)
	for _, c := range []struct {
		claim string
		body  object
		want  []string
	}{
		{"an unknown type", object{"consume": object{"type": "zeromq"}}, []string{"body.consume.type"}},
		{"a missing member", object{"consume": object{"type": "kafka", "brokers": "k.example:9092", "topic": "t"}}, []string{"body.consume.group"}},
		{"NUL, and a white token", object{"consume": object{"type": "nats", "url": "nats://n.example", "stream": "S", "consumer": "c", "subject": "a\x00b", "token": " "}},
			[]string{"body.consume.subject", "body.consume.token"}},
		{"a wrong URL", object{"consume": queue(object{"url": "http://mq.example"})}, []string{"body.consume.url"}},
		{"a member of another type", object{"consume": queue(object{"topic": "t"})}, []string{"body.consume.topic"}},
		{"an unknown member", object{"consume": queue(object{"colour": "red"})}, []string{"body.consume.colour"}},
		{"a target that is no source", object{"consume": object{"type": "http", "url": "https://a.example"}}, []string{"body.consume.type"}},
		{"a verifier, too", object{"consume": queue(nil), "provider": "github", "secrets": []string{"s"}}, []string{"body.provider", "body.secrets"}},
		{"settings of webhooks", object{"consume": queue(nil), "allowed_ip_ranges": []string{"192.0.2.0/24"}, "response": object{"status": 200}}, []string{"body.allowed_ip_ranges", "body.response"}},
		{"a redacted secret of no source", object{"consume": queue(object{"password": "[redacted]"})}, []string{"body.consume.password"}},
	} {
		c.body["slug"] = "other"
		answer := r.admin("POST", sources, c.body).want(http.StatusUnprocessableEntity)
		for _, want := range c.want {
			if !strings.Contains(answer.Body.String(), `"`+want+`"`) || strings.Contains(answer.Body.String(), "hush") {
				t.Errorf("%s: got %s, want a fault of %s", c.claim, answer.Body.String(), want)
			}
		}
	}
	moved := r.admin("PATCH", sources+"/orders", object{"consume": object{"url": "amqps://evil.example"}}).want(http.StatusUnprocessableEntity)
	if !strings.Contains(moved.Body.String(), "body.consume.password") {
		t.Errorf("a password would be sent to another host: %s", moved.Body.String())
	}
}

func TestASourceChangesBetweenWebhooksAndMessages(t *testing.T) {
	r := setUp(t)
	sources := T("acme") + "/sources"
	r.admin("POST", sources, object{"slug": "orders", "provider": "github", "secrets": []string{"s"}}).want(http.StatusCreated)
	r.admin("PATCH", sources+"/orders", object{"consume": queue(nil)}).want(http.StatusUnprocessableEntity) // it has a provider
	got := r.admin("PATCH", sources+"/orders", object{"consume": queue(nil), "provider": nil, "secrets": nil}).want(http.StatusOK).object()
	if got["provider"] != nil || got["consume"] == nil {
		t.Errorf("got %v, want a source that consumes messages", got)
	}
	nats := object{"type": "nats", "url": "nats://n.example:4222", "stream": "S", "consumer": "c"}
	got = r.admin("PATCH", sources+"/orders", object{"consume": nats}).want(http.StatusOK).object()
	if consume := got["consume"].(object); consume["type"] != "nats" || consume["queue"] != nil {
		t.Errorf("got %v, want the settings of the other type", consume)
	}
	r.admin("PATCH", sources+"/orders", object{"consume": nil}).want(http.StatusUnprocessableEntity) // it has neither
	got = r.admin("PATCH", sources+"/orders", object{"consume": nil, "provider": "github", "secrets": []string{"s"}}).want(http.StatusOK).object()
	if got["consume"] != nil || got["consumer"] != nil || got["provider"] != "github" {
		t.Errorf("got %v, want a source that receives webhooks", got)
	}
}
