package consumers_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
)

func TestSettingsAreChecked(t *testing.T) {
	for _, c := range []struct {
		claim, text string
		want        []string // members at fault
	}{
		{"NATS", `{"type":"nats","url":"nats://n.example:4222","stream":"S","consumer":"c"}`, nil},
		{"Kafka", `{"type":"kafka","brokers":"k.example:9092","topic":"t","group":"g","start_at":"newest"}`, nil},
		{"AMQP", `{"type":"amqp","url":"amqp://m.example","queue":"q"}`, nil},
		{"Redis", `{"type":"redis_stream","url":"redis://r.example","stream":"s","group":"g"}`, nil},
		{"SQS", `{"type":"sqs","queue_url":"https://sqs.eu-central-1.amazonaws.com/1/q","region":"eu-central-1","access_key_id":"A","secret_access_key":"s"}`, nil},
		{"a consumer with a dot", `{"type":"nats","url":"nats://n.example","stream":"S","consumer":"a.b"}`, []string{"consumer"}},
		{"a subject with a space", `{"type":"nats","url":"nats://n.example","stream":"S","consumer":"c","subject":"a b"}`, []string{"subject"}},
		{"an unknown start", `{"type":"kafka","brokers":"k.example:9092","topic":"t","group":"g","start_at":"now"}`, []string{"start_at"}},
		{"no group", `{"type":"redis_stream","url":"redis://r.example","stream":"s"}`, []string{"group"}},
		{"no queue, and a large prefetch", `{"type":"amqp","url":"amqp://m.example","prefetch":1001}`, []string{"queue", "prefetch"}},
		{"a negative timeout", `{"type":"sqs","queue_url":"https://sqs.eu-central-1.amazonaws.com/1/q","region":"eu-central-1","access_key_id":"A","secret_access_key":"s",
			"visibility_timeout_seconds":-1}`, []string{"visibility_timeout_seconds"}},
		{"a type of targets only", `{"type":"pubsub"}`, []string{"type"}},
		{"no object", `"kafka"`, []string{""}},
	} {
		_, faults := consumers.Parse([]byte(c.text), nil)
		var got []string
		for _, f := range faults {
			got = append(got, f.Location)
		}
		if strings.Join(got, ",") != strings.Join(c.want, ",") || len(got) != len(c.want) {
			t.Errorf("%s: got %v, want faults of %q", c.claim, faults, c.want)
		}
	}
}

func TestSecretsAreSealedApart(t *testing.T) {
	const text = `{"type":"amqp","url":"amqp://m.example","queue":"q","username":"u","password":"hush"}`
	stored, faults := consumers.Parse([]byte(text), nil)
	if len(faults) > 0 || strings.Contains(string(stored.Settings), "hush") || !strings.Contains(stored.Secrets.Reveal(), "hush") {
		t.Fatalf("got %s (%v)", stored.Settings, faults)
	}
	redacted := func(url string) eventhook.Target {
		written, _ := consumers.Parse([]byte(`{"type":"amqp","url":"`+url+`","queue":"other","username":"u","password":"[redacted]"}`), nil)
		return written
	}
	kept, faults := consumers.KeepSecrets(redacted("amqp://m.example"), &stored)
	if len(faults) > 0 || kept.Secrets.Reveal() != stored.Secrets.Reveal() {
		t.Errorf("the secret was not kept: %v", faults)
	}
	for claim, have := range map[string]*eventhook.Target{"without a stored source": nil, "for another host": &stored} {
		if _, faults := consumers.KeepSecrets(redacted("amqp://evil.example"), have); len(faults) != 1 || faults[0].Location != "password" {
			t.Errorf("%s: got the faults %v", claim, faults)
		}
	}
	open, err := consumers.Open(kept)
	if err != nil || open.Server() != "m.example" || open.Place() != "queue other" {
		t.Errorf("got %+v (%v)", open, err)
	}
}
