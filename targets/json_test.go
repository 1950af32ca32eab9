package targets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// wantFaults compares the locations of faults, in any order. It requires that each fault has a message
// without a secret.
func wantFaults(t *testing.T, claim string, faults eventhook.Faults, want ...string) {
	t.Helper()
	var got []string
	for _, f := range faults {
		got = append(got, f.Location)
		if f.Message == "" || strings.Contains(f.Message, "hush") {
			t.Errorf("%s: the fault at %s has the message %q, want a reason without the secret", claim, f.Location, f.Message)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: faults at (-want +got):\n%s%v", claim, diff, faults)
	}
}

func TestParseReportsEveryFault(t *testing.T) {
	long := strings.Repeat("x", 101)
	for _, c := range []struct {
		claim, text string
		want        []string
	}{
		{"an empty text", ``, []string{""}},
		{"a string", `"task"`, []string{""}},
		{"null", `null`, []string{""}},
		{"no type", `{}`, []string{"type"}},
		{"a type that is not a string", `{"type":7,"task_kind":7}`, []string{"type"}},
		{"a type in capitals", `{"type":"Task","task_kind":"k"}`, []string{"type"}},
		{"no kind", `{"type":"workflow"}`, []string{"workflow_kind"}},
		{"the kind of a workflow", `{"type":"task","workflow_kind":"k"}`, []string{"task_kind", "workflow_kind"}},
		{"null is ignored", `{"type":"task","task_kind":"k","queue":null,"url":null,"no":null}`, nil},
		{"long names", `{"type":"task","task_kind":"` + long + `","queue":"` + long + `"}`, []string{"task_kind", "queue"}},
		{"names with NUL", `{"type":"task","task_kind":"\u0000","queue":"a\u0000"}`, []string{"task_kind", "queue"}},
		{"too many attempts", `{"type":"task","task_kind":"k","max_attempts":101}`, []string{"max_attempts"}},
		{"no attempts", `{"type":"task","task_kind":"k","max_attempts":0}`, []string{"max_attempts"}},
		{"negative attempts", `{"type":"task","task_kind":"k","max_attempts":-1}`, []string{"max_attempts"}},
		{"attempts that are null", `{"type":"task","task_kind":"k","max_attempts":null}`, nil},
		{"a task with members of a promise", `{"type":"task","task_kind":"k","resolve":true,"value_path":"body.a","error_path":"body.b","on_missing":"hold"}`,
			[]string{"resolve", "value_path", "error_path", "on_missing"}},
		{"a promise with members of an execution", `{"type":"promise","idempotency_key_path":"body.id","workflow_kind":"k","task_kind":"k","queue":"q","max_attempts":3}`,
			[]string{"workflow_kind", "task_kind", "queue", "max_attempts"}},
		{"a promise without a key", `{"type":"promise"}`, []string{"idempotency_key_path"}},
		{"bad paths", `{"type":"promise","idempotency_key_path":"id","value_path":"body","error_path":"body..a","on_missing":"wait"}`,
			[]string{"idempotency_key_path", "value_path", "error_path", "on_missing"}},
		{"a prefix without a path", `{"type":"task","task_kind":"k","idempotency_key_prefix":"p"}`, []string{"idempotency_key_prefix"}},
		{"a long prefix", `{"type":"task","task_kind":"k","idempotency_key_path":"body.a","idempotency_key_prefix":"` + long + `"}`, []string{"idempotency_key_prefix"}},
		{"wrong types and an invalid value", `{"type":"task","task_kind":7,"queue":[],"max_attempts":1e3,"idempotency_key_path":"id"}`,
			[]string{"task_kind", "queue", "max_attempts", "idempotency_key_path"}},
		{"more wrong types", `{"type":"http","url":{},"headers":{"A":1,"B":"b","C":[]},"auth_header":{"` + hush + `":1},"timeout_seconds":"7"}`,
			[]string{"url", "headers.A", "headers.C", "auth_header", "timeout_seconds"}},
		{"headers that are not an object", httpTarget(`"headers":"A: b"`), []string{"headers"}},
		{"a boolean of the wrong type", `{"type":"promise","idempotency_key_path":"body.id","resolve":"no"}`, []string{"resolve"}},
		{"a member in capitals", `{"type":"task","Task_Kind":"k"}`, []string{"task_kind", "Task_Kind"}},
		{"an unknown member with a secret", `{"type":"http","url":"https://a.example","authorization":"` + hush + `"}`, []string{"authorization"}},
		{"no event type", `{"type":"publish"}`, []string{"event_type"}},
		{"a pattern as a type", `{"type":"publish","event_type":"payment.*"}`, []string{"event_type"}},
		{"all types", `{"type":"publish","event_type":"*"}`, []string{"event_type"}},
		{"a system event type", `{"type":"publish","event_type":"tenant.closed"}`, []string{"event_type"}},
		{"a prefix of system event types", `{"type":"publish","event_type":"tenant.reopened"}`, []string{"event_type"}},
		{"a type with white space", `{"type":"publish","event_type":"payment.made "}`, []string{"event_type"}},
		{"a long event type", `{"type":"publish","event_type":"` + strings.Repeat("x", 256) + `"}`, []string{"event_type"}},
	} {
		_, faults := targets.Parse([]byte(c.text), nil)
		wantFaults(t, c.claim, faults, c.want...)
	}
}

func TestParseSeparatesSecrets(t *testing.T) {
	got := read(t, `{"type":"http","url":"https://a.example/?a&b","auth_header":"Bearer `+hush+`"}`)
	if want := `{"auth_header":"[redacted]","url":"https://a.example/?a&b"}`; string(got.Settings) != want {
		t.Errorf("settings: got %s, want %s", got.Settings, want)
	}
	if want := `{"auth_header":"Bearer ` + hush + `"}`; got.Secrets.Reveal() != want {
		t.Errorf("secrets: got %s, want %s", got.Secrets.Reveal(), want)
	}
	if none := read(t, `{"type":"http","url":"https://a.example","auth_header":""}`); !none.Secrets.IsZero() || strings.Contains(string(none.Settings), "auth") {
		t.Errorf("an empty one: got %+v, want none", none)
	}
}

func TestParseChecksReplacedSecrets(t *testing.T) {
	const written = `{"type":"http","url":"https://a.example","auth_header":"file:x"}`
	got, faults := targets.Parse([]byte(written), func(member, text string) string { return member + " is " + text })
	wantFaults(t, "replaced", faults)
	if want := `{"auth_header":"auth_header is file:x"}`; got.Secrets.Reveal() != want {
		t.Errorf("got %s, want %s", got.Secrets.Reveal(), want)
	}
	_, faults = targets.Parse([]byte(written), func(string, string) string { return hush + "\n" })
	wantFaults(t, "two lines", faults, "auth_header")
}

func TestKeepSecrets(t *testing.T) {
	to := func(host, auth string, more ...string) string {
		return fmt.Sprintf(`{"type":"http","url":"https://%s.example","auth_header":%q%s}`, host, auth, strings.Join(append([]string{""}, more...), ","))
	}
	const task, keep = `{"type":"task","task_kind":"k"}`, "[redacted]"
	lost := func(text string) string { return "lost " + text }
	for _, c := range []struct {
		claim      string
		have, want []string
		secrets    []string // of the updated targets; or the location of the fault and a word of its message
	}{
		{"unchanged", []string{to("a", "1")}, []string{to("a", keep)}, []string{"1"}},
		{"another timeout", []string{to("a", "1")}, []string{to("a", keep, `"timeout_seconds":3`)}, []string{"1"}},
		{"a new secret", []string{to("a", "1")}, []string{to("a", "2")}, []string{"2"}},
		{"removed", []string{to("a", "1")}, []string{task}, []string{""}},
		{"at another index", []string{task, to("a", "1")}, []string{to("a", keep), task}, []string{"1", ""}},
		{"several hosts", []string{to("a", "1"), to("b", "2")}, []string{to("b", keep), to("a", keep), to("a", "3")}, []string{"2", "1", "3"}},
		{"several targets, one with the same settings", []string{to("a", "1", `"body":"raw"`), to("a", "2")}, []string{to("a", keep), task}, []string{"2", ""}},
		{"several targets, one at the same index", []string{to("a", "1"), to("a", "2")}, []string{to("a", keep), to("a", keep), task}, []string{"1", "2", ""}},
		{"several targets with the same secret", []string{to("a", "1"), to("a", "1", `"body":"raw"`)}, []string{task, task, to("a", keep, `"method":"PUT"`)}, []string{"", "", "1"}},
		{"several targets, ambiguous", []string{to("a", "1"), to("a", "2", `"body":"raw"`)}, []string{task, task, to("a", keep, `"method":"PUT"`)}, []string{"[2].auth_header several"}},
		{"another host", []string{to("a", "1")}, []string{to("evil", keep)}, []string{"[0].auth_header url"}},
		{"another path of the same host", []string{to("a", "1")}, []string{`{"type":"http","url":"https://A.example:443/b?c","auth_header":"[redacted]"}`}, []string{"1"}},
		{"another port", []string{to("a", "1")}, []string{`{"type":"http","url":"https://a.example:444","auth_header":"[redacted]"}`}, []string{"[0].auth_header url"}},
		{"another scheme", []string{to("a", "1")}, []string{`{"type":"http","url":"http://a.example","auth_header":"[redacted]"}`}, []string{"[0].auth_header url"}},
		{"a host with the same prefix", []string{to("a", "1")}, []string{`{"type":"http","url":"https://a.example.evil.test","auth_header":"[redacted]"}`}, []string{"[0].auth_header url"}},
		{"a copy with another host", []string{to("a", "1")}, []string{to("a", keep), to("evil", keep)}, []string{"[1].auth_header url"}},
		{"nothing is stored", nil, []string{to("a", keep)}, []string{"[0].auth_header stored"}},
		{"the stored target has no secret", []string{`{"type":"http","url":"https://a.example"}`}, []string{to("a", keep)}, []string{"[0].auth_header stored"}},
		{"lost, and unchanged", []string{lost(to("a", "1")), task}, []string{to("a", keep), task}, []string{"", ""}},
		{"lost, and changed", []string{lost(to("a", "1"))}, []string{to("a", keep, `"method":"PUT"`)}, []string{"[0].auth_header configured"}},
		{"lost, and set again", []string{lost(to("a", "1"))}, []string{to("a", "2")}, []string{"2"}},
		{"lost, and one of two set again", []string{lost(to("a", "1")), lost(to("b", "2"))}, []string{to("a", "3"), to("b", keep)}, []string{"[1].auth_header configured"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			var have, want []eventhook.Target
			for _, text := range c.have {
				stored := read(t, strings.TrimPrefix(text, "lost "))
				if strings.HasPrefix(text, "lost ") {
					stored.Secrets = eventhook.Secret{}
				}
				have = append(have, stored)
			}
			for _, text := range c.want {
				want = append(want, read(t, text))
			}
			kept, faults := targets.KeepSecrets(want, have)
			if at, word, isFault := strings.Cut(c.secrets[0], " "); isFault {
				if len(faults) != 1 || faults[0].Location != at || !strings.Contains(faults[0].Message, word) {
					t.Errorf("got %v, want one at %s with the word %q", faults, at, word)
				}
				return
			}
			wantFaults(t, "kept", faults)
			for i, secret := range c.secrets {
				if secret != "" {
					secret = fmt.Sprintf(`{"auth_header":%q}`, secret)
				}
				if got := kept[i].Secrets.Reveal(); got != secret {
					t.Errorf("[%d]: got the secrets %s, want %s", i, got, secret)
				}
			}
		})
	}
}

func TestKeepSecretsOfAuth(t *testing.T) {
	oauth2 := func(host, endpoint, secret string) string {
		return fmt.Sprintf(`{"type":"http","url":"https://%s.example","auth":{"type":"oauth2","token_url":"https://%s.example/token","client_id":"c","client_secret":%q}}`, host, endpoint, secret)
	}
	const keep = "[redacted]"
	for _, c := range []struct{ claim, want, secrets, fault string }{
		{"unchanged", oauth2("a", "login", keep), `{"auth.client_secret":"` + hush + `"}`, ""},
		{"another path of the endpoint", strings.Replace(oauth2("a", "login", keep), "/token", "/other", 1), `{"auth.client_secret":"` + hush + `"}`, ""},
		{"a new secret", oauth2("b", "evil", "new"), `{"auth.client_secret":"new"}`, ""},
		{"another host", oauth2("evil", "login", keep), "", "[0].auth.client_secret"},
		{"another host of the endpoint", oauth2("a", "evil", keep), "", "[0].auth.client_secret"},
		{"another type", `{"type":"http","url":"https://a.example","auth":{"type":"basic","username":"u","password":"[redacted]"}}`, "", "[0].auth.password"},
		{"auth_header", `{"type":"http","url":"https://a.example","auth_header":"[redacted]"}`, "", "[0].auth_header"},
	} {
		kept, faults := targets.KeepSecrets([]eventhook.Target{read(t, c.want)}, []eventhook.Target{read(t, oauth2("a", "login", hush))})
		switch {
		case c.fault != "":
			if len(faults) != 1 || faults[0].Location != c.fault {
				t.Errorf("%s: got %v, want one at %s", c.claim, faults, c.fault)
			}
		case len(faults) > 0 || kept[0].Secrets.Reveal() != c.secrets:
			t.Errorf("%s: got the secrets %s, %v; want %s", c.claim, kept[0].Secrets.Reveal(), faults, c.secrets)
		}
	}
}

// A secret is not kept for a connection that protects it less: somebody on the way could read it.
func TestKeepSecretsOfConnections(t *testing.T) {
	kafka := func(password string, more ...string) string {
		return fmt.Sprintf(`{"type":"kafka","brokers":"b.example:9092","topic":"t","username":"u","password":%q%s}`, password, strings.Join(append([]string{""}, more...), ","))
	}
	temporal := func(key string, more ...string) string {
		return onTemporal(start, append([]string{fmt.Sprintf(`"api_key":%q`, key)}, more...)...)
	}
	const keep, ca = "[redacted]", `"ca":"` + authority + `"`
	for _, c := range []struct{ claim, have, want, fault string }{
		{"unchanged", kafka(hush, ca, `"mechanism":"scram-sha-256"`), kafka(keep, ca, `"mechanism":"scram-sha-256"`), ""},
		{"TLS by name", kafka(hush), kafka(keep, `"tls":true`, `"mechanism":"plain"`), ""},
		{"TLS is added", kafka(hush, `"tls":false`), kafka(keep), ""},
		{"a stronger mechanism", kafka(hush), kafka(keep, `"mechanism":"scram-sha-512"`), ""},
		{"still without TLS", kafka(hush, `"tls":false`), kafka(keep, `"tls":false`), ""},
		{"TLS is removed", kafka(hush), kafka(keep, `"tls":false`), "[0].password"},
		{"named TLS is removed", kafka(hush, `"tls":true`), kafka(keep, `"tls":false`), "[0].password"},
		{"a weaker mechanism", kafka(hush, `"mechanism":"scram-sha-256"`), kafka(keep, `"mechanism":"plain"`), "[0].password"},
		{"the default mechanism", kafka(hush, `"mechanism":"scram-sha-512"`), kafka(keep), "[0].password"},
		{"other authorities", kafka(hush), kafka(keep, ca), "[0].password"},
		{"the authorities of the system", kafka(hush, ca), kafka(keep), "[0].password"},
		{"Temporal", temporal(hush), temporal(keep, `"tls":true`), ""},
		{"Temporal without TLS", temporal(hush), temporal(keep, `"tls":false`), "[0].api_key"},
		{"Temporal with other authorities", temporal(hush), temporal(keep, ca), "[0].api_key"},
	} {
		_, faults := targets.KeepSecrets([]eventhook.Target{read(t, c.want)}, []eventhook.Target{read(t, c.have)})
		if c.fault == "" && len(faults) > 0 || c.fault != "" && (len(faults) != 1 || faults[0].Location != c.fault) {
			t.Errorf("%s: got %v, want a fault at %q", c.claim, faults, c.fault)
		}
		if c.fault != "" && len(faults) == 1 && !strings.Contains(faults[0].Message, "tls") {
			t.Errorf("%s: got %q, want a message with tls", c.claim, faults[0].Message)
		}
	}
}

// A secret is kept for a server that has it already: the default port, the path and the order of servers do not count.
func TestKeepSecretsOfServers(t *testing.T) {
	settings := map[string]string{"redis": `"stream":"s"`, "amqp": `"routing_key":"k"`, "nats": `"subject":"s"`, "kafka": `"topic":"t"`}
	text := func(kind, servers, password string) string {
		typ, member := kind, "url"
		if kind == "redis" {
			typ = "redis_stream"
		}
		if kind == "kafka" {
			member = "brokers"
		}
		return fmt.Sprintf(`{"type":%q,%q:%q,"username":"u","password":%q,%s}`, typ, member, servers, password, settings[kind])
	}
	for _, c := range []struct {
		kind, have, want string
		isKept           bool
	}{
		{"redis", "redis://h.example", "redis://h.example:6379/5", true},
		{"redis", "redis://h.example:6379/5", "redis://H.example", true},
		{"redis", "redis://h.example", "rediss://h.example", true},
		{"redis", "rediss://h.example", "redis://h.example", false},
		{"redis", "redis://h.example", "redis://h.example:6380", false},
		{"redis", "redis://h.example", "redis://h.example.evil.example", false},
		{"redis", "redis://k.example", "redis://\u212a.example", false}, // the Kelvin sign, whose lower case is k
		{"amqp", "amqp://h.example", "amqp://h.example:5672/other", true},
		{"amqp", "amqps://h.example/a", "amqps://h.example:5671/b", true},
		{"amqp", "amqp://h.example:5671", "amqps://h.example", true},
		{"amqp", "amqp://h.example", "amqps://h.example", false}, // another port
		{"amqp", "amqps://h.example", "amqp://h.example:5671", false},
		{"nats", "nats://a.example", "tls://a.example:4222", true},
		{"nats", "nats://a.example,nats://b.example:4222", "nats://b.example, nats://a.example", true},
		{"nats", "nats://a.example,nats://b.example", "nats://b.example", true},
		{"nats", "nats://a.example", "nats://a.example,nats://b.example", false},
		{"nats", "tls://a.example", "nats://a.example", false},
		{"kafka", "a.example:9092,b.example:9092", "B.example:9092", true},
		{"kafka", "a.example:9092", "a.example:9093", false},
	} {
		_, faults := targets.KeepSecrets([]eventhook.Target{read(t, text(c.kind, c.want, "[redacted]"))}, []eventhook.Target{read(t, text(c.kind, c.have, hush))})
		if isKept := len(faults) == 0; isKept != c.isKept {
			t.Errorf("%s to %s: kept is %t, want %t (%v)", c.have, c.want, isKept, c.isKept, faults)
		}
	}
}

func TestFaultsOfTheAuthOfATarget(t *testing.T) {
	for claim, c := range map[string]struct{ settings, fault string }{
		"with auth_header":      {`"auth_header":"x","auth":{"type":"basic","username":"u","password":"p"}`, "auth"},
		"an unknown type":       {`"auth":{"type":"digest"}`, "auth.type"},
		"a text":                {`"auth":"Bearer x"`, "auth"},
		"no secret":             {`"auth":{"type":"basic","username":"u"}`, "auth.password"},
		"an unknown member":     {`"auth":{"type":"basic","username":"u","password":"p","realm":"r"}`, "auth.realm"},
		"a certificate of none": {`"auth":{"type":"mtls","certificate":"` + hush + `","private_key":"` + hush + `"}`, "auth.certificate"},
	} {
		_, faults := targets.Parse([]byte(`{"type":"http","url":"https://a.example",`+c.settings+`}`), nil)
		wantFaults(t, claim, faults, c.fault)
	}
}

// FuzzParse checks that a target that is parsed without a fault compiles, and is the same after it was
// formatted and parsed again, or stored and read again.
func FuzzParse(f *testing.F) {
	for _, text := range completeTargets {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, faults := targets.Parse([]byte(text), nil)
		if len(faults) > 0 {
			return
		}
		if _, faults = targets.KeepSecrets([]eventhook.Target{target}, nil); len(faults) > 0 {
			return // it refers to a stored secret
		}
		if _, err := targets.New(target, targets.Deps{}); err != nil {
			t.Fatalf("%s: got %v", text, err)
		}
		shown, err := targets.Format(target, func(_, secret string) string { return secret })
		if err != nil {
			t.Fatal(err)
		}
		again, faults := targets.Parse(shown, nil)
		var stored eventhook.Target
		err = stored.UnmarshalJSON([]byte(marshal(t, target)))
		if len(faults) > 0 || err != nil || string(again.Settings) != string(target.Settings) || !again.Secrets.Equal(target.Secrets) || string(stored.Settings) != string(target.Settings) {
			t.Errorf("%s: got %s and %s, want %s (%v %v)", text, again.Settings, stored.Settings, target.Settings, faults, err)
		}
	})
}
