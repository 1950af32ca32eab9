package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

// newConsumingFixture is a console whose API has a source that consumes messages.
func newConsumingFixture(t *testing.T) *fixture {
	t.Helper()
	f := newSourceFixture(t)
	s := github()
	s.Provider, s.Scheme, s.Options, s.ReplayProtection = nil, nil, map[string]string{}, "off"
	s.Consume = &client.Consume{Type: "kafka", Brokers: new("k.example:9092")}
	s.Consumer = &client.Consumer{Status: "failed", Error: new("the topic does not exist " + attack), Since: today, Lag: new(int64(12))}
	f.answer("GET "+hooks, s)
	f.answer("GET "+T+"/sources", client.SourcePage{Items: []client.Source{s}})
	return f
}

func TestASourceThatConsumesMessagesShowsItsState(t *testing.T) {
	f := newConsumingFixture(t)
	for _, page := range []string{"", "/github", "/github/waiting", "/github/rejections", "/github/settings", "/github/test", "/github/routes"} {
		f.get("/console/t/acme/sources" + page).is(http.StatusOK).lacks("<script>alert")
	}
	f.get("/console/t/acme/sources").shows("consumes messages of Kafka", "failed")
	f.get("/console/t/acme/sources/github").shows("the topic does not exist &#34;&gt;&lt;script&gt;", "12 messages", "failed").lacks("URL for the sender")
	f.get("/console/t/acme/sources/github/settings").shows("Consume messages", "Rate limit").lacks("Allowed addresses", "Response to accepted webhooks")
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
