package targets_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

var _ route.Effector = targets.Effector(nil)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// completeTargets has a target of each kind with all its settings.
var completeTargets = map[string]string{
	"workflow": `{"type":"workflow","workflow_kind":"pay","queue":"q","max_attempts":2,"priority":-5,"idempotency_ttl_seconds":60,"idempotency_key_path":"body.id","idempotency_key_prefix":"p:"}`,
	"task":     `{"type":"task","task_kind":"pay","queue":"q","max_attempts":2,"priority":-5,"idempotency_ttl_seconds":60,"idempotency_key_path":"body.id","idempotency_key_prefix":"p:"}`,
	"promise": `{"type":"promise","idempotency_key_path":"header.x-id","idempotency_key_prefix":"p:","resolve":true,"value_path":"body.a.b",` +
		`"error_path":"body.error","on_missing":"fail"}`,
	"publish": `{"type":"publish","event_type":"payment.made","idempotency_key_path":"body.id","idempotency_key_prefix":"p:"}`,
	"http": `{"type":"http","url":"https://internal.example/a?b=c&d=<e>","method":"PUT","headers":{"X-Env":"a & b"},"auth_header":"Bearer ` + hush + `",` +
		`"timeout_seconds":7,"retry":{"max_retries":2,"schedule_seconds":[1,2]},"target_labels":[],"body":"raw"}`,
	"nats": `{"type":"nats","url":"tls://a.example,tls://b.example:4222","username":"gateway","password":"` + hush + `","ca":"` + authority + `",` +
		`"subject":"orders.{key}","delivery":"core",` + messageSettings + `}`,
	"amqp": `{"type":"amqp","url":"amqps://rabbit.example/a%2Fb","username":"gateway","password":"` + hush + `","ca":"` + authority + `",` +
		`"exchange":"orders","routing_key":"orders.{key}",` + messageSettings + `}`,
	"redis_stream": `{"type":"redis_stream","url":"rediss://redis.example:6380/2","username":"gateway","password":"` + hush + `","ca":"` + authority + `",` +
		`"stream":"orders:{key}","max_length":1000,` + messageSettings + `}`,
	"kafka": `{"type":"kafka","brokers":"b-1.example:9092,b-2.example:9092","tls":true,"mechanism":"scram-sha-512","username":"gateway",` +
		`"password":"` + hush + `","ca":"` + authority + `","topic":"orders","partition_path":"body.shard",` + messageSettings + `}`,
	"sqs": `{"type":"sqs","queue_url":"https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo","region":"eu-west-1",` +
		`"access_key_id":"AKIDEXAMPLE","secret_access_key":"` + hush + `","session_token":"` + hush + `",` + messageSettings + `}`,
	"pubsub": `{"type":"pubsub","project":"my-project","topic":"orders","endpoint":"europe-west1-pubsub.googleapis.com:443",` +
		`"credentials":"` + hush + `",` + messageSettings + `}`,
}

// otherTargets are targets with the settings that exclude some of completeTargets.
var otherTargets = map[string][]string{
	"http": {`{"type":"http","url":"https://internal.example/","auth":{"type":"oauth2","token_url":"https://login.example/token","client_id":"gateway",` +
		`"client_secret":"` + hush + `","scopes":["a","b"]}}`},
	"workflow": {`{"type":"workflow","workflow_kind":"pay","queue":"q","idempotency_key_path":"body.id","idempotency_key_prefix":"p:",` +
		`"execution_timeout_seconds":3600,"run_timeout_seconds":60,` + temporalSettings + `}`},
	"promise": {`{"type":"promise","idempotency_key_path":"header.x-id","idempotency_key_prefix":"p:","resolve":true,"value_path":"body.a.b",` +
		`"error_path":"body.error","signal_name":"paid",` + temporalSettings + `}`},
	"nats": {`{"type":"nats","url":"nats://a.example","token":"` + hush + `","subject":"orders"}`,
		`{"type":"nats","url":"nats://a.example","credentials":"` + hush + `","subject":"orders"}`},
}

// messageSettings are the settings of all kinds for brokers.
const messageSettings = `"key_path":"body.id","body":"raw","timeout_seconds":7,"retry":{"max_retries":2}`

// temporalSettings are the settings of the engine temporal.
var temporalSettings = `"engine":"temporal","address":"temporal.example:7233","namespace":"acme","api_key":"` + hush + `",` +
	`"tls":true,"certificate":"` + clientCertificate + `","private_key":"` + clientKey + `","ca":"` + authority + `","timeout_seconds":7,"retry":{"max_retries":2}`

// authority is a certificate in PEM, as in JSON.
const authority = `-----BEGIN CERTIFICATE-----\n` +
	`MIIBNDCB56ADAgECAhQiegncmmy0RHi15qfRU9jj/hXiTTAFBgMrZXAwDzENMAsG\n` +
	`A1UEAwwEdGVzdDAgFw0yNjExMjcxOTMxMTdaGA8yMTI2MTEwMzE5MzExN1owDzEN\n` +
	`MAsGA1UEAwwEdGVzdDAqMAUGAytlcAMhANxBkkOzSwEmxQUH/9oXA2sLuHrtOMLS\n` +
	`tdx9J29TD3doo1MwUTAdBgNVHQ4EFgQUM+chRIdkeS+1I47wCZn4Itgc8WkwHwYD\n` +
	`VR0jBBgwFoAUM+chRIdkeS+1I47wCZn4Itgc8WkwDwYDVR0TAQH/BAUwAwEB/zAF\n` +
	`BgMrZXADQQB153xnEA+hYXllMCcywCZpvRvsvD7uV1jP6tMJyh1FrTIB050ud4Iq\n` +
	`71ip0wVXt9Gb5B62J4yRC3oxx7QS8OMJ\n` +
	`-----END CERTIFICATE-----\n`

// hush is a part of every secret and of no other value.
const hush = "hush-7f3a9c&<>"

// read parses a valid target.
func read(t *testing.T, text string) eventhook.Target {
	t.Helper()
	target, faults := targets.Parse([]byte(text), nil)
	if len(faults) > 0 {
		t.Fatalf("%s: got %v, want no faults", text, faults)
	}
	return target
}

// compile compiles a valid target.
func compile(t *testing.T, text string) targets.Effector {
	t.Helper()
	x, err := targets.New(read(t, text), targets.Deps{})
	if err != nil {
		t.Fatalf("New(%s): %v", text, err)
	}
	return x
}

func newEvent(contentType, body string) *eventhook.Event {
	return &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon), ContentType: contentType,
		Payload: eventhook.Payload{Headers: []byte("X-Id: 7\r\n"), Body: []byte(body)},
	}
}

func view(e *eventhook.Event) *payload.View {
	return payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body)
}

// effectOf compiles a target and returns its effect for an event with a JSON body.
func effectOf(t *testing.T, target, body string) (effects.Effect, error) {
	t.Helper()
	e := newEvent("application/json", body)
	return compile(t, target).Effect(e, view(e), noon)
}

func TestEveryKind(t *testing.T) {
	if len(targets.Types()) == 0 {
		t.Fatal("there are no target types")
	}
	for _, kind := range targets.Types() {
		text, ok := completeTargets[kind]
		if !ok {
			t.Errorf("%s: missing in completeTargets", kind)
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Run("settings", func(t *testing.T) { settingsSuite(t, kind, text) })
			for _, other := range otherTargets[kind] {
				t.Run("other settings", func(t *testing.T) { settingsSuite(t, kind, other) })
			}
			t.Run("effects", func(t *testing.T) { effectsSuite(t, text) })
		})
	}
}

// settingsSuite tests the contract of Settings.
func settingsSuite(t *testing.T, kind, text string) {
	target := read(t, text)
	all := completeTargets[kind] + strings.Join(otherTargets[kind], "")
	blank := reflect.TypeOf(targets.NewSettings(kind)).Elem()
	for _, f := range reflect.VisibleFields(blank) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && (f.Tag.Get("doc") == "" || !strings.Contains(all, `"`+name+`":`)) {
			t.Errorf("%s: has no doc tag, or is missing in completeTargets", name)
		}
	}
	for form, seen := range map[string]string{"printed": fmt.Sprintf("%v %+v %#v", target, target, target), "marshalled": marshal(t, target), "settings": string(target.Settings)} {
		if strings.Contains(seen, "hush") {
			t.Errorf("%s: %s shows the secret", form, seen)
		}
	}
	var again eventhook.Target
	if err := json.Unmarshal([]byte(marshal(t, target)), &again); err != nil || again.Type != target.Type || string(again.Settings) != string(target.Settings) {
		t.Errorf("stored and read again: got %+v, %v; want %+v", again, err, target)
	}
	shown, err := targets.Format(target, func(_, secret string) string { return secret })
	if err != nil || string(shown) != text {
		t.Errorf("shown: got %s, %v; want %s", shown, err, text)
	}
	if _, err := targets.New(again, targets.Deps{}); (err != nil) != strings.Contains(text, "hush") || err != nil && !strings.Contains(err.Error(), "set the secret again") {
		t.Errorf("without its secrets: got %v", err)
	}
	if _, faults := targets.Parse([]byte(`{"type":"`+kind+`","nothing":1}`), nil); len(faults) < 2 || faults[len(faults)-1].Location != "nothing" {
		t.Errorf("no settings but an unknown member: got %v, want a fault of both", faults)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// effectsSuite tests the contract of Effector.
func effectsSuite(t *testing.T, target string) {
	x := compile(t, target)
	bodies := []string{
		`{"id":1,"a":{"b":2}}`, "", "null", "[]", `"x"`, "7", "{", "hello", "\xff\x00", "\xef\xbb\xbf{}", `{"id":null,"error":null}`,
		`{"id":"\u0000","error":"\u0000"}`, `{"error":{"id":[]}}`, strings.Repeat("[", 1_000_000), `{"id":` + strings.Repeat("9", 10_000) + `}`,
	}
	for _, body := range bodies {
		for _, contentType := range []string{"", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "image/png", "\xff"} {
			e := newEvent(contentType, body)
			before := *e
			first, firstErr := x.Effect(e, view(e), noon)
			second, secondErr := x.Effect(e, view(e), noon)
			// Not cmp.Equal: it takes seconds for bodies of this size.
			if !reflect.DeepEqual(withoutID(first), withoutID(second)) || (firstErr == nil) != (secondErr == nil) {
				t.Errorf("%s %.40q: got %+v, %v and then %+v, %v; want the same twice", contentType, body, first, firstErr, second, secondErr)
			}
			if !reflect.DeepEqual(before, *e) || string(e.Body) != body {
				t.Errorf("%s %.40q: got the event %+v afterwards, want %+v", contentType, body, *e, before)
			}
			if firstErr == nil {
				checkEffect(t, body, first)
			}
			if a, b := idOf(first), idOf(second); a == b && a != "" {
				t.Errorf("%.40q: two effects have the same id %s", body, a)
			}
			if len(body) < 1000 && showsSecret(first, firstErr) {
				t.Errorf("%.40q: the effect shows the secret", body)
			}
		}
	}
}

// showsSecret reports whether an effect, its request or its error contains a secret.
func showsSecret(e effects.Effect, err error) bool {
	text := fmt.Sprintf("%+v %#v %v", e, e, err)
	if e.Request != nil {
		text += fmt.Sprintf("%s %s", e.Request.Body, e.Request.Preview())
	}
	return strings.Contains(text, "hush")
}

func checkEffect(t *testing.T, body string, e effects.Effect) {
	t.Helper()
	set := 0
	if x := e.Execution; x != nil {
		set++
		checkKey(t, body, x.IdempotencyKey)
	}
	if p := e.Promise; p != nil {
		set++
		if (p.Status == eventhook.PromiseResolved) != json.Valid(p.Value) || (p.Status == eventhook.PromiseRejected) != (p.Error != "") {
			t.Errorf("%.40q: got %s with value %s, error %q; want a value if resolved, and an error if rejected", body, p.Status, p.Value, p.Error)
		}
		checkKey(t, body, p.Key)
		if p.Error != eventhook.SanitizeText(p.Error) {
			t.Errorf("%.40q: got error %q, which cannot be stored", body, p.Error)
		}
	}
	if p := e.Publication; p != nil {
		set++
		checkKey(t, body, p.IdempotencyKey)
		if !json.Valid(p.Data) || p.EventType == "" {
			t.Errorf("%.40q: got %+v, want data that is JSON", body, p)
		}
	}
	if q := e.Request; q != nil {
		set++
		if !json.Valid(q.Preview()) || len(q.Preview()) > 1<<20 {
			t.Errorf("%.40q: got a request with %.100s; want JSON of at most 1 MiB", body, q.Preview())
		}
	}
	if set != 1 {
		t.Errorf("%.40q: got %+v, want one effect", body, e)
	}
}

func checkKey(t *testing.T, body, key string) {
	t.Helper()
	if key != eventhook.NormalizeKey(key) {
		t.Errorf("%.40q: got key %q, which cannot be stored", body, key)
	}
}

func idOf(e effects.Effect) string {
	switch {
	case e.Execution != nil:
		return e.Execution.ID.String()
	case e.Publication != nil:
		return e.Publication.ID.String()
	}
	return ""
}

// withoutID returns an effect without the ids and functions that differ from call to call.
func withoutID(e effects.Effect) effects.Effect {
	if e.Execution != nil {
		x := *e.Execution
		x.ID = eventhook.ExecutionID{}
		e.Execution = &x
	}
	if e.Publication != nil {
		p := *e.Publication
		p.ID = eventhook.EventID{}
		e.Publication = &p
	}
	if e.Request != nil {
		e.Request = &effects.Request{Body: e.Request.Body} // functions are never equal
	}
	return e
}

func TestNewRefusesFaults(t *testing.T) {
	for claim, target := range map[string]eventhook.Target{
		"no type":          {},
		"an unknown type":  {Type: "mail"},
		"no kind":          {Type: "task"},
		"another's member": {Type: "task", Settings: []byte(`{"task_kind":"k","url":"x"}`)},
		"a wrong type":     {Type: "task", Settings: []byte(`{"task_kind":7}`)},
		"a bad path":       {Type: "promise", Settings: []byte(`{"idempotency_key_path":"id"}`)},
	} {
		if x, err := targets.New(target, targets.Deps{}); err == nil || x != nil {
			t.Errorf("%s: got %v, %v; want an error", claim, x, err)
		} else if isUnknown := claim == "no type" || claim == "an unknown type"; errors.Is(err, eventhook.ErrUnknownTarget) != isUnknown {
			t.Errorf("%s: got %v; want ErrUnknownTarget: %t", claim, err, isUnknown)
		}
	}
}

func TestTargetsUseTheOutputOfTheTransform(t *testing.T) {
	e := newEvent("application/json", `{"id":"k","value":1}`)
	v := view(e).WithTransformed([]byte(`{"made":true}`))
	effect := func(target string) effects.Effect {
		got, err := compile(t, target).Effect(e, v, noon)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	task := effect(`{"type":"task","task_kind":"k","idempotency_key_path":"body.id"}`).Execution
	if string(task.Input) != `{"made":true}` || task.IdempotencyKey != "k" {
		t.Errorf("task: got input %s, key %q; want the output of the transform, and the key of the event", task.Input, task.IdempotencyKey)
	}
	whole := effect(promiseTarget()).Promise
	part := effect(promiseTarget(`"value_path":"body.value"`)).Promise
	if string(whole.Value) != `{"made":true}` || string(part.Value) != "1" {
		t.Errorf("promise: got %s and, by path, %s; want the output of the transform, and 1 from the event", whole.Value, part.Value)
	}
	published := effect(`{"type":"publish","event_type":"a.b","idempotency_key_path":"body.id"}`).Publication
	if string(published.Data) != `{"made":true}` || published.IdempotencyKey != "k" {
		t.Errorf("publish: got %+v; want the output of the transform, and the key of the event", published)
	}
}
