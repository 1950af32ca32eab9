package console

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/targets"
)

// settingsOf returns the names of a kind's settings, whether each is a secret, and whether it is required.
func settingsOf(kind string) (isSecret, isRequired map[string]bool) {
	return membersOfSettings(targets.NewSettings(kind))
}

func membersOfSettings(settings targets.Checked) (isSecret, isRequired map[string]bool) {
	isSecret, isRequired = map[string]bool{}, map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(settings).Elem()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() {
			continue
		}
		_, isSecret[name] = f.Tag.Lookup("secret")
		isRequired[name] = options == ""
	}
	return isSecret, isRequired
}

func TestTheEditorKnowsEveryKindOfTarget(t *testing.T) {
	for _, kind := range targets.Types() {
		if !slices.Contains(targetTypes, kind) {
			t.Errorf("the menu lacks %s", kind)
		}
		isSecret, _ := settingsOf(kind)
		for name, is := range isSecret {
			if is && name != "auth" && !slices.Contains(targetSecrets, name) {
				t.Errorf("pages would show %s of %s", name, kind)
			}
		}
	}
	for _, kind := range targetTypes {
		typ, isTemporal := strings.CutSuffix(kind, onTemporal)
		isSecret, isRequired := settingsOf(typ)
		members := map[string]bool{}
		for _, f := range targetFields[kind] {
			if _, isKnown := isSecret[f.Member]; !isKnown || members[f.Member] {
				t.Errorf("%s: %s is no setting, or has two fields", kind, f.Member)
			}
			members[f.Member] = true
		}
		for name, is := range isRequired {
			if is && !members[name] || isSecret[name] && name != "auth" && !members[name] && (isTemporal || typ != "workflow" && typ != "promise") {
				t.Errorf("%s: %s has no field", kind, name)
			}
		}
	}
}

// A target that is shown in the editor and sent back unchanged is the same, with its secrets redacted.
func TestTheEditorKeepsTargets(t *testing.T) {
	const pem = `"-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"`
	const message = `"key_path":"body.id","body":"raw","timeout_seconds":5,"retry":{"max_retries":3}`
	for name, text := range map[string]string{
		"a workflow": `{"type":"workflow","workflow_kind":"pay","queue":"q","priority":-3,"max_attempts":9,"idempotency_key_path":"body.id","idempotency_key_prefix":"p:","idempotency_ttl_seconds":60,"engine":"eventhook"}`,
		"a workflow on Temporal": `{"type":"workflow","engine":"temporal","workflow_kind":"Pay","queue":"q","address":"t.example:7233","namespace":"acme","api_key":"[redacted]","tls":true,"certificate":` + pem +
			`,"private_key":"[redacted]","ca":` + pem + `,"timeout_seconds":5,"retry":{"max_retries":3},"idempotency_key_path":"body.id","idempotency_key_prefix":"p:","execution_timeout_seconds":60,"run_timeout_seconds":30}`,
		"a signal":  `{"type":"promise","engine":"temporal","signal_name":"paid","address":"t.example:7233","namespace":"acme","tls":false,"idempotency_key_path":"body.id","value_path":"body.v","error_path":"body.e","resolve":false}`,
		"a promise": `{"type":"promise","idempotency_key_path":"body.id","value_path":"body.v","error_path":"body.e","on_missing":"fail","resolve":false}`,
		"a request": `{"type":"http","url":"https://a.example","method":"PUT","body":"raw","auth_header":"[redacted]","timeout_seconds":5,"headers":{"X-A":"b"},"target_labels":["a:b"]}`,
		"nats": `{"type":"nats","url":"tls://a.example,tls://b.example","subject":"s.{key}","delivery":"core","username":"u","password":"[redacted]","token":"[redacted]","credentials":"[redacted]","ca":` +
			pem + `,` + message + `}`,
		"kafka":        `{"type":"kafka","brokers":"a.example:9092","topic":"t","partition_path":"body.p","tls":false,"mechanism":"scram-sha-512","username":"u","password":"[redacted]","ca":` + pem + `,` + message + `}`,
		"amqp":         `{"type":"amqp","url":"amqps://a.example/v","exchange":"e","routing_key":"r.{key}","username":"u","password":"[redacted]","ca":` + pem + `,` + message + `}`,
		"redis_stream": `{"type":"redis_stream","url":"rediss://a.example/0","stream":"s","max_length":9007199254740993,"username":"u","password":"[redacted]","ca":` + pem + `,` + message + `}`,
		"sqs":          `{"type":"sqs","queue_url":"https://sqs.example/1/q","region":"eu-west-1","access_key_id":"A","secret_access_key":"[redacted]","session_token":"[redacted]",` + message + `}`,
		"pubsub":       `{"type":"pubsub","project":"p","topic":"t","endpoint":"e.example:443","credentials":"[redacted]",` + message + `}`,
	} {
		var stored client.Target
		if err := json.Unmarshal([]byte(text), &stored); err != nil {
			t.Fatal(err)
		}
		v := url.Values{"targets": {"1"}}
		if err := putTarget(v, 0, stored); err != nil {
			t.Fatal(err)
		}
		for name := range v {
			v.Set(name, strings.ReplaceAll(v.Get(name), "\n", "\r\n")) // as browsers do
		}
		f := form{Values: v, Faults: map[string]string{}}
		got, err := json.Marshal(targetsOf(v)[0].target(&f))
		if err != nil || len(f.Faults) > 0 {
			t.Fatalf("%s: %v, %v", name, err, f.Faults)
		}
		if diff := cmp.Diff(asMap(t, []byte(text)), asMap(t, got)); diff != "" {
			t.Errorf("%s (-stored +sent):\n%s", name, diff)
		}
	}
}

func asMap(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	object, err := decodeObject(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return object
}
