package eventhook_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// validSubscription returns a subscription without faults.
func validSubscription(change ...func(*eventhook.Subscription)) eventhook.Subscription {
	s := eventhook.Subscription{Name: "billing", EventTypes: []string{"payment.*", "*", "a.b"}}
	s.URL = eventhook.NewSecret("https://billing.example/hooks")
	s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSigningSecret()}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestSubscriptionValidate(t *testing.T) {
	settings := func(change func(*eventhook.SubscriptionSettings)) func(*eventhook.Subscription) {
		return func(s *eventhook.Subscription) { change(&s.SubscriptionSettings) }
	}
	retry := func(p eventhook.RetryPolicy) func(*eventhook.Subscription) {
		return settings(func(s *eventhook.SubscriptionSettings) { s.Retry = p })
	}
	for _, c := range []struct {
		claim  string
		change func(*eventhook.Subscription)
		want   []string
	}{
		{"nothing", func(*eventhook.Subscription) {}, nil},
		{"no name", func(s *eventhook.Subscription) { s.Name = " " }, []string{"name"}},
		{"no event types", func(s *eventhook.Subscription) { s.EventTypes = nil }, []string{"event_types"}},
		{"invalid patterns", func(s *eventhook.Subscription) { s.EventTypes = []string{"a", "a*", "*.a", "", "a.**", "a.*.b"} },
			[]string{"event_types[1]", "event_types[2]", "event_types[3]", "event_types[4]", "event_types[5]"}},
		{"patterns that match no event that a subscription can receive", func(s *eventhook.Subscription) {
			s.EventTypes = []string{"a b", "a..b", ".a", "a.", "a..*", "a\u200bb", " *", "tenant.created", "é/x", "tenant.updated", "tenant.*", "Push"}
		}, []string{"event_types[0]", "event_types[1]", "event_types[2]", "event_types[3]", "event_types[4]", "event_types[5]", "event_types[6]", "event_types[7]"}},
		{"the maximum number of types", func(s *eventhook.Subscription) { s.EventTypes = slices.Repeat([]string{"a"}, 100) }, nil},
		{"too many types", func(s *eventhook.Subscription) { s.EventTypes = slices.Repeat([]string{"a"}, 101) }, []string{"event_types"}},
		{"no URL", func(s *eventhook.Subscription) { s.URL = eventhook.Secret{} }, []string{"url"}},
		{"an auth header with a line break", func(s *eventhook.Subscription) { s.AuthHeader = eventhook.NewSecret("Bearer x\r\nX: y") }, []string{"auth_header"}},
		{"a short secret", func(s *eventhook.Subscription) { s.Signing[0].Secret = eventhook.NewSecret("short") }, []string{"signing_secret"}},
		{"lost secrets are not checked", func(s *eventhook.Subscription) {
			s.SubscriptionSecrets, s.SecretsLost = eventhook.SubscriptionSecrets{}, true
		}, nil},
		{"reserved and custom headers", settings(func(s *eventhook.SubscriptionSettings) {
			s.Headers = map[string]string{"X-Env": "prod", "webhook-id": "x", "X-Eventhook-Attempt": "1", "Host": "a", "Authorization": "b", "X-Empty": "", "X-Line": "a\nb", "": "x", "x-env": "p"}
		}), []string{"headers.", "headers.Authorization", "headers.Host", "headers.X-Empty", "headers.X-Eventhook-Attempt", "headers.X-Line", "headers.webhook-id", "headers.x-env"}},
		{"labels", settings(func(s *eventhook.SubscriptionSettings) {
			s.TargetLabels = []string{"env:prod", "region:eu/west-1", "prod", "a:", ":b", "a:b c", "a:b:c", "ü:b", strings.Repeat("a", 128) + ":b"}
		}), []string{"target_labels[2]", "target_labels[3]", "target_labels[4]", "target_labels[5]", "target_labels[6]", "target_labels[7]", "target_labels[8]"}},
		{"minimum values", settings(func(s *eventhook.SubscriptionSettings) {
			s.Retry = eventhook.RetryPolicy{MaxRetries: new(0), InitialDelayMS: 100, BackoffMultiplier: 1, MaxDelayMS: 1000}
			s.TimeoutSeconds, s.DisableAfterFailures, s.MaxInFlight, s.RatePerSecond, s.Signatures = 1, new(0), 1, 1, []string{"v1a"}
		}), nil},
		{"maximum values", settings(func(s *eventhook.SubscriptionSettings) {
			s.Retry = eventhook.RetryPolicy{MaxRetries: new(10), InitialDelayMS: 60_000, BackoffMultiplier: 10, MaxDelayMS: 3_600_000, ScheduleSeconds: slices.Repeat([]int{86_400}, 10)}
			s.TimeoutSeconds, s.DisableAfterFailures, s.MaxInFlight, s.RatePerSecond, s.Signatures = 60, new(1000), 1000, 10_000, []string{"v1", "v1a"}
		}), nil},
		{"less", settings(func(s *eventhook.SubscriptionSettings) {
			s.Retry = eventhook.RetryPolicy{MaxRetries: new(-1), InitialDelayMS: 99, BackoffMultiplier: 0.9, MaxDelayMS: 999, ScheduleSeconds: []int{-1}}
			s.TimeoutSeconds, s.DisableAfterFailures, s.MaxInFlight, s.RatePerSecond = -1, new(-1), -1, -1
		}), []string{"retry.max_retries", "retry.initial_delay_ms", "retry.max_delay_ms", "retry.backoff_multiplier", "retry.schedule_seconds[0]",
			"timeout_seconds", "disable_after_failures", "max_in_flight", "rate_per_second"}},
		{"values above the maximum", settings(func(s *eventhook.SubscriptionSettings) {
			s.Retry = eventhook.RetryPolicy{MaxRetries: new(11), InitialDelayMS: 60_001, BackoffMultiplier: 10.1, MaxDelayMS: 3_600_001, ScheduleSeconds: slices.Repeat([]int{86_401}, 1)}
			s.TimeoutSeconds, s.DisableAfterFailures, s.MaxInFlight, s.RatePerSecond = 61, new(1001), 1001, 10_001
		}), []string{"retry.max_retries", "retry.initial_delay_ms", "retry.max_delay_ms", "retry.backoff_multiplier", "retry.schedule_seconds[0]",
			"timeout_seconds", "disable_after_failures", "max_in_flight", "rate_per_second"}},
		{"a schedule with too many retries", retry(eventhook.RetryPolicy{ScheduleSeconds: make([]int, 11)}), []string{"retry.schedule_seconds"}},
		{"a maximum delay below the initial delay", retry(eventhook.RetryPolicy{InitialDelayMS: 5000, MaxDelayMS: 4000}), []string{"retry.max_delay_ms"}},
		{"prefixes of headers", settings(func(s *eventhook.SubscriptionSettings) {
			s.HeaderPrefix, s.Headers = "x-acme", map[string]string{"X-Acme-Env": "a"}
		}), nil},
		{"a header that the gateway sets with the prefix", settings(func(s *eventhook.SubscriptionSettings) {
			s.HeaderPrefix, s.Headers = "x-acme", map[string]string{"X-Acme-Event-Id": "a", "X-Acme-Signature": "b"}
		}), []string{"headers.X-Acme-Event-Id", "headers.X-Acme-Signature"}},
		{"the prefix of Standard Webhooks", settings(func(s *eventhook.SubscriptionSettings) { s.HeaderPrefix = "webhook" }), []string{"header_prefix"}},
		{"a prefix that is no part of a header name", settings(func(s *eventhook.SubscriptionSettings) { s.HeaderPrefix = "X-\n" }), []string{"header_prefix"}},
		{"an unknown and a repeated signature", settings(func(s *eventhook.SubscriptionSettings) { s.Signatures = []string{"v1", "v2", "v1"} }), []string{"signatures[1]", "signatures[2]"}},
	} {
		checkFaults(t, c.claim, validSubscription(c.change).Validate(), c.want...)
	}
	many := map[string]string{}
	for i := range 51 {
		many["X-"+strings.Repeat("a", i+1)] = "v"
	}
	checkFaults(t, "too many headers", validSubscription(settings(func(s *eventhook.SubscriptionSettings) { s.Headers = many })).Validate(), "headers")
	delete(many, "X-a")
	checkFaults(t, "the maximum number of headers", validSubscription(settings(func(s *eventhook.SubscriptionSettings) { s.Headers = maps.Clone(many) })).Validate())
}

func TestSubscriptionFaultsContainNoSecret(t *testing.T) {
	const planted = "pl4nted"
	s := validSubscription(func(s *eventhook.Subscription) {
		s.URL = eventhook.NewSecret("https://user:" + planted + "@h/" + planted + "#" + planted)
		s.AuthHeader = eventhook.NewSecret(planted + "\n")
		s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret("whsec_" + planted)}}
		s.Headers = map[string]string{"X-Token": planted + "\r"}
	})
	faults := s.Validate()
	checkFaults(t, "faults of secrets", faults, "url", "auth_header", "signing_secret", "headers.X-Token")
	for _, f := range faults {
		if strings.Contains(f.Message, planted) {
			t.Errorf("%s: %s, which shows a secret", f.Location, f.Message)
		}
	}
}

func TestCheckSubscriptionURL(t *testing.T) {
	for text, want := range map[string]string{ // expected text, "" if valid without a warning
		"https://billing.example/hooks?token=x": "", "https://[2001:db8::1]:8443": "", "HTTPS://A.example": "", "https://bücher.example/ä": "", "https://a.example:/": "",
		"http://billing.example/hooks": "is not encrypted", "http://10.1.2.3": "is not encrypted",
		"":                        "is required",
		"billing.example/hooks":   "must be a URL",
		"ftp://a.example":         "must be a URL",
		"https:a.example":         "must be a URL",
		"https://":                "must be a URL",
		"https://:443/x":          "must be a URL",
		"https://a.example:99999": "must be a URL",
		"https://a.example:0":     "must be a URL",
		"https://a.example/\x00":  "must be a URL",
		"https://a.example/\xff":  "must be a URL",
		"https://a.example/%zz":   "must be a URL",
		"https://u@a.example":     "must not contain a user",
		"https://u:p@a.example":   "must not contain a user",
		"https://a.example/#x":    "must not have a fragment",
		"https://a.example/#":     "must not have a fragment",
		"https://a.example/" + strings.Repeat("x", 2048): "2066 bytes",
	} {
		wrong, warning := eventhook.CheckSubscriptionURL(text)
		isWarned := strings.HasPrefix(text, "http://")
		if got := wrong + warning; (got == "") != (want == "") || !strings.Contains(got, want) || (warning != "") != isWarned {
			t.Errorf("%q: got %q and the warning %q, want %q", text, wrong, warning, want)
		}
	}
}

func TestRotateSigningSecret(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	secret := eventhook.NewSecret
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	current := []eventhook.SigningSecret{{Secret: secret("a")}}
	shown := func(list []eventhook.SigningSecret) (texts []string) {
		for _, s := range list {
			text := s.Secret.Reveal()
			if s.ExpiresAt != nil {
				text += " " + s.ExpiresAt.Sub(now).String()
			}
			texts = append(texts, text)
		}
		return texts
	}
	for _, c := range []struct {
		claim string
		have  []eventhook.SigningSecret
		next  string
		want  []string
	}{
		{"the first secret", nil, "a", []string{"a"}},
		{"another secret", current, "b", []string{"b", "a 1h0m0s"}},
		{"the current secret", current, "a", []string{"a"}},
		{"the current secret, beside an expired one", []eventhook.SigningSecret{{Secret: secret("b")}, {Secret: secret("a"), ExpiresAt: at(0)}}, "b", []string{"b", "a 0s"}},
		{"a third secret during a rotation", []eventhook.SigningSecret{{Secret: secret("b")}, {Secret: secret("a"), ExpiresAt: at(time.Minute)}}, "c", []string{"c", "b 1h0m0s"}},
		{"an expired secret is removed", []eventhook.SigningSecret{{Secret: secret("b")}, {Secret: secret("a"), ExpiresAt: at(0)}}, "c", []string{"c", "b 1h0m0s"}},
		{"the previous secret", []eventhook.SigningSecret{{Secret: secret("b")}, {Secret: secret("a"), ExpiresAt: at(time.Minute)}}, "a", []string{"a", "b 1h0m0s"}},
		{"a fourth secret", []eventhook.SigningSecret{{Secret: secret("c")}, {Secret: secret("b"), ExpiresAt: at(time.Minute)}, {Secret: secret("a"), ExpiresAt: at(time.Minute)}}, "d",
			[]string{"d", "c 1h0m0s"}},
	} {
		before := slices.Clone(c.have)
		if got := shown(eventhook.RotateSigningSecret(c.have, secret(c.next), now, time.Hour)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.claim, got, c.want)
		}
		if !slices.Equal(shown(before), shown(c.have)) {
			t.Errorf("%s: RotateSigningSecret changed its argument", c.claim)
		}
	}
	if got := eventhook.RotateSigningSecret(current, secret("b"), now, 0); len(got) != 1 {
		t.Errorf("without grace: got %q, want the new secret only", shown(got))
	}
}

func TestWithGeneratedSecrets(t *testing.T) {
	plain := eventhook.Subscription{}.WithGeneratedSecrets()
	if wrong := eventhook.CheckSigningSecret(plain.Signing[0].Secret.Reveal()); wrong != "" || !plain.Ed25519Seed.IsZero() {
		t.Errorf("generated the secret %v (%s) and the seed %v, want a secret only", plain.Signing, wrong, plain.Ed25519Seed)
	}
	both := eventhook.Subscription{SubscriptionSettings: eventhook.SubscriptionSettings{Signatures: []string{"v1", "v1a"}}}.WithGeneratedSecrets()
	if eventhook.Ed25519PublicKey(both.Ed25519Seed) == "" {
		t.Error("generated no seed for v1a")
	}
	if again := both.WithGeneratedSecrets(); !again.Ed25519Seed.Equal(both.Ed25519Seed) || !again.Signing[0].Secret.Equal(both.Signing[0].Secret) {
		t.Error("existing secrets were generated again")
	}
	if !plain.IsSignedWith("v1") || plain.IsSignedWith("v1a") || !both.IsSignedWith("v1a") {
		t.Error("want v1 without Signatures, otherwise the listed signatures")
	}
}
