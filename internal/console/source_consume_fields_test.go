package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/consumers"
)

func TestTheFormsKnowEveryBroker(t *testing.T) {
	var chosen []string
	for _, x := range brokerChoices {
		chosen = append(chosen, x.Type)
	}
	if diff := cmp.Diff(consumers.Types(), chosen); diff != "" {
		t.Errorf("the tiles differ from the types of package consumers (-want +got):\n%s", diff)
	}
	for _, kind := range consumers.Types() {
		isSecret, isRequired := membersOfSettings(consumers.NewSettings(kind))
		var members []string
		for _, x := range consumeFields(client.ConsumeType(kind)) {
			members = append(members, x.Member)
			if x.IsSecret != isSecret[x.Member] || x.Required != isRequired[x.Member] {
				t.Errorf("%s: the field %s is secret: %v, required: %v", kind, x.Member, x.IsSecret, x.Required)
			}
		}
		if diff := cmp.Diff(sortedNames(isSecret), slices.Sorted(slices.Values(members))); diff != "" {
			t.Errorf("%s: the fields differ from the settings (-want +got):\n%s", kind, diff)
		}
		if brokerNames[client.ConsumeType(kind)] == "" {
			t.Errorf("%s has no name", kind)
		}
	}
}

// Settings that are shown in a form and sent back unchanged are the same, with their secrets redacted, and a
// patch does not name them.
func TestTheFormsKeepTheSettingsOfABroker(t *testing.T) {
	const login = `"username":"u","password":"[redacted]","ca":"-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"`
	for _, text := range []string{
		`{"type":"nats","url":"tls://a.example,tls://b.example","stream":"S","consumer":"c","subject":"o.>","start_at":"newest","token":"[redacted]","credentials":"[redacted]",` + login + `}`,
		`{"type":"kafka","brokers":"a.example:9092","topic":"t","group":"g","start_at":"oldest","tls":false,"mechanism":"scram-sha-512",` + login + `}`,
		`{"type":"kafka","brokers":"a.example:9092","topic":"t","group":"g","tls":true}`,
		`{"type":"amqp","url":"amqps://a.example/v","queue":"q","prefetch":9007199254740993,` + login + `}`,
		`{"type":"redis_stream","url":"rediss://a.example/0","stream":"s","group":"g","start_at":"newest",` + login + `}`,
		`{"type":"sqs","queue_url":"https://sqs.example/1/q","region":"eu-west-1","access_key_id":"A","secret_access_key":"[redacted]","session_token":"[redacted]","visibility_timeout_seconds":30}`,
	} {
		var stored client.Consume
		if err := json.Unmarshal([]byte(text), &stored); err != nil {
			t.Fatal(err)
		}
		v := url.Values{}
		putConsume(v, &stored)
		for name := range v {
			v.Set(name, strings.ReplaceAll(v.Get(name), "\n", "\r\n")) // as browsers do
		}
		f := form{Values: v, Faults: map[string]string{}}
		created := membersOf(&f, false)
		created.consume(stored.Type)
		got, err := json.Marshal(created.object["consume"])
		if err != nil || len(f.Faults) > 0 {
			t.Fatalf("%s: %v, %v", text, err, f.Faults)
		}
		if diff := cmp.Diff(asMap(t, []byte(text)), asMap(t, got)); diff != "" {
			t.Errorf("%s (-stored +sent):\n%s", stored.Type, diff)
		}
		patch := membersOf(&f, true)
		patch.patchConsume(&stored)
		if len(patch.object) > 0 {
			t.Errorf("%s: a patch without a change has %v", stored.Type, patch.object)
		}
	}
}
