package console_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

// orders is a source that consumes messages.
func orders() client.Source {
	s := github()
	s.Provider, s.Scheme, s.Options, s.ReplayProtection = nil, nil, map[string]string{}, "off"
	s.Consume = &client.Consume{Type: "kafka", Brokers: new("k.example:9092"), Topic: new("orders"), Group: new("eventhook"), Username: new("u"), Password: new("[redacted]")}
	s.Consumer = &client.Consumer{Status: "failed", Error: new("the topic does not exist " + attack), Since: today, Lag: new(int64(12))}
	return s
}

// newConsumingFixture is a console whose API has a source that consumes messages.
func newConsumingFixture(t *testing.T) *fixture {
	t.Helper()
	f := newSourceFixture(t)
	f.answer("GET "+hooks, orders())
	f.answer("GET "+T+"/sources", client.SourcePage{Items: []client.Source{orders()}})
	return f
}

func TestASourceThatConsumesMessagesShowsItsState(t *testing.T) {
	f := newConsumingFixture(t)
	for _, page := range []string{"", "/github", "/github/waiting", "/github/rejections", "/github/settings", "/github/test", "/github/routes"} {
		f.get("/console/t/acme/sources" + page).is(http.StatusOK).lacks("<script>alert")
	}
	f.get("/console/t/acme/sources").shows("consumes messages of Kafka", "failed", "URL or consumer")
	f.get("/console/t/acme/sources/github/test").shows("Paste a message").lacks("Paste a request", "PATCH")
	f.get("/console/t/acme/sources/github").shows("the topic does not exist &#34;&gt;&lt;script&gt;", "12 messages", "failed", "<dt>Topic</dt><dd>orders</dd>").lacks("URL for the sender")
	f.get("/console/t/acme/sources/github/settings").shows("Consume messages", "Rate limit", "Messages per minute", "It deletes nothing at the broker", "the position of the message is the key", "The gateway stops consuming its messages.").lacks("Allowed addresses", "Response to accepted webhooks", "URL stops working")
}

func TestTheSettingsOfASourceThatConsumesMessagesAreSaved(t *testing.T) {
	f := newConsumingFixture(t)
	f.answer("PATCH "+hooks, github())
	f.post("/console/t/acme/sources/github/settings", url.Values{"name": {"Orders"}, "version": {"3"}, "is_enabled": {"true"}, "rate_limit.requests_per_second": {"7"}}).is(http.StatusSeeOther)
	body := f.called("PATCH " + hooks).Body
	var patch map[string]any
	if err := json.Unmarshal([]byte(body), &patch); err != nil || patch["name"] != "Orders" {
		t.Errorf("got the patch %s (%v)", body, err)
	}
	for _, name := range []string{"replay_protection", "allowed_ip_ranges", "public_keys", "response", "secrets", "tolerance_seconds", "consume"} {
		if strings.Contains(body, name) {
			t.Errorf("the patch %s has %s", body, name)
		}
	}
}

// hasCalled reports whether the console called the API with a method and path.
func (f *fixture) hasCalled(call string) bool {
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	return slices.ContainsFunc(f.api.calls, func(c apiCall) bool { return c.Call == call })
}

const newSource = "/console/t/acme/sources/new"

func TestABrokerIsChosenFromTiles(t *testing.T) {
	f := newSourceFixture(t)
	page := f.get(newSource).is(http.StatusOK).shows("Messages of a broker", "AMQP (RabbitMQ)")
	for _, kind := range []string{"nats", "kafka", "amqp", "redis_stream", "sqs"} {
		page.shows("sources/new?consume=" + kind)
		f.get(newSource+"?consume="+kind).is(http.StatusOK).shows("Connect the broker", `name="consume" value="`+kind+`"`).lacks("Enter this URL", "hooks.example", "Verify the requests")
	}
	f.get(newSource+"?consume=kafka").shows(`name="consume.topic" type="text" value="" placeholder="orders" required`, `name="consume.mechanism"`, `name="consume.password" type="text" value="" class`, "Where a group without offsets begins.")
	f.get(newSource + "?consume=pubsub").is(http.StatusNotFound)
}

func TestASourceThatConsumesMessagesIsCreated(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("POST "+T+"/sources", orders())
	amqp := url.Values{"consume": {"amqp"}, "slug": {"orders"}, "name": {""}, "consume.url": {" amqps://mq.example "}, "consume.queue": {"orders"}, "consume.prefetch": {"many"},
		"consume.username": {"u"}, "consume.password": {typed}, "consume.ca": {"a\r\nb\r\n"}, "consume.topic": {"of another type"}}
	f.post(newSource, amqp).is(http.StatusUnprocessableEntity).shows("is not a whole number", again, `value="orders"`).lacksSecret()
	if f.hasCalled("POST " + T + "/sources") {
		t.Error("a form with a fault is sent")
	}
	amqp.Set("consume.prefetch", "5")
	f.post(newSource, amqp).redirects("/console/t/acme/sources/github/waiting")
	want := string(asJSON(map[string]any{"slug": "orders", "consume": map[string]any{"type": "amqp", "url": "amqps://mq.example", "queue": "orders", "prefetch": 5, "username": "u", "password": typed, "ca": "a\nb\n"}}))
	if got := f.called("POST " + T + "/sources").Body; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	kafka := url.Values{"consume": {"kafka"}, "slug": {"orders"}, "consume.tls": {"false"}, "consume.brokers": {"k.example:9092"}}
	f.post(newSource, kafka).redirects("/console/t/acme/sources/github/waiting")
	if got, want := f.called("POST "+T+"/sources").Body, `{"consume":{"brokers":"k.example:9092","tls":false,"type":"kafka"},"slug":"orders"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

// showsFaultsOfBroker fails the test unless a page shows the faults of consume at their fields.
func (r reply) showsFaultsOfBroker() {
	r.Helper()
	r.is(http.StatusUnprocessableEntity).lacksSecret().lacks("<script>alert").
		shows(`id="h-consume.topic"><p class="fault" role="alert">must have letters `, `<p class="fault" role="alert">is odd</p>`, again)
}

func TestFaultsOfABrokerStandAtTheirFields(t *testing.T) {
	f := newConsumingFixture(t)
	refusal := &client.Problem{Title: "Refused", Status: http.StatusUnprocessableEntity, Errors: []client.Fault{
		{Location: "body.consume.topic", Message: "must have letters " + attack}, {Location: "body.consume.type", Message: "is odd"}}}
	f.answer("POST "+T+"/sources", refusal)
	f.answer("PATCH "+hooks, refusal)
	form := url.Values{"consume": {"kafka"}, "slug": {"orders"}, "consume.topic": {"a b"}, "consume.password": {typed}}
	f.post(newSource, form).showsFaultsOfBroker()
	form.Set("version", "3")
	f.post("/console/t/acme/sources/github/settings", form).showsFaultsOfBroker()
}

// formOfOrders returns the fields of the source orders, as the settings send them.
func formOfOrders() url.Values {
	return url.Values{"version": {"3"}, "name": {"Orders"}, "is_enabled": {"true"}, "consume.brokers": {"k.example:9092"}, "consume.topic": {"orders"}, "consume.group": {"eventhook"}, "consume.start_at": {""},
		"consume.tls": {""}, "consume.mechanism": {""}, "consume.username": {"u"}, "consume.password": {"[redacted]"}, "consume.ca": {""}}
}

func TestTheSettingsOfABrokerAreChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change url.Values
		want   string // the member consume of the patch; "" for none
	}{
		"nothing":          {nil, ""},
		"white space":      {url.Values{"consume.topic": {" orders "}}, ""},
		"another topic":    {url.Values{"consume.topic": {"payments"}}, `{"topic":"payments"}`},
		"another password": {url.Values{"consume.password": {"new"}}, `{"password":"new"}`},
		"no credentials":   {url.Values{"consume.username": {""}, "consume.password": {""}}, `{"password":null,"username":null}`},
		"without TLS":      {url.Values{"consume.tls": {"false"}}, `{"tls":false}`},
		"another type":     {url.Values{"consume.type": {"nats"}, "consume": {"nats"}}, ""},
	} {
		f := newConsumingFixture(t)
		f.answer("PATCH "+hooks, orders())
		form := formOfOrders()
		maps.Copy(form, c.change)
		f.post("/console/t/acme/sources/github/settings", form).redirects("/console/t/acme/sources/github/settings")
		var patch map[string]json.RawMessage
		if err := json.Unmarshal([]byte(f.called("PATCH "+hooks).Body), &patch); err != nil {
			t.Fatal(err)
		}
		if got := string(patch["consume"]); got != c.want {
			t.Errorf("%s: consume, got %s, want %s", name, got, c.want)
		}
	}
}

func TestTheSettingsShowNoSecretOfABroker(t *testing.T) {
	f := newConsumingFixture(t)
	f.get("/console/t/acme/sources/github/settings").is(http.StatusOK).
		shows(`name="consume.topic" type="text" value="orders"`, `name="consume.password" type="text" value="[redacted]"`).lacks(again)
	form := formOfOrders()
	form.Set("consume.password", typed)
	f.answer("PATCH "+hooks, &client.Problem{Title: "Refused", Status: http.StatusPreconditionFailed})
	f.post("/console/t/acme/sources/github/settings", form).is(http.StatusPreconditionFailed).lacksSecret().shows(again, `name="consume.password" type="text" value="[redacted]"`)
	if body := f.called("PATCH " + hooks).Body; !strings.Contains(body, "hunter2") {
		t.Errorf("the API got %s, want the secret in it", body)
	}
}

func TestWaitingSaysWhetherMessagesAreConsumed(t *testing.T) {
	for status, texts := range map[client.ConsumerStatus][]string{
		"running": {"The gateway consumes the messages of the broker.", "Waiting for the first event"},
		"waiting": {"Waiting for the first event", "<dt>Reason</dt><dd>the reason"},
		"failed":  {"The broker cannot be used", "<p>the reason", "tries again", `href="/console/t/acme/sources/github/settings"`},
		"stopped": {"No messages are consumed", "disabled"},
	} {
		f := newConsumingFixture(t)
		s := orders()
		s.Consumer = &client.Consumer{Status: status, Error: new("the reason " + attack), Since: today}
		f.answer("GET "+hooks, s)
		f.answer("GET "+hooks+"/rejections", client.RejectionsAnswer{})
		f.get("/console/t/acme/sources/github/waiting").is(http.StatusOK).shows(texts...).
			shows("data-refresh", "<dt>Topic</dt><dd>orders</dd>", "<dt>Brokers</dt>").lacks("<script>alert", "hooks.example", "curl", "At the sender", "[redacted]")
		if status != "running" {
			f.get("/console/t/acme/sources/github/waiting").lacks("The gateway consumes the messages")
		}
		f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "e1", EventType: "order", ReceivedAt: today}}})
		page := f.get("/console/t/acme/sources/github/waiting").shows("/console/t/acme/events/e1", "consumed").lacks("Waiting for the first event", "verified")
		if got := strings.Contains(page.body, "data-refresh"); got != (status != "running") {
			t.Errorf("%s: the page with an event is refreshed: %v", status, got)
		}
	}
}
