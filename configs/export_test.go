package configs_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// plantedSecret is text, hexadecimal and base64.
func plantedSecret(n int) string { return fmt.Sprintf("00112233445566778899aabbccdd%04x", n) }

// everySource returns a source for each scheme of each provider, with every option,
// and sources with an explicit verifier.
func everySource(t *testing.T) (sources []eventhook.SourceConfig) {
	t.Helper()
	keys, n := publicKeys(t), 0
	secret := func() string { n++; return plantedSecret(n) }
	add := func(slug string, spec verify.Spec) {
		s := eventhook.Source{Slug: slug, Name: slug, IsEnabled: true}
		if faults := spec.AssignTo(&s); len(faults) > 0 {
			t.Fatalf("%s: %v", slug, faults)
		}
		sources = append(sources, eventhook.SourceConfig{Source: s})
	}
	for _, p := range verify.Presets() {
		spec := verify.Spec{Provider: p.ID, Scheme: p.Scheme, Options: map[string]string{}}
		required := p.RequiredFields()
		if slices.Contains(required, "secrets") || p.LearnsSecret {
			spec.Secrets = []string{secret(), secret()}
			if p.Verifier.Type == "basic_auth" {
				spec.Secrets = []string{"user:" + secret()}
			}
		}
		if slices.Contains(required, "public_keys") {
			spec.PublicKeys = []string{keys[keyKind(p.Verifier)]}
		}
		for _, o := range p.Options {
			spec.Options[o.Name] = "option-" + o.Name
			if o.Secret {
				spec.Options[o.Name] = secret()
			}
		}
		add(p.ID+"-"+p.Scheme, spec)
	}
	add("hmac", verify.Spec{Verifier: &verify.Config{Type: "hmac", Header: "X-Signature", Algorithm: "sha512", Encoding: "base64", Prefix: "${sign}=", Secrets: []string{secret(), secret()}}})
	add("basic", verify.Spec{Verifier: &verify.Config{Type: "basic_auth", Username: "yes", Password: secret()}})
	add("api-key", verify.Spec{Verifier: &verify.Config{Type: "api_key", Header: "X-Key", Values: []string{secret(), secret()}}})
	add("key", verify.Spec{Verifier: &verify.Config{Type: "public_key", Header: "X", Algorithm: "rsa_sha256", PublicKeys: []string{pemOf(keys["rsa"])}}})
	add("stamped", verify.Spec{Verifier: &verify.Config{Type: "timestamped_hmac", Header: "X", TimestampHeader: "Y", Signed: "{timestamp}.{body}",
		ToleranceSeconds: new(0), RequireHeaders: map[string]string{"X-Version": "1.0", "X-Algorithm": "on"}, Secrets: []string{secret()}}})
	add("none", verify.Spec{Verifier: &verify.Config{Type: "none"}})
	add("1-2", verify.Spec{Provider: "github", Secrets: []string{secret()}})
	for _, text := range []string{
		`{"type":"nats","url":"nats://n.example:4222","stream":"S","consumer":"c","subject":"a.>","start_at":"newest","token":"SECRET"}`,
		`{"type":"kafka","brokers":"k.example:9092","topic":"t","group":"g","mechanism":"scram-sha-512","username":"u","password":"SECRET"}`,
		`{"type":"amqp","url":"amqps://m.example","queue":"q","prefetch":5,"username":"u","password":"SECRET"}`,
		`{"type":"redis_stream","url":"rediss://r.example","stream":"s","group":"g","password":"SECRET"}`,
		`{"type":"sqs","queue_url":"https://sqs.eu-central-1.amazonaws.com/1/q","region":"eu-central-1","access_key_id":"A","secret_access_key":"SECRET"}`,
	} {
		sources = append(sources, consumingSource(t, strings.ReplaceAll(text, "SECRET", secret())))
	}
	return sources
}

// consumingSource returns a source that consumes messages. Its slug is the type of the broker.
func consumingSource(t *testing.T, consume string) eventhook.SourceConfig {
	t.Helper()
	where, faults := consumers.Parse([]byte(consume), nil)
	if len(faults) > 0 {
		t.Fatalf("%s: %v", consume, faults)
	}
	s := eventhook.Source{Slug: strings.ReplaceAll(where.Type, "_", "-") + "-messages", IsEnabled: true}
	s.Name = s.Slug
	if err := consumers.AssignTo(&s, where); err != nil {
		t.Fatal(err)
	}
	return eventhook.SourceConfig{Source: s}
}

// withoutClosed returns tenants without the verifiers of sources that consume messages: each has a random one.
func withoutClosed(tenants []eventhook.TenantConfig) []eventhook.TenantConfig {
	for _, t := range tenants {
		for i := range t.Sources {
			if t.Sources[i].Consume != nil {
				t.Sources[i].Verifier = eventhook.Secret{}
			}
		}
	}
	return tenants
}

func pemOf(der string) string {
	return "-----BEGIN PUBLIC KEY-----\n" + der + "\n-----END PUBLIC KEY-----\n"
}

func keyKind(c verify.Config) string {
	switch a := c.WithDefaults().Algorithm; {
	case strings.HasPrefix(a, "ecdsa"), strings.HasPrefix(a, "ES"):
		return "ecdsa"
	case strings.HasPrefix(a, "rsa"), strings.HasPrefix(a, "RS"):
		return "rsa"
	}
	return "ed25519"
}

func publicKeys(t *testing.T) map[string]string {
	t.Helper()
	const bits = 2048
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := rsa.GenerateKey(rand.Reader, bits)
	must(err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	d, _, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	texts := map[string]string{}
	for kind, key := range map[string]any{"rsa": r.Public(), "ecdsa": e.Public(), "ed25519": d} {
		der, err := x509.MarshalPKIXPublicKey(key)
		must(err)
		texts[kind] = base64.StdEncoding.EncodeToString(der)
	}
	return texts
}

// strange lists texts that YAML or the replacement of variables could misread.
var strange = []string{"yes", "null", "1.0", "~", "0x10", "2026-03-10", "<<", "*a", "&a", "!b", "# c", " d ", "\"e\"", "f: g", "- h", "line\nline\n", "\n i",
	"$", "$$", "$$$", "${J}", "$${K}", "a\tb", "naïve 日本 \u2028 \u0085", "file:x", "\x00", "\x07", strings.Repeat("long ", 100)}

// everything returns a tenant with every setting.
func everything(t *testing.T) []eventhook.TenantConfig {
	t.Helper()
	full := eventhook.Source{Slug: "full", Name: "Full of \"settings\"", SourceSettings: eventhook.SourceSettings{
		IdempotencyKeyPaths: []string{"body.id"}, EventTypePaths: []string{"header.x-type", "body.a + body.b"}, RequireIdempotencyKey: true,
		RateLimit: eventhook.RateLimit{RequestsPerSecond: eventhook.DefaultRequestsPerSecond, BurstSize: 7},
		Retry:     eventhook.RetryPolicy{MaxRetries: new(0), BackoffMultiplier: 1.5, ScheduleSeconds: []int{1, 2}}, AllowedIPRanges: []string{"192.0.2.0/24", "::/0"},
		Description: "two\nlines, ${X} and 'quotes'", MaxBodyBytes: 5, ContentTypes: []string{"application/json"}, Response: &eventhook.SourceReply{Status: 202, ContentType: "text/plain", Body: "on"},
		ReplayProtection: eventhook.ReplayBody,
	}}
	if faults := (verify.Spec{Verifier: &verify.Config{Type: "none"}}).AssignTo(&full); len(faults) > 0 {
		t.Fatal(faults)
	}
	texts, err := json.Marshal(strange[:len(strange)-3]) // filters cannot contain control characters
	if err != nil {
		t.Fatal(err)
	}
	target := eventhook.Target{Type: "task", Settings: []byte(`{"task_kind":"k"}`)}
	routes := []eventhook.Route{
		{Name: "plain", IsEnabled: true, Targets: []eventhook.Target{target}},
		{Name: "off", Priority: -3, FilterEventTypes: []string{"a.*", "*"}, Targets: []eventhook.Target{target, {Type: "promise", Settings: []byte(`{"idempotency_key_path":"body.id","resolve":false}`)}}},
		{Name: "conditions", IsEnabled: true, Filter: []byte(`{"body.n":{"$in":[1.50,1e3,-0,12345678901234567890123]},"body.t":` + string(texts) + `,"$or":[{"body.a":true},{"body.b":null}]}`),
			FilterExpression: "body.a == '${x}'", FilterFunction: "function filter(event) {\n  return `${event.body.a}` === '$$'\n}\n",
			Transform: &eventhook.Transform{Type: "jmespath", Expression: "{id: id}"}, Targets: []eventhook.Target{target}},
	}
	secret := 1 << 12
	for _, name := range []string{"calls billing", "calls_billing", "日本"} {
		secret++
		routes = append(routes, eventhook.Route{Name: name, IsEnabled: true, Targets: []eventhook.Target{target, callOf(t, plantedSecret(secret))}})
	}
	for i, name := range strange {
		if !strings.Contains(name, "\x00") {
			routes = append(routes, eventhook.Route{Name: strings.TrimSpace(name[:min(len(name), 20)]) + fmt.Sprint(i), IsEnabled: true, Targets: []eventhook.Target{target}})
		}
	}
	var subscriptions []eventhook.Subscription
	for i, name := range append([]string{"billing", "日本", "billing!"}, strange...) {
		if !strings.Contains(name, "\x00") {
			secret += 2
			subscriptions = append(subscriptions, subscriptionOf(fmt.Sprint(strings.TrimSpace(name[:min(len(name), 20)]), i), secret))
		}
	}
	full1 := &subscriptions[0]
	full1.Filter, full1.Status, full1.EventTypes = []byte(`{"body.n":{"$gte":1.50},"$not":{"event.type":"${x}"}}`), eventhook.SubscriptionPaused, []string{"a.*", "*"}
	full1.AuthHeader = eventhook.NewSecret(plantedSecret(1 << 14))
	full1.SubscriptionSettings = eventhook.SubscriptionSettings{Headers: map[string]string{"X-Env": "${prod}"}, TargetLabels: []string{"env:prod"},
		Retry: eventhook.RetryPolicy{MaxRetries: new(0), BackoffMultiplier: 1.5, ScheduleSeconds: []int{1}}, TimeoutSeconds: 5, DisableAfterFailures: new(0), MaxInFlight: 3,
		RatePerSecond: 7, Signatures: []string{"v1", "v1a"}}
	return []eventhook.TenantConfig{
		{Tenant: eventhook.Tenant{Slug: "acme", Name: "Acme ${and} Sons", Quota: eventhook.Quota{MaxEventsPerDay: new(int64(5)), MaxStorageBytes: new(int64(1 << 50))}},
			Sources: append(everySource(t), eventhook.SourceConfig{Source: full, Routes: routes}), Subscriptions: subscriptions},
		{Tenant: eventhook.Tenant{Slug: "acme-hmac", Name: "acme-hmac"}, Sources: everySource(t)[:2]},
		{Tenant: eventhook.Tenant{Slug: "empty", Name: "empty"}},
	}
}

// subscriptionOf returns a subscription with two secrets.
func subscriptionOf(name string, secret int) eventhook.Subscription {
	s := eventhook.Subscription{Name: name, EventTypes: []string{"*"}}
	s.URL = eventhook.NewSecret("https://a.example/" + plantedSecret(secret))
	s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(plantedSecret(secret + 1))}}
	return s
}

// callOf returns a target with a secret.
func callOf(t *testing.T, secret string) eventhook.Target {
	t.Helper()
	target, faults := targets.Parse(fmt.Appendf(nil, `{"type":"http","url":"https://a.example/?${b}&c","headers":{"Long-Name":"1","X":"$$"},"auth_header":%q}`, secret), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return target
}

// secretsOf returns the secrets of tenants in the order of their export.
func secretsOf(t *testing.T, tenants []eventhook.TenantConfig) (all []string) {
	t.Helper()
	for _, c := range tenants {
		for _, s := range c.Sources {
			if s.Consume != nil {
				all = append(all, consumeSecrets(t, s.Source)...)
				continue
			}
			spec, err := verify.ReadSpec(s.Verifier)
			if err != nil {
				t.Fatal(err)
			}
			spec.MapSecrets(func(_, secret string) string {
				all = append(all, secret)
				return secret
			})
			for _, r := range s.Routes {
				all = append(all, targetSecrets(t, r)...)
			}
		}
		for _, s := range c.Subscriptions {
			all = append(all, s.URL.Reveal())
			if !s.AuthHeader.IsZero() {
				all = append(all, s.AuthHeader.Reveal())
			}
			all = append(all, s.Signing[0].Secret.Reveal())
		}
	}
	return all
}

// consumeSecrets returns the secrets of the broker of a source in the order of their export.
func consumeSecrets(t *testing.T, s eventhook.Source) (all []string) {
	t.Helper()
	_, err := consumers.Format(*s.Consume, func(_, secret string) string {
		all = append(all, secret)
		return secret
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// variablesOf returns the variables that the comment at the top of a file lists.
func variablesOf(file []byte) (names []string) {
	for line := range strings.Lines(string(file)) {
		if name, ok := strings.CutPrefix(line, "#   "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

func TestExportedConfigurationParsesToTheSame(t *testing.T) {
	want := everything(t)
	file, err := configs.NewExporter().Export(want)
	if err != nil {
		t.Fatal(err)
	}
	names, secrets := variablesOf(file), secretsOf(t, want)
	if len(names) != len(secrets) || len(names) < 100 {
		t.Fatalf("%d variables for %d secrets", len(names), len(secrets))
	}
	env := map[string]string{}
	for i, name := range names {
		if _, twice := env[name]; twice {
			t.Errorf("the variable %s is used for two secrets", name)
		}
		env[name] = secrets[i]
	}
	for _, secret := range secrets {
		if strings.Contains(string(file), strings.TrimPrefix(strings.TrimPrefix(secret, "user:"), "https://a.example/")) {
			t.Errorf("the file contains %s", secret)
		}
	}
	got, faults := configs.ParseTenants(file, lookup(env))
	if len(faults) > 0 {
		t.Fatalf("%v in\n%s", faults, file)
	}
	if diff := cmp.Diff(withoutClosed(want), withoutClosed(got), cmp.Comparer(func(a, b eventhook.Secret) bool { return a.Reveal() == b.Reveal() }),
		cmp.Comparer(func(a, b json.RawMessage) bool { return sameJSON(t, a, b) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := configs.NewExporter().Export(got)
	if err != nil || string(again) != string(file) {
		t.Errorf("the second export differs (%v):\n%s", err, cmp.Diff(string(file), string(again)))
	}
}

// sameJSON compares JSON values; numbers must have the same digits.
func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var texts [2]string
	for i, raw := range []json.RawMessage{a, b} {
		if raw == nil {
			continue
		}
		var v any
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		texts[i] = fmt.Sprintf("%#v", v)
	}
	return texts[0] == texts[1]
}

func TestExportedFileIsReadable(t *testing.T) {
	source := eventhook.Source{Slug: "github", Name: "GitHub", IsEnabled: true, LearnedSecrets: []eventhook.Secret{eventhook.NewSecret("hiddenText")},
		SourceSettings: eventhook.SourceSettings{Retry: eventhook.RetryPolicy{MaxRetries: new(1)}}}
	if faults := (verify.Spec{Provider: "github", Secrets: []string{"hiddenText", "hiddenText"}}).AssignTo(&source); len(faults) > 0 {
		t.Fatal(faults)
	}
	route := eventhook.Route{Name: "pushes", IsEnabled: true, FilterEventTypes: []string{"push"}, Filter: []byte(`{"body.ref":{"$in":["a","b"]}}`),
		Targets: []eventhook.Target{{Type: "task", Settings: []byte(`{"queue":"ci","task_kind":"build"}`)}, callOf(t, "hiddenText")}}
	paused, again := subscriptionOf("Billing, EU", 1), subscriptionOf("Billing, EU", 3)
	paused.Status, paused.AuthHeader, paused.MaxInFlight = eventhook.SubscriptionPaused, eventhook.NewSecret("hiddenText"), 20
	paused.EventTypes, paused.Filter = []string{"payment.*", "refund"}, []byte(`{"body.amount":{"$gte":10}}`)
	paused.Signing = append(paused.Signing, eventhook.SigningSecret{Secret: eventhook.NewSecret("former")})
	again.Status, again.Ed25519Seed = eventhook.SubscriptionDisabled, eventhook.NewEd25519Seed()
	got, err := configs.NewExporter().Export([]eventhook.TenantConfig{{Tenant: eventhook.Tenant{Slug: "acme", Name: "acme"},
		Sources: []eventhook.SourceConfig{{Source: source, Routes: []eventhook.Route{route}}}, Subscriptions: []eventhook.Subscription{paused, again}}})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/exported.yaml"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

func TestExportOfNoTenantsIsValid(t *testing.T) {
	file, err := configs.NewExporter().Export(nil)
	if err != nil || !strings.HasPrefix(string(file), configs.ExportHeading) {
		t.Fatalf("got %s, %v", file, err)
	}
	if got, faults := configs.ParseTenants(file, lookup(nil)); len(got) > 0 || len(faults) > 0 {
		t.Errorf("got %v, %v; want nothing", got, faults)
	}
}

// taskOf returns a target that creates tasks of a kind.
func taskOf(kind string) (t eventhook.Target) {
	raw, _ := json.Marshal(map[string]string{"type": "task", "task_kind": kind})
	_ = json.Unmarshal(raw, &t)
	return t
}

// FuzzExport checks that an export followed by an import returns every text unchanged.
func FuzzExport(f *testing.F) {
	for _, s := range strange {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			return
		}
		raw, err := json.Marshal(map[string]any{"body.x": map[string]any{"$in": []string{text}}, text: 1})
		if err != nil {
			t.Fatal(err)
		}
		source := eventhook.Source{Slug: "s", Name: "s", IsEnabled: true}
		if faults := (verify.Spec{Verifier: &verify.Config{Type: "none"}}).AssignTo(&source); len(faults) > 0 {
			t.Fatal(faults)
		}
		source.Response = &eventhook.SourceReply{Status: 200, Body: text}
		want := eventhook.Route{Name: "r" + text, IsEnabled: true, Filter: raw, FilterExpression: text, Targets: []eventhook.Target{taskOf("k" + text)}}
		file, err := configs.NewExporter().Export([]eventhook.TenantConfig{{Tenant: eventhook.Tenant{Slug: "a", Name: "a"},
			Sources: []eventhook.SourceConfig{{Source: source, Routes: []eventhook.Route{want}}}}})
		if err != nil {
			t.Fatal(err)
		}
		tenants, faults := configs.ParseTenants(file, lookup(nil)) // faults are possible: the text may be invalid in a field
		if len(tenants) != 1 || len(tenants[0].Sources) != 1 || len(tenants[0].Sources[0].Routes) != 1 {
			t.Fatalf("%q: %v in\n%s", text, faults, file)
		}
		got := tenants[0].Sources[0].Routes[0]
		if got.Name != want.Name || got.FilterExpression != text || !bytes.Equal(got.Targets[0].Settings, want.Targets[0].Settings) || tenants[0].Sources[0].Response.Body != text || !sameJSON(t, raw, got.Filter) {
			t.Errorf("%q reads as %+v with the filter %s from\n%s", text, got, got.Filter, file)
		}
	})
}
